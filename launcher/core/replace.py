"""One slice of a placement somewhere else, while all others stay where they are."""

from collections.abc import Mapping
from dataclasses import replace

from launcher.core.assign import Miss, slice_of
from launcher.core.bounds import bounds
from launcher.core.choose import choose
from launcher.core.eligible import Sieve
from launcher.core.fleet import Inventory, NodeName
from launcher.core.placement import Placement, Shortfall, Slice, Taken
from launcher.core.shortfall import account
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
    group = task.group(part.group)
    one = replace(group, topology=replace(group.topology, slices=1))
    promised = {name for other in kept for name in (*other.nodes, *other.spares)}
    foreign = {name: mark for name, mark in taken.items() if name not in promised and name not in placement.nodes}
    sieve = Sieve(one, taken, promised, bounds(task, group.name, inventory, foreign, kept))
    picks = choose(one, inventory, sieve)
    if not picks:
        return account(Miss(group=one, picks=(), promised=promised), inventory, sieve)
    return slice_of(one, part.index, picks[0])
