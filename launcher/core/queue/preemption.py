"""Preemption: the runs of lower priority to stop so that a queued run fits."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from launcher.core.model.inventory import Inventory
from launcher.core.model.placement import UnavailableNodes
from launcher.core.model.run import RunName
from launcher.core.model.task import Task
from launcher.core.queue.timeline import fit

MAX_SETS_TRIED = 300
"""How many sets of runs are tried for the smallest; each costs a placement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveRun:
    """A run that has nodes since `since` (s, wall clock).

    It keeps them for at most `remaining` more seconds; infinity means not known. A run that is `stopping` was told to
    stop, and ends after its grace.
    """

    name: RunName
    priority: int
    preemptible: bool
    since: float
    remaining: float
    stopping: bool = False


def victims(
    task: Task, inventory: Inventory, unavailable: UnavailableNodes, active: Sequence[ActiveRun]
) -> tuple[RunName, ...]:
    """Return the fewest runs to stop so that a task fits.

    The lowest priority goes first, then the youngest run. Empty if the task fits once the stopping runs are gone, or
    would not fit without all runs that may be stopped. Each set is tried by placing the task, so that it frees whole
    domains, not single nodes.
    """
    able = [run for run in active if run.preemptible and run.priority < task.priority and not run.stopping]
    if not able:
        return ()  # the usual case, which needs no placement
    free = _without_runs(unavailable, {run.name for run in active if run.stopping})
    if fit(task, inventory, free) is not None:
        return ()
    able.sort(key=lambda run: (run.priority, -run.since, run.name))
    if fit(task, inventory, _without_runs(free, {run.name for run in able})) is None:
        return ()
    sets = (chosen for size in range(1, len(able)) for chosen in combinations(able, size))
    for chosen in islice(sets, MAX_SETS_TRIED):
        if fit(task, inventory, _without_runs(free, {run.name for run in chosen})) is not None:
            return tuple(run.name for run in chosen)
    return _needed(task, inventory, free, able)


def _needed(
    task: Task, inventory: Inventory, unavailable: UnavailableNodes, able: Sequence[ActiveRun]
) -> tuple[RunName, ...]:
    """Return the runs without those that need not stop, important ones first."""
    left = list(able)
    for run in reversed(able):
        fewer = [other for other in left if other is not run]
        if fit(task, inventory, _without_runs(unavailable, {other.name for other in fewer})) is not None:
            left = fewer
    return tuple(run.name for run in left)


def _without_runs(unavailable: UnavailableNodes, runs: set[RunName]) -> UnavailableNodes:
    """Return the nodes that are unavailable once some runs are gone."""
    after = {name: use.without(runs) for name, use in unavailable.items()}
    return {name: use for name, use in after.items() if use.used_by or use.unhealthy or use.drained}
