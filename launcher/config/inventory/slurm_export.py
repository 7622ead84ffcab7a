"""Write an inventory as a topology of Slurm.

NVLink domains of racks become blocks, levels a tree of switches.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from launcher.config.importers.write import quoted
from launcher.core.discovery.location import is_unsorted
from launcher.core.model.inventory import Inventory, Node
from launcher.core.model.nodeset import fold, natural
from launcher.errors import Mistake, SpecError


@dataclass(frozen=True, slots=True)
class SlurmTopology:
    """The text of a topology file, and warnings about omitted nodes and levels."""

    text: str
    warnings: tuple[str, ...]


def topology_conf(fleet: Inventory) -> SlurmTopology:
    """Return a topology.conf for `TopologyPlugin=topology/block`.

    SpecError if no rack is known.
    """
    blocks, warnings = _blocks(fleet)
    if len(fleet.levels) > 1:
        warnings.append("a topology.conf holds blocks only: export a topology.yaml to include levels above the rack")
    lines = [f"# Made by `nvlaunch inventory export` from {_plain(fleet.name)}, for TopologyPlugin=topology/block."]
    lines += [f"BlockName={name} Nodes={slurm_list(nodes)}" for name, nodes in blocks.items()]
    lines.append(f"BlockSizes={_base(blocks.values())}")
    return SlurmTopology("\n".join(lines) + "\n", tuple(warnings))


def topology_yaml(fleet: Inventory) -> SlurmTopology:
    """Return a topology.yaml with blocks, and with a tree if there are levels.

    SpecError if no rack is known.
    """
    blocks, warnings = _blocks(fleet)
    lines = [
        f"# Made by `nvlaunch inventory export` from {_plain(fleet.name)}.",
        "- topology: nvlink",
        "  cluster_default: true",
        "  block:",
        f"    block_sizes: [{_base(blocks.values())}]",
        "    blocks:",
    ]
    for name, nodes in blocks.items():
        lines += [f"      - block: {quoted(name)}", f"        nodes: {quoted(slurm_list(nodes))}"]
    if len(fleet.levels) > 1:
        lines += _tree(fleet, warnings)
    return SlurmTopology("\n".join(lines) + "\n", tuple(warnings))


def slurm_list(names: Iterable[str]) -> str:
    """Return names as a host list of Slurm, with brackets only at the end."""
    groups: dict[str, list[str]] = {}
    for name in sorted(set(names), key=natural):
        found = re.fullmatch(r"(.*[^0-9])[0-9]+", name)
        groups.setdefault(found[1] if found else name, []).append(name)
    return ",".join(map(fold, groups.values()))


def _blocks(fleet: Inventory) -> tuple[dict[str, list[str]], list[str]]:
    """Return the nodes of each block, and warnings.

    Each domain of a rack is a block: Slurm assumes one domain.
    """
    racks: dict[str, list[Node]] = {}
    for node in fleet.nodes:
        racks.setdefault(node.rack, []).append(node)
    lost = [node.name for rack, nodes in racks.items() if is_unsorted(rack) for node in nodes]
    warnings = [f"omitted because their rack is unknown: {fold(lost)}"] if lost else []
    blocks: dict[str, list[str]] = {}
    for rack in sorted((rack for rack in racks if not is_unsorted(rack)), key=natural):
        domains = sorted({node.domain for node in racks[rack] if node.domain})
        if len(domains) < 2:
            blocks[rack] = [node.name for node in racks[rack]]
            continue
        names = ", ".join(f"{rack}-{number}" for number in range(1, len(domains) + 1))
        warnings.append(f"rack `{rack}` has {len(domains)} NVLink domains, which are blocks of their own: {names}")
        for number, domain in enumerate(domains, start=1):
            blocks[f"{rack}-{number}"] = [node.name for node in racks[rack] if node.domain == domain]
        if unknown := [node.name for node in racks[rack] if not node.domain]:
            warnings.append(f"omitted because their domain in rack `{rack}` is unknown: {fold(unknown)}")
    if not blocks:
        hint = "find the racks with `nvlaunch inventory discover`"
        raise SpecError((Mistake(what="the racks of all nodes are unknown", where=fleet.source, hint=hint),))
    return blocks, warnings


def _base(blocks: Iterable[Sequence[str]]) -> int:
    """Return the base block size: that of the smallest block (topology.conf(5))."""
    return min(map(len, blocks))


def _tree(fleet: Inventory, warnings: list[str]) -> list[str]:
    levels, shared = fleet.levels[:-1], _shared(fleet)
    below: dict[tuple[str, str], set[str]] = {}
    leaves: dict[tuple[str, str], list[str]] = {}
    lost: list[str] = []
    for node in fleet.nodes:
        chain = [(level, place) for level in levels if (place := node.at(level))]
        if not chain or chain[-1][0] != levels[-1]:
            lost.append(node.name)
            continue
        leaves.setdefault(chain[-1], []).append(node.name)
        for outer, inner in pairwise(chain):
            below.setdefault(outer, set()).add(_name(inner, shared))
    if lost:
        warnings.append(f"omitted from the tree because their {levels[-1]} is unknown: {fold(lost)}")
    if not leaves:
        return []
    lines = ["- topology: fabric", "  cluster_default: false", "  tree:", "    switches:"]
    for switch, children in sorted(below.items()):
        lines += [f"      - switch: {quoted(_name(switch, shared))}"]
        lines += [f"        children: {quoted(slurm_list(children))}"]
    for switch, nodes in sorted(leaves.items(), key=lambda item: natural(item[0][1])):
        lines += [f"      - switch: {quoted(_name(switch, shared))}"]
        lines += [f"        nodes: {quoted(slurm_list(nodes))}"]
    return lines


def _shared(fleet: Inventory) -> frozenset[str]:
    """Return the names that several levels have in common."""
    levels: dict[str, set[str]] = {}
    for node in fleet.nodes:
        for level in fleet.levels[:-1]:
            if place := node.at(level):
                levels.setdefault(place, set()).add(level)
    return frozenset(place for place, several in levels.items() if len(several) > 1)


def _name(switch: tuple[str, str], shared: frozenset[str]) -> str:
    """Return the name of a switch.

    It is prefixed by its level if several levels have this name.
    """
    level, place = switch
    return f"{level}-{place}" if place in shared else place


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "?", text)
