"""Nodes for a part of a placement, while all the rest of it stays where it is."""

from collections.abc import Mapping, Sequence

from launcher.core.fleet import Inventory, NodeName
from launcher.core.place import place
from launcher.core.placement import Placement, Shortfall, Slice, Taken
from launcher.core.task import Task


def replace_slice(
    task: Task, inventory: Inventory, taken: Mapping[NodeName, Taken], placement: Placement, part: Slice
) -> Slice | Shortfall:
    """Answer other nodes for one slice of a placement, under the same index, or why there are none.

    Every hard rule of the task holds against the slices that stay. `inventory` is the whole one, not that of the run.
    `taken` is what other runs have and what is sick or condemned: none of it is free. The old nodes of the slice may
    serve again unless they are in `taken`; those of the slices that stay never do.
    """
    kept = tuple(other for other in placement.slices if other.key != part.key)
    answer = place(task, inventory, _of_others(taken, kept), kept)
    if isinstance(answer, Shortfall):
        return answer
    return next(other for other in answer.slices if other.key == part.key)


def _of_others(taken: Mapping[NodeName, Taken], kept: Sequence[Slice]) -> Mapping[NodeName, Taken]:
    """Answer what is taken without what the task's own slices have: they are no other run to be kept apart from."""
    ours = {name for part in kept for name in (*part.nodes, *part.spares)}
    return {name: mark for name, mark in taken.items() if name not in ours}
