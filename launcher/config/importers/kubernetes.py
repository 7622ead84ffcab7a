"""Kubernetes nodes as `kubectl get nodes -o yaml|json` prints them.

`nvidia.com/gpu.clique` is the NVLink domain. NVIDIA's GPU feature discovery sets that label to
`<ClusterUUID>.<CliqueId>` when the fabric is complete.
"""

import json
import re
from collections.abc import Iterator

from launcher.config.importers.collector import HostCollector, number, short
from launcher.config.importers.foreign_yaml import compose_yaml
from launcher.config.importers.imported import ImportedHost
from launcher.config.importers.slurm_topology import UUID
from launcher.config.yaml.nodes import MappingNode, Mark, ScalarNode, SequenceNode, YamlNode
from launcher.config.yaml.text_file import refuse

CLIQUE = "nvidia.com/gpu.clique"
_PRODUCT = "nvidia.com/gpu.product"
_COUNT = "nvidia.com/gpu.count"
_CAPACITY = "nvidia.com/gpu"
_ZONE = "topology.kubernetes.io/zone"
_CONTROL = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_ZERO = "00000000-0000-0000-0000-000000000000"
_LISTS = ("List", "NodeList")


def read(text: str, collector: HostCollector) -> None:
    """Add the nodes to a collector.

    Each ClusterUUID is a rack; zones are a level above the racks.
    """
    found = list(_json(text, collector) if text.lstrip().startswith("{") else _yaml(text, collector))
    zones = {_text(item, "metadata", "labels", _ZONE) for item, _ in found} - {None}
    if zones:
        collector.levels = ("zone",)
    # Without the GPU operator on any node, Kubernetes knows nothing of GPUs: that is not the same as no GPUs.
    told = any(_gpus(item) for item, _ in found)
    if found and not told:
        what = "no node has GPUs that Kubernetes knows of: their number is unknown, and the default applies"
        collector.warn(0, what, "compare with the nodes: `nvlaunch inventory check`")
    for item, line in found:
        _node(item, line, told, collector)


def _gpus(item: object) -> int | None:
    """Return the GPUs of a node; None if Kubernetes knows nothing of them."""
    labels = _get(item, "metadata", "labels")
    return number(_text(labels, _COUNT) or _text(item, "status", "capacity", _CAPACITY), 0, 1024)


def _node(item: object, line: int, told: bool, collector: HostCollector) -> None:
    name = _text(item, "metadata", "name")
    if name is None:
        collector.mistake(line, "the name of a node is missing")
        return
    labels = _get(item, "metadata", "labels")
    if any(_get(labels, role) is not None for role in _CONTROL):
        collector.warn(line, f"`{short(name)}` skipped: it is a control plane node")
        return
    gpus = (_gpus(item) or 0) if told else None
    usable = number(_text(item, "status", "allocatable", _CAPACITY), 0, 1024)
    if gpus and usable is not None and usable < gpus:
        collector.warn(line, f"`{short(name)}`: Kubernetes can allocate only {usable} of {gpus} GPUs")
    rack, domain = _domain(name, labels, line, collector) if gpus else (None, None)
    zone = _text(labels, _ZONE)
    product = re.sub(r"^NVIDIA-", "", _text(labels, _PRODUCT) or "")
    collector.add(
        ImportedHost(
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


def _domain(name: str, labels: object, line: int, collector: HostCollector) -> tuple[str | None, str | None]:
    """Return the rack and the domain of the clique label.

    None for both if it is missing or not valid.
    """
    clique = _text(labels, CLIQUE)
    if clique is None:
        what = f"`{short(name)}` has no label `{CLIQUE}`: its rack and domain are unknown"
        collector.warn(line, what, "the label is set when the fabric is complete; or use `nvlaunch inventory discover`")
        return None, None
    found = re.fullmatch(rf"({UUID})\.([0-9]{{1,10}})", clique)
    if found is None or found[1] == _ZERO:
        what = f"`{CLIQUE}: {short(clique)}` of `{short(name)}` is not `<ClusterUUID>.<CliqueId>`: its rack is unknown"
        collector.warn(line, what)
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


def _json(text: str, collector: HostCollector) -> Iterator[tuple[object, int]]:
    try:
        root = json.loads(text)
    except ValueError as error:
        at = getattr(error, "lineno", 0)
        what = f"not valid JSON: {getattr(error, 'msg', 'a number is too long').lower()}"
        raise refuse(collector.out.where, what, mark=Mark(at, getattr(error, "colno", 0))) from error
    except RecursionError as error:
        raise refuse(collector.out.where, "the file is nested too deeply") from error
    at, line = 0, 1
    for item in _items(root, collector, 1):
        # JSON has no positions, but the nodes are in the order of the list.
        name = json.dumps(_text(item, "metadata", "name"), ensure_ascii=False)
        found = re.compile(rf'"name"\s*:\s*{re.escape(name)}').search(text, at) if line else None
        line = line + text.count("\n", at, found.start()) if found else 0
        at = found.start() if found else at
        yield item, line


def _yaml(text: str, collector: HostCollector) -> Iterator[tuple[object, int]]:
    for root in compose_yaml(text, collector.out):
        items = next((value for key, value in _pairs(root) if key.text == "items"), None)
        if isinstance(items, SequenceNode):
            _items(_plain(root, skip="items"), collector, root.mark.line)
            found = ((_plain(item), item.mark.line) for item in items.items)
            yield from ((item, line) for item, line in found if _checked(item, collector, line))
        else:
            yield from ((item, root.mark.line) for item in _items(_plain(root), collector, root.mark.line))


def _items(root: object, collector: HostCollector, line: int) -> list[object]:
    """Return the nodes of a list, or a single node; SpecError for another object."""
    kind = _text(root, "kind")
    items = _get(root, "items")
    if kind == "Node":
        return [root]
    if kind in _LISTS and (items is None or isinstance(items, list)):
        return [item for item in items or () if _checked(item, collector, line)]
    what = f"`kind: {short(kind or '?')}` is not a list of Kubernetes nodes"
    raise refuse(collector.out.where, what, mark=Mark(line, 1), hint="print one with `kubectl get nodes -o yaml`")


def _checked(item: object, collector: HostCollector, line: int) -> bool:
    if _text(item, "kind") in ("Node", None) and isinstance(item, dict):
        return True
    collector.warn(line, f"object of `kind: {short(_text(item, 'kind') or '?')}` skipped: it is not a node")
    return False


def _pairs(node: YamlNode) -> tuple[tuple[ScalarNode, YamlNode], ...]:
    return node.pairs if isinstance(node, MappingNode) else ()


def _plain(node: YamlNode, skip: str = "") -> object:
    """Return a YAML value as JSON has it; the depth is bounded by that of the file."""
    if isinstance(node, MappingNode):
        return {key.text: _plain(value) for key, value in node.pairs if key.text != skip}
    if isinstance(node, SequenceNode):
        return [_plain(item) for item in node.items]
    return node.text
