"""Whom a run that waits may stop: only who said so, only who counts for less, and only where it then fits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice

from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Taken
from launcher.core.model.run import RunName
from launcher.core.model.task import Task
from launcher.core.queue.timeline import fit

MOST_TRIED = 300
"""How many sets of runs are tried before fewest is given up for few: each costs a placement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Going:
    """A run that has nodes: since when (s of the wall clock), and how long it may keep them at most (s, infinity where
    nobody knows). One that is `leaving` was told to stop, and will be gone after its grace."""

    name: RunName
    priority: int
    preemptible: bool
    since: float
    left: float
    leaving: bool = False


def victims(
    task: Task, fleet: Inventory, taken: Mapping[NodeName, Taken], going: Sequence[Going]
) -> tuple[RunName, ...]:
    """Return the runs to stop so that a task fits: as few as can be, of those the least in priority, then the youngest.

    None where it fits without, as soon as those that leave are gone, and none where it would not fit without all that
    may be stopped. A set is tried by placing the task, so that it frees whole places and not single nodes.
    """
    free = _without(taken, {one.name for one in going if one.leaving})
    if fit(task, fleet, free) is not None:
        return ()
    able = [one for one in going if one.preemptible and one.priority < task.priority and not one.leaving]
    able.sort(key=lambda one: (one.priority, -one.since, one.name))
    if not able or fit(task, fleet, _without(free, {one.name for one in able})) is None:
        return ()
    sets = (chosen for size in range(1, len(able)) for chosen in combinations(able, size))
    for chosen in islice(sets, MOST_TRIED):
        if fit(task, fleet, _without(free, {one.name for one in chosen})) is not None:
            return tuple(one.name for one in chosen)
    return _spared(task, fleet, free, able)


def _spared(
    task: Task, fleet: Inventory, taken: Mapping[NodeName, Taken], able: Sequence[Going]
) -> tuple[RunName, ...]:
    """Return all of them without those that need not go, the most important tried first."""
    left = list(able)
    for one in reversed(able):
        fewer = [other for other in left if other is not one]
        if fit(task, fleet, _without(taken, {other.name for other in fewer})) is not None:
            left = fewer
    return tuple(one.name for one in left)


def _without(taken: Mapping[NodeName, Taken], gone: set[RunName]) -> Mapping[NodeName, Taken]:
    """Return what is not free once some runs are gone."""
    after = {name: replace(mark, by_run=None) if mark.by_run in gone else mark for name, mark in taken.items()}
    return {name: mark for name, mark in after.items() if mark.by_run or mark.sick or mark.drained}
