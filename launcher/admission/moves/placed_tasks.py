"""Runs as the planner of moves sees them."""

from launcher.core.model.record import Record
from launcher.core.model.run import Run, RunState, Wanted
from launcher.core.planner.relocation import PlacedTask
from launcher.errors import OtherVersionError
from launcher.store.store import Store


def placed_tasks(store: Store, fleet: str) -> tuple[tuple[PlacedTask, ...], tuple[OtherVersionError, ...]]:
    """Return the runs that have nodes of an inventory, and an error for each unreadable run.

    Those that may move, but do not run undisturbed, are not movable now.
    """
    rows, unreadable = store.live()
    found: list[PlacedTask] = []
    errors = list(unreadable)
    for row in [row for row in rows if row.fleet == fleet]:
        try:
            run, record = store.load(row.id)
        except OtherVersionError as error:
            errors.append(error)
            continue
        if run.placement.slices:
            movable = run.task.may_move and row.state is RunState.RUNNING and undisturbed(run, record)
            found.append(PlacedTask(name=run.name, task=run.task, placement=run.placement, movable=movable))
    return tuple(found), tuple(errors)


def undisturbed(run: Run, record: Record) -> bool:
    """Whether every gang of a run runs, in its slices, and nothing else is asked of the run."""
    asked = record.shared_fault or record.relocating or record.move or record.resizing or run.target
    ends = record.outcome or run.wanted is not Wanted.RUNNING
    whole = all(gang.attempt > 0 and not gang.broken for gang in record.gangs.values())
    return not asked and not ends and whole and {slot.node for slot in record.slots.values()} <= {*run.placement.nodes}
