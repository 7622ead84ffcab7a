"""Detect the format of an inventory by text that only this format has."""

import re
from itertools import islice

from launcher.config.importers import domain_map
from launcher.config.importers.ansible_ini import SECTION
from launcher.config.importers.foreign_yaml import compose_yaml
from launcher.config.importers.formats import InventoryFormat
from launcher.config.importers.hostfile import KEY_LINE
from launcher.config.importers.text_lines import Line, lines
from launcher.config.yaml.diagnostics import Diagnostics
from launcher.config.yaml.nodes import MappingNode, ScalarNode, SequenceNode, YamlNode
from launcher.config.yaml.text_file import refuse

ENOUGH = 2000
"""Lines of a file that are looked at."""

_SLURM = re.compile(r"#*\s*(?:BlockName|SwitchName|BlockSizes)\s*=", re.IGNORECASE)
_SHOWN = re.compile(r"\b(?:BlockIndex|BlockSize|AggregatedBlock|Level)=", re.IGNORECASE)
_SSH = re.compile(r"(?:Host|Match)(?:\s+|\s*=\s*)\S", re.IGNORECASE)
_SSH_KEYWORD = re.compile(
    r"(?:HostName|User|Port|IdentityFile|ProxyJump|ProxyCommand|Include|ServerAlive\w+|AddKeysToAgent|ForwardAgent|"
    r"StrictHostKeyChecking|UserKnownHostsFile|Control\w+|Compression|LogLevel|IdentitiesOnly|PreferredAuthentications)"
    r"(?:\s+|\s*=\s*)\S",
    re.IGNORECASE,
)
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
    if what := _unread(found):
        raise refuse(where, what, hint=_HOW)
    if any(_SLURM.match(line.text) for line in found):
        return (
            InventoryFormat.SLURM_SHOW
            if any(_SHOWN.search(line.text) for line in found)
            else InventoryFormat.SLURM_CONF
        )
    if _mostly_domains(found):
        return InventoryFormat.DOMAIN_MAP
    if any(_SSH.match(line.text) for line in found) and (
        _SSH_ALONE.match(first) or any(_SSH_KEYWORD.match(line.text) for line in found)
    ):
        return InventoryFormat.SSH_CONFIG
    if first.startswith("{"):
        return InventoryFormat.KUBERNETES
    if _ini(found):
        return InventoryFormat.ANSIBLE_INI
    if _YAML.match(first):
        return _of_yaml(text, where)
    return InventoryFormat.HOSTFILE


_HOW = "write one host a line, as `host` or `host slots=4`, and import that"
_COLUMNS = ("host", "hostname", "name", "node", "ip", "address", "ip_address")


def _unread(found: list[Line]) -> str | None:
    """Return what a file is that looks like a list of hosts, and is none that can be read; None for another file."""
    if any(KEY_LINE.match(line.text) for line in found[:20]):
        return "this is a list of SSH keys (known_hosts or authorized_keys), not of machines"
    columns = [column.strip().strip('"').casefold() for column in re.split("[,;\t]", found[0].text)]
    if len(columns) > 1 and columns[0] in _COLUMNS and all(re.fullmatch("[a-z_ ]+", column) for column in columns):
        return "this is a table with columns, which are not read"
    return None


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
        if any(_has(item, "hosts", "import_playbook") and not _has(item, "topology") for item in root.items):
            what = "this is a playbook of Ansible, not an inventory"
            raise refuse(where, what, mark=root.mark, hint="import the inventory that it is run with")
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
    if keys and all(map(_is_group, keys.values())):
        what = "this is a groups file of ClusterShell, which is not read"
        raise refuse(
            where, what, mark=root.mark, hint="print its nodes by `nodeset -e -S '\\n' @GROUP`, and import that"
        )
    known = ", ".join(f"`{one.value}`" for one in InventoryFormat)
    raise refuse(
        where, "the format of this file is unknown", mark=root.mark, hint=f"name it with `--as`: one of {known}"
    )


def _has(node: YamlNode, *keys: str) -> bool:
    return isinstance(node, MappingNode) and any(key.text in keys for key, _ in node.pairs)


def _is_group(node: YamlNode) -> bool:
    """Whether a value is a source of ClusterShell: groups, each with its nodes as text."""
    pairs = node.pairs if isinstance(node, MappingNode) else ()
    return bool(pairs) and all(
        isinstance(value, ScalarNode) and re.search(r"[\[\]@*]|\d", value.text) for _, value in pairs
    )


def _under(node: YamlNode, name: str) -> YamlNode | None:
    pairs = node.pairs if isinstance(node, MappingNode) else ()
    return next((value for key, value in pairs if key.text == name and not isinstance(value, ScalarNode)), None)
