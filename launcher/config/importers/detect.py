"""Detect the format of an inventory by text that only this format has."""

import re
from itertools import islice

from launcher.config.importers import domain_map
from launcher.config.importers.ansible_ini import SECTION
from launcher.config.importers.foreign_yaml import compose_yaml
from launcher.config.importers.formats import InventoryFormat
from launcher.config.importers.text_lines import Line, lines
from launcher.config.yaml.diagnostics import Diagnostics
from launcher.config.yaml.nodes import MappingNode, ScalarNode, SequenceNode, YamlNode
from launcher.config.yaml.text_file import refuse

ENOUGH = 2000
"""Lines of a file that are looked at."""

_SLURM = re.compile(r"#*\s*(?:BlockName|SwitchName)\s*=", re.IGNORECASE)
_SHOWN = re.compile(r"\b(?:BlockIndex|BlockSize|AggregatedBlock|Level)=", re.IGNORECASE)
_SSH = re.compile(r"(?:Host|Match)(?:\s+|\s*=\s*)\S", re.IGNORECASE)
_SSH_ALONE = re.compile(r"(?:Host|HostName|IdentityFile|ProxyJump|Include|Match)\s", re.IGNORECASE)
_ANSIBLE = re.compile(r"\sansible_\w+\s*=")
_YAML = re.compile(r"---(?:\s|$)|-\s+\S|[\"']?[^\s\"'#:=\[\]]+[\"']?\s*:(?:\s|$)|\{")


def detect_format(text: str, where: str) -> InventoryFormat:
    """Return the format of a text; SpecError if it is unknown."""
    found = list(islice((line for line in lines(text) if line.text), ENOUGH))
    if not found:
        if any(_SLURM.match(line.comment) for line in lines(text)):
            return InventoryFormat.SLURM_CONF
        raise refuse(where, "the file lists no machines")
    first = found[0].text
    if any(_SLURM.match(line.text) for line in found):
        return (
            InventoryFormat.SLURM_SHOW
            if any(_SHOWN.search(line.text) for line in found)
            else InventoryFormat.SLURM_CONF
        )
    if _mostly_domains(found):
        return InventoryFormat.DOMAIN_MAP
    if _SSH_ALONE.match(first) and any(_SSH.match(line.text) for line in found):
        return InventoryFormat.SSH_CONFIG
    if first.startswith("{"):
        return InventoryFormat.KUBERNETES
    if _ini(found):
        return InventoryFormat.ANSIBLE_INI
    if _YAML.match(first):
        return _of_yaml(text, where)
    return InventoryFormat.HOSTFILE


def _mostly_domains(found: list[Line]) -> bool:
    return 2 * sum(bool(domain_map.LINE.fullmatch(line.text)) for line in found) > len(found)


def _ini(found: list[Line]) -> bool:
    headers = [SECTION.fullmatch(line.text) for line in found]
    named = [header for header in headers if header and re.match(r"[A-Za-z_]", header[1])]
    return bool(named) or any(_ANSIBLE.search(f" {line.text}") for line in found if not line.text.endswith(":"))


def _of_yaml(text: str, where: str) -> InventoryFormat:
    out = Diagnostics(where)
    root = compose_yaml(text, out)[0]
    if isinstance(root, SequenceNode):
        return InventoryFormat.SLURM_YAML
    keys = {key.text: value for key, value in root.pairs} if isinstance(root, MappingNode) else {}
    if "racks" in keys:
        raise refuse(where, "this is already an inventory of nvlaunch", mark=root.mark, hint="pass it with `-i`")
    if "run" in keys or "resources" in keys:
        raise refuse(where, "this is a task, not an inventory", mark=root.mark)
    if "apiVersion" in keys or "kind" in keys:
        return InventoryFormat.KUBERNETES
    if "type" in keys or "ssh_config" in keys:
        return InventoryFormat.DSTACK
    hosts = [inner for value in keys.values() if (inner := _under(value, "hosts")) is not None]
    if any(isinstance(one, SequenceNode) for one in hosts):
        return InventoryFormat.SKYPILOT
    if hosts or any(_under(value, "children") is not None for value in keys.values()):
        return InventoryFormat.ANSIBLE_YAML
    known = ", ".join(f"`{one.value}`" for one in InventoryFormat)
    raise refuse(
        where, "the format of this file is unknown", mark=root.mark, hint=f"name it with `--as`: one of {known}"
    )


def _under(node: YamlNode, name: str) -> YamlNode | None:
    pairs = node.pairs if isinstance(node, MappingNode) else ()
    return next((value for key, value in pairs if key.text == name and not isinstance(value, ScalarNode)), None)
