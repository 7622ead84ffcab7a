"""Runs as the planner of moves sees them."""

from collections.abc import Iterable

from launcher.core.model.run import Run
from launcher.core.planner.relocation import PlacedTask


def placed_tasks(runs: Iterable[Run]) -> tuple[PlacedTask, ...]:
    """Return the runs that have nodes, with their tasks and placements.

    None may move: a task has no key yet that allows it.
    """
    return tuple(
        PlacedTask(name=run.name, task=run.task, placement=run.placement, movable=False)
        for run in runs
        if run.placement.slices
    )
