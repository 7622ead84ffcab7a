"""Slurm's topology.yaml (since 25.05), which may have several topologies."""

from collections.abc import Sequence

from launcher.config.importers.collector import HostCollector, number, short
from launcher.config.importers.foreign_yaml import TrackedMapping, as_mapping, compose_yaml
from launcher.config.importers.slurm_topology import Block, Switch, add_topology, block_sizes, nodes_of
from launcher.config.yaml.nodes import MappingNode, ScalarNode, SequenceNode, describe
from launcher.config.yaml.text_file import refuse

_TRUE = ("true", "yes", "on")
_NO_RACKS = ("flat", "ring", "torus3d")


def read(text: str, collector: HostCollector) -> None:
    """Add the nodes of a topology.yaml: racks by its blocks, levels by its tree."""
    out = collector.out
    blocks: list[TrackedMapping] = []
    trees: list[TrackedMapping] = []
    for root in compose_yaml(text, out):
        if isinstance(root, MappingNode) and any(key.text == "apiVersion" for key, _ in root.pairs):
            what = "this is an object of Kubernetes, not a topology.yaml of Slurm"
            hint = "to import Kubernetes nodes, use the output of `kubectl get nodes -o yaml`"
            raise refuse(out.where, what, mark=root.mark, hint=hint)
        if not isinstance(root, SequenceNode):
            what = f"a topology.yaml must be a list of topologies, not {describe(root)}"
            raise refuse(out.where, what, mark=root.mark, hint="begin each topology with `- topology: NAME`")
        for item in root.items:
            if topology := as_mapping(item, "topology", out):
                _sort(topology, blocks, trees, collector)
    block, tree = _chosen(blocks, "block", collector), _chosen(trees, "tree", collector)
    add_topology(_blocks(block, collector) if block else (), _switches(tree, collector) if tree else (), collector)


def _name(topology: TrackedMapping) -> str:
    return short(topology.text("topology") or "?")


def _sort(
    topology: TrackedMapping, blocks: list[TrackedMapping], trees: list[TrackedMapping], collector: HostCollector
) -> None:
    name = _name(topology)
    topology.text("cluster_default")
    kinds = {"block": blocks, "tree": trees}
    for kind, into in kinds.items():
        if topology.mapping(kind) is not None:
            into.append(topology)
    for kind in _NO_RACKS:
        if topology.node(kind) is not None:
            collector.warn(topology.line_of(kind), f"topology `{name}` skipped: `{kind}` does not define racks")
    for key in topology.rest():
        collector.warn(key.mark.line, f"unknown key `{short(key.text)}` of topology `{name}` ignored")


def _chosen(found: Sequence[TrackedMapping], kind: str, collector: HostCollector) -> TrackedMapping | None:
    """Return one topology of a kind, preferably the default of the cluster."""
    default = [one for one in found if (one.text("cluster_default") or "").lower() in _TRUE]
    chosen = next(iter((*default, *found)), None)
    for other in found:
        if chosen is not None and other is not chosen:
            what = f"topology `{_name(other)}` skipped: `{_name(chosen)}` is a {kind} topology already"
            collector.warn(other.line, what, f"only one {kind} topology is imported")
    return chosen.mapping(kind) if chosen else None


def _blocks(topology: TrackedMapping, collector: HostCollector) -> list[Block]:
    sizes = [number(item.text, 1, 10**6) for item in topology.items("block_sizes") if isinstance(item, ScalarNode)]
    block_sizes([size for size in sizes if size is not None], topology.line_of("block_sizes"), collector)
    found: list[Block] = []
    for item in topology.items("blocks"):
        if (block := as_mapping(item, "blocks", collector.out)) and (name := _required(block, "block", collector)):
            line = block.line_of("nodes")
            nodes = nodes_of(block.text("nodes") or "", line, collector)
            found.append(Block(name=name, line=block.line, nodes=nodes))
            if not block.text("nodes"):
                collector.warn(block.line, f"block `{short(name)}` has no nodes: it is left out")
            _rest(block, collector)
    _rest(topology, collector)
    return found


def _switches(topology: TrackedMapping, collector: HostCollector) -> list[Switch]:
    found: list[Switch] = []
    for item in topology.items("switches"):
        if (switch := as_mapping(item, "switches", collector.out)) and (name := _required(switch, "switch", collector)):
            children = collector.expand(switch.text("children") or "", switch.line_of("children"))
            nodes = nodes_of(switch.text("nodes") or "", switch.line_of("nodes"), collector)
            if children and nodes:
                collector.warn(switch.line, f"`nodes` of switch `{short(name)}` ignored: it has `children` too")
            found.append(Switch(name=name, line=switch.line, nodes=() if children else nodes, children=children))
            _rest(switch, collector)
    _rest(topology, collector)
    return found


def _required(one: TrackedMapping, key: str, collector: HostCollector) -> str | None:
    name = one.text(key)
    if name is None:
        collector.mistake(one.line, f"the name of a {key} is missing", f"write `{key}: NAME`")
    return name


def _rest(one: TrackedMapping, collector: HostCollector) -> None:
    for key in one.rest():
        collector.warn(key.mark.line, f"unknown key `{short(key.text)}` ignored")
