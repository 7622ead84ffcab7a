"""The queued runs of all inventories, as `queue` shows them."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from launcher.admission.current_inventory import whole
from launcher.admission.domains import guessed
from launcher.admission.queue.explain import queue_order, reason
from launcher.core.model.inventory import Inventory
from launcher.core.model.run import RunId, RunName, RunState
from launcher.core.queue.backfill import QueuedRun
from launcher.errors import OtherVersionError
from launcher.store.chains import waits_for
from launcher.store.queue import QueueState
from launcher.store.rows import RunRow
from launcher.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """One queued run. Times are seconds since the epoch.

    `position` counts from 1 for each inventory; None where the run has no controller to start it, or comes after
    another run. `starts_by` is the latest start, None where it is unknown.
    """

    name: RunName
    id: RunId
    inventory: str
    user: str
    submit_host: str
    position: int | None
    priority: int
    since: float
    starts_by: float | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueListing:
    """All queued runs in order, and an error for each unreadable run."""

    runs: tuple[QueueEntry, ...]
    unreadable: tuple[OtherVersionError, ...]


def list_queue(store: Store) -> QueueListing:
    """Return the queued runs of all inventories."""
    rows, unreadable = store.live()
    errors = {error.run: error for error in unreadable}
    queued = {row.id: row for row in rows if row.state is RunState.QUEUED}
    found: list[QueueEntry] = []
    for name in sorted({row.fleet for row in queued.values()}):
        now = time.time()
        state = store.queue.state(name, now)
        errors.update({error.run: error for error in state.unreadable})
        if state.waiting:
            fleet = guessed(whole(store, store.load(state.waiting[0].id)[0].fleet), store.domains.of(name))
            found += _of_inventory(fleet, state, queued, now)
        for one, before in state.dependent:
            if (row := queued.get(one.id)) is not None:
                found.append(_queued(one, row, waits_for(before)))
    return QueueListing(runs=tuple(found), unreadable=tuple(errors.values()))


def _of_inventory(fleet: Inventory, state: QueueState, rows: dict[RunId, RunRow], now: float) -> Iterator[QueueEntry]:
    for position, turn in enumerate(queue_order(fleet, state), start=1):
        starts_by = None if turn.after is None else now + turn.after / fleet.speed
        why = reason(turn, fleet, state)
        if (row := rows.get(turn.run.id)) is not None:
            yield _queued(turn.run, row, why, position=position, starts_by=starts_by)
    for one in state.waiting:
        if one.id not in state.driven and (row := rows.get(one.id)) is not None:
            yield _queued(one, row, f"no controller; `nvlaunch watch {one.name}` starts one")


def _queued(
    one: QueuedRun, row: RunRow, why: str, *, position: int | None = None, starts_by: float | None = None
) -> QueueEntry:
    return QueueEntry(
        name=one.name,
        id=one.id,
        inventory=row.fleet,
        user=row.user.name,
        submit_host=row.user.host,
        position=position,
        priority=one.task.priority,
        since=one.since,
        starts_by=starts_by,
        reason=why,
    )
