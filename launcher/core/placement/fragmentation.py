"""Fragmentation: Slurm's score of how few whole racks are left."""

from collections import Counter
from collections.abc import Container

from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NaturalKey, NodeName, natural

MAX_BASE = 16
"""The largest base block (nodes): of 18 trays one or two are often in repair."""


def fragmentation(inventory: Inventory, busy: Container[NodeName]) -> int:
    """Return the score: 0 if all nodes are free, higher the fewer racks are whole.

    Slurm's rule (topology/block): a rack with fewer free nodes than the base is lost, and so is each aligned group of
    2, 4, 8... racks that contains a lost rack. The score is the base times the sizes of all lost groups, plus one for
    each node that is not free. The base is the most common size of a rack, at most 16.
    """
    racks = _racks(inventory, busy)
    if not racks:
        return 0
    sizes = Counter(total for total, _ in racks)
    base = min(MAX_BASE, max(sizes, key=lambda size: (sizes[size], size)))
    lost = [free < base for _, free in racks]
    score = sum(total - free for total, free in racks)
    size = 1
    while size <= len(lost):
        groups = [any(lost[at : at + size]) for at in range(0, len(lost) - size + 1, size)]
        score += base * size * sum(groups)
        size *= 2
    return score


def _racks(inventory: Inventory, busy: Container[NodeName]) -> list[tuple[int, int]]:
    """Return the nodes and free nodes of each rack, racks of a block together."""
    upper = inventory.levels[:-1]
    totals: dict[str, int] = {}
    free: Counter[str] = Counter()
    order: dict[str, tuple[NaturalKey, ...]] = {}
    for node in inventory.nodes:
        if node.rack not in totals:
            order[node.rack] = (*(natural(node.at(level) or "") for level in upper), natural(node.rack))
        totals[node.rack] = totals.get(node.rack, 0) + 1
        free[node.rack] += node.drained is None and node.name not in busy
    return [(totals[rack], free[rack]) for rack in sorted(totals, key=lambda rack: order[rack])]
