"""Preemption: the runs of lower priority to stop so that a queued run fits."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from launcher.core.model.inventory import Inventory
from launcher.core.model.placement import UnavailableNodes
from launcher.core.model.run import RunName
from launcher.core.model.task import Task
from launcher.core.queue.timeline import fit

PROTECTED_S = 1800.0
"""How long a run that was preempted runs before it may be preempted again (s): time to start, and to do some work."""

SHORT_RUN_S = 600.0
"""A run that preempted others and keeps its nodes for less than this makes the next one cool down (s)."""

COOL_DOWN_S = 300.0
"""How long the program of such a run preempts nothing; twice as long after each further one in a day (s)."""

LONGEST_COOL_DOWN_S = 14_400.0
"""The longest such time (s). One job that failed at once was queued 35 times, and preempted 548 others
(https://arxiv.org/abs/2410.21680)."""

MAX_SETS_TRIED = 300
"""How many sets of runs are tried for the smallest; each costs a placement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveRun:
    """A run that has nodes since `since` (s, wall clock).

    It keeps them for at most `remaining` more seconds; infinity means not known. A run that is `stopping` was told to
    stop, and ends after its grace. It was `preempted` so often before, and is `protected` for so many more seconds.
    """

    name: RunName
    priority: int
    preemptible: bool
    since: float
    remaining: float
    stopping: bool = False
    preempted: int = 0
    protected: float = 0.0


def protection(preempted: int, runs_for: float) -> float:
    """Return how much longer a run may not be preempted (s), by how often it was and how long it has had its nodes."""
    return max(0.0, PROTECTED_S - runs_for) if preempted else 0.0


def cool_down(short_ends: Sequence[float], now: float) -> float:
    """Return how much longer a program may not preempt others (s).

    `short_ends` are the times at which its runs ended that preempted others and had their nodes for less than
    `SHORT_RUN_S`, of the last day (s, on the clock of `now`).
    """
    if not short_ends:
        return 0.0
    pause = min(COOL_DOWN_S * 2.0 ** min(len(short_ends) - 1, 10), LONGEST_COOL_DOWN_S)
    return max(0.0, max(short_ends) + pause - now)


def victims(
    task: Task, inventory: Inventory, unavailable: UnavailableNodes, active: Sequence[ActiveRun]
) -> tuple[RunName, ...]:
    """Return the fewest runs to stop so that a task fits.

    The lowest priority goes first, then the run that was preempted least often, then the youngest. A run that was
    preempted is protected for a while, so that it gets something done. Empty if the task fits once the stopping runs
    are gone, or would not fit without all runs that may be stopped. Each set is tried by placing the task, so that it
    frees whole domains, not single nodes.
    """
    able = [run for run in active if run.preemptible and run.priority < task.priority]
    able = [run for run in able if not run.stopping and not run.protected]
    if not able:
        return ()  # the usual case, which needs no placement
    free = _without_runs(unavailable, {run.name for run in active if run.stopping})
    if fit(task, inventory, free) is not None:
        return ()
    able.sort(key=lambda run: (run.priority, run.preempted, -run.since, run.name))
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
