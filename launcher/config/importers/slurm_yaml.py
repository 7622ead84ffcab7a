"""Slurm's topology.yaml (since 25.05): several topologies in one file, each of one plugin."""

from collections.abc import Sequence

from launcher.config.importers.documents import Section, compose, section
from launcher.config.importers.roster import Roster, number, short
from launcher.config.importers.slurm import Block, Switch, block_sizes, nodes_of, take_in
from launcher.config.yaml.nodes import Items, Pairs, Scalar, describe
from launcher.config.yaml.source import refuse

_TRUE = ("true", "yes", "on")
_NO_RACKS = ("flat", "ring", "torus3d")


def read(text: str, roster: Roster) -> None:
    """Add the nodes of a topology.yaml to a roster: its block topology gives the racks, its tree the levels."""
    out = roster.out
    blocks: list[Section] = []
    trees: list[Section] = []
    for root in compose(text, out):
        if isinstance(root, Pairs) and any(key.text == "apiVersion" for key, _ in root.pairs):
            hint = "`kubectl get nodes -o yaml` lists the nodes with their labels"
            raise refuse(
                out.where, "this is an object of Kubernetes, which names labels and no nodes", mark=root.mark, hint=hint
            )
        if not isinstance(root, Items):
            what = f"a topology.yaml is a list of topologies, not {describe(root)}"
            raise refuse(out.where, what, mark=root.mark, hint="each begins with `- topology: NAME`")
        for item in root.items:
            if topology := section(item, "topology", out):
                _sort(topology, blocks, trees, roster)
    block, tree = _chosen(blocks, "block", roster), _chosen(trees, "tree", roster)
    take_in(_blocks(block, roster) if block else (), _switches(tree, roster) if tree else (), roster)


def _name(topology: Section) -> str:
    return short(topology.text("topology") or "?")


def _sort(topology: Section, blocks: list[Section], trees: list[Section], roster: Roster) -> None:
    name = _name(topology)
    topology.text("cluster_default")
    kinds = {"block": blocks, "tree": trees}
    for kind, into in kinds.items():
        if topology.section(kind) is not None:
            into.append(topology)
    for kind in _NO_RACKS:
        if topology.node(kind) is not None:
            roster.remark(topology.line_of(kind), f"topology `{name}` is `{kind}`: it says nothing of racks")
    for key in topology.rest():
        roster.remark(key.mark.line, f"`{short(key.text)}` of topology `{name}` is not known here, and is left out")


def _chosen(found: Sequence[Section], kind: str, roster: Roster) -> Section | None:
    """Return the one of a kind: the cluster's default where it is among several, else the first."""
    default = [one for one in found if (one.text("cluster_default") or "").lower() in _TRUE]
    chosen = next(iter((*default, *found)), None)
    for other in found:
        if chosen is not None and other is not chosen:
            what = f"topology `{_name(other)}` is a second {kind} topology: `{_name(chosen)}` is taken"
            roster.remark(other.line, what, "a node is in one rack, once")
    return chosen.section(kind) if chosen else None


def _blocks(topology: Section, roster: Roster) -> list[Block]:
    sizes = [number(item.text, 1, 10**6) for item in topology.items("block_sizes") if isinstance(item, Scalar)]
    block_sizes([size for size in sizes if size is not None], topology.line_of("block_sizes"), roster)
    found: list[Block] = []
    for item in topology.items("blocks"):
        if (block := section(item, "blocks", roster.out)) and (name := _required(block, "block", roster)):
            line = block.line_of("nodes")
            nodes = nodes_of(block.text("nodes") or "", line, roster)
            found.append(Block(name=name, line=block.line, nodes=nodes))
            _rest(block, roster)
    _rest(topology, roster)
    return found


def _switches(topology: Section, roster: Roster) -> list[Switch]:
    found: list[Switch] = []
    for item in topology.items("switches"):
        if (switch := section(item, "switches", roster.out)) and (name := _required(switch, "switch", roster)):
            children = roster.expand(switch.text("children") or "", switch.line_of("children"))
            nodes = nodes_of(switch.text("nodes") or "", switch.line_of("nodes"), roster)
            if children and nodes:
                roster.remark(switch.line, f"switch `{short(name)}` has switches: its own nodes are left out")
            found.append(Switch(name=name, line=switch.line, nodes=() if children else nodes, children=children))
            _rest(switch, roster)
    _rest(topology, roster)
    return found


def _required(one: Section, key: str, roster: Roster) -> str | None:
    name = one.text(key)
    if name is None:
        roster.wrong(one.line, f"this {key} has no name", f"write `{key}: NAME`")
    return name


def _rest(one: Section, roster: Roster) -> None:
    for key in one.rest():
        roster.remark(key.mark.line, f"`{short(key.text)}` is not known here, and is left out")
