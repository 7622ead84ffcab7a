"""Which kind of inventory a text is, by what only that kind has."""

import re
from itertools import islice

from launcher.config.importers import domain_map
from launcher.config.importers.ansible_ini import SECTION
from launcher.config.importers.documents import compose
from launcher.config.importers.found import Foreign
from launcher.config.importers.text import Line, lines
from launcher.config.yaml.nodes import Items, Node, Pairs, Scalar
from launcher.config.yaml.reading import Reading
from launcher.config.yaml.source import refuse

ENOUGH = 2000
"""Lines of a file by which its kind is told."""

_SLURM = re.compile(r"#*\s*(?:BlockName|SwitchName)\s*=", re.IGNORECASE)
_SHOWN = re.compile(r"\b(?:BlockIndex|BlockSize|AggregatedBlock|Level)=", re.IGNORECASE)
_SSH = re.compile(r"(?:Host|Match)(?:\s+|\s*=\s*)\S", re.IGNORECASE)
_SSH_ALONE = re.compile(r"(?:Host|HostName|IdentityFile|ProxyJump|Include|Match)\s", re.IGNORECASE)
_ANSIBLE = re.compile(r"\sansible_\w+\s*=")
_YAML = re.compile(r"---(?:\s|$)|-\s+\S|[\"']?[^\s\"'#:=\[\]]+[\"']?\s*:(?:\s|$)|\{")


def detect(text: str, where: str) -> Foreign:
    """Return the kind of a text; SpecError where it is of none that is known."""
    found = list(islice((line for line in lines(text) if line.text), ENOUGH))
    if not found:
        if any(_SLURM.match(line.comment) for line in lines(text)):
            return Foreign.SLURM_CONF
        raise refuse(where, "the file names no machine")
    first = found[0].text
    if any(_SLURM.match(line.text) for line in found):
        return Foreign.SLURM_SHOW if any(_SHOWN.search(line.text) for line in found) else Foreign.SLURM_CONF
    if _mostly_domains(found):
        return Foreign.DOMAIN_MAP
    if _SSH_ALONE.match(first) and any(_SSH.match(line.text) for line in found):
        return Foreign.SSH_CONFIG
    if first.startswith("{"):
        return Foreign.KUBERNETES
    if _ini(found):
        return Foreign.ANSIBLE_INI
    if _YAML.match(first):
        return _of_yaml(text, where)
    return Foreign.HOSTFILE


def _mostly_domains(found: list[Line]) -> bool:
    return 2 * sum(bool(domain_map.LINE.fullmatch(line.text)) for line in found) > len(found)


def _ini(found: list[Line]) -> bool:
    headers = [SECTION.fullmatch(line.text) for line in found]
    named = [header for header in headers if header and re.match(r"[A-Za-z_]", header[1])]
    return bool(named) or any(_ANSIBLE.search(f" {line.text}") for line in found if not line.text.endswith(":"))


def _of_yaml(text: str, where: str) -> Foreign:
    out = Reading(where)
    root = compose(text, out)[0]
    if isinstance(root, Items):
        return Foreign.SLURM_YAML
    keys = {key.text: value for key, value in root.pairs} if isinstance(root, Pairs) else {}
    if "racks" in keys:
        raise refuse(where, "this is an inventory of nvlaunch already", mark=root.mark, hint="use it with `-i`")
    if "run" in keys or "resources" in keys:
        raise refuse(where, "this is a task, not an inventory", mark=root.mark)
    if "apiVersion" in keys or "kind" in keys:
        return Foreign.KUBERNETES
    if "type" in keys or "ssh_config" in keys:
        return Foreign.DSTACK
    hosts = [inner for value in keys.values() if (inner := _under(value, "hosts")) is not None]
    if any(isinstance(one, Items) for one in hosts):
        return Foreign.SKYPILOT
    if hosts or any(_under(value, "children") is not None for value in keys.values()):
        return Foreign.ANSIBLE_YAML
    known = ", ".join(f"`{kind.value}`" for kind in Foreign)
    raise refuse(where, "this is of no kind of inventory that is known", mark=root.mark, hint=f"`--as` takes {known}")


def _under(node: Node, name: str) -> Node | None:
    pairs = node.pairs if isinstance(node, Pairs) else ()
    return next((value for key, value in pairs if key.text == name and not isinstance(value, Scalar)), None)
