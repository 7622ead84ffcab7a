"""Kubernetes nodes as `kubectl get nodes -o yaml|json` lists them; `nvidia.com/gpu.clique` is the NVLink domain.

NVIDIA's GPU feature discovery sets that label to `<ClusterUUID>.<CliqueId>`, once the fabric is complete.
"""

import json
import re
from collections.abc import Iterator

from launcher.config.importers.documents import compose
from launcher.config.importers.found import Host
from launcher.config.importers.roster import Roster, number, short
from launcher.config.importers.slurm import UUID
from launcher.config.yaml.nodes import Items, Mark, Node, Pairs, Scalar
from launcher.config.yaml.source import refuse

CLIQUE = "nvidia.com/gpu.clique"
_PRODUCT = "nvidia.com/gpu.product"
_COUNT = "nvidia.com/gpu.count"
_CAPACITY = "nvidia.com/gpu"
_ZONE = "topology.kubernetes.io/zone"
_CONTROL = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_ZERO = "00000000-0000-0000-0000-000000000000"
_LISTS = ("List", "NodeList")


def read(text: str, roster: Roster) -> None:
    """Add the nodes to a roster. One ClusterUUID is taken for one rack, and zones are a level above the racks."""
    found = list(_json(text, roster) if text.lstrip().startswith("{") else _yaml(text, roster))
    zones = {_text(item, "metadata", "labels", _ZONE) for item, _ in found} - {None}
    if zones:
        roster.levels = ("zone",)
    for item, line in found:
        _node(item, line, roster)


def _node(item: object, line: int, roster: Roster) -> None:
    name = _text(item, "metadata", "name")
    if name is None:
        roster.wrong(line, "a node has no name")
        return
    labels = _get(item, "metadata", "labels")
    if any(_get(labels, role) is not None for role in _CONTROL):
        roster.remark(line, f"`{short(name)}` runs Kubernetes itself: it is left out")
        return
    gpus = number(_text(labels, _COUNT) or _text(item, "status", "capacity", _CAPACITY) or "0", 0, 1024)
    rack, domain = _domain(name, labels, line, roster) if gpus else (None, None)
    zone = _text(labels, _ZONE)
    product = re.sub(r"^NVIDIA-", "", _text(labels, _PRODUCT) or "")
    roster.add(
        Host(
            name=name,
            line=line,
            address=_address(item),
            rack=rack,
            domain=domain,
            gpus=gpus,
            accelerator=product or None,
            drained=_drained(item),
            places={"zone": zone} if zone else {},
        )
    )


def _domain(name: str, labels: object, line: int, roster: Roster) -> tuple[str | None, str | None]:
    """Return the rack and the domain by the clique label; none for both where it is absent or strange."""
    clique = _text(labels, CLIQUE)
    if clique is None:
        what = f"`{short(name)}` has no `{CLIQUE}`: its rack and domain stay unknown"
        roster.remark(line, what, "the label comes when the fabric is complete; `discover` asks the node")
        return None, None
    found = re.fullmatch(rf"({UUID})\.([0-9]{{1,10}})", clique)
    if found is None or found[1] == _ZERO:
        what = f"`{CLIQUE}: {short(clique)}` of `{short(name)}` is no ClusterUUID with a CliqueId: it stays unknown"
        roster.remark(line, what)
        return None, None
    uuid = found[1].lower()
    return uuid, f"{uuid}.{found[2]}"


def _address(item: object) -> str | None:
    addresses = _get(item, "status", "addresses")
    for one in addresses if isinstance(addresses, list) else ():
        if _text(one, "type") == "InternalIP":
            return _text(one, "address")
    return None


def _drained(item: object) -> str | None:
    if _text(item, "spec", "unschedulable") == "true":
        return "cordoned in Kubernetes"
    conditions = _get(item, "status", "conditions")
    for one in conditions if isinstance(conditions, list) else ():
        if _text(one, "type") == "Ready" and _text(one, "status") != "True":
            return "not ready in Kubernetes"
    return None


def _get(value: object, *path: str) -> object:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _text(value: object, *path: str) -> str | None:
    found = _get(value, *path)
    if isinstance(found, bool):
        return str(found).lower()
    return str(found) if isinstance(found, str | int) else None


def _json(text: str, roster: Roster) -> Iterator[tuple[object, int]]:
    try:
        root = json.loads(text)
    except ValueError as error:
        at = getattr(error, "lineno", 0)
        what = f"not valid JSON: {getattr(error, 'msg', 'a number is too long').lower()}"
        raise refuse(roster.out.where, what, mark=Mark(at, getattr(error, "colno", 0))) from error
    except RecursionError as error:
        raise refuse(roster.out.where, "the file is nested too deeply") from error
    at, line = 0, 1
    for item in _items(root, roster, 1):
        # JSON has no positions; nodes stand in the order of the list.
        name = json.dumps(_text(item, "metadata", "name"), ensure_ascii=False)
        found = re.compile(rf'"name"\s*:\s*{re.escape(name)}').search(text, at) if line else None
        line = line + text.count("\n", at, found.start()) if found else 0
        at = found.start() if found else at
        yield item, line


def _yaml(text: str, roster: Roster) -> Iterator[tuple[object, int]]:
    for root in compose(text, roster.out):
        items = next((value for key, value in _pairs(root) if key.text == "items"), None)
        if isinstance(items, Items):
            _items(_plain(root, skip="items"), roster, root.mark.line)
            found = ((_plain(item), item.mark.line) for item in items.items)
            yield from ((item, line) for item, line in found if _checked(item, roster, line))
        else:
            yield from ((item, root.mark.line) for item in _items(_plain(root), roster, root.mark.line))


def _items(root: object, roster: Roster, line: int) -> list[object]:
    """Return the nodes of a list, or the one node; SpecError for another object."""
    kind = _text(root, "kind")
    items = _get(root, "items")
    if kind == "Node":
        return [root]
    if kind in _LISTS and (items is None or isinstance(items, list)):
        return [item for item in items or () if _checked(item, roster, line)]
    what = f"this is no list of Kubernetes nodes, but `kind: {short(kind or '?')}`"
    raise refuse(roster.out.where, what, mark=Mark(line, 1), hint="`kubectl get nodes -o yaml` writes one")


def _checked(item: object, roster: Roster, line: int) -> bool:
    if _text(item, "kind") in ("Node", None) and isinstance(item, dict):
        return True
    roster.remark(line, f"an object `{short(_text(item, 'kind') or '?')}` of the list is no node: it is left out")
    return False


def _pairs(node: Node) -> tuple[tuple[Scalar, Node], ...]:
    return node.pairs if isinstance(node, Pairs) else ()


def _plain(node: Node, skip: str = "") -> object:
    """Return a YAML value as JSON's; the depth of a file is bounded, and so is this."""
    if isinstance(node, Pairs):
        return {key.text: _plain(value) for key, value in node.pairs if key.text != skip}
    if isinstance(node, Items):
        return [_plain(item) for item in node.items]
    return node.text
