"""Accepted runs with a controller of their own, which nobody follows."""

import time

from launcher.admission.launch import Acceptance, AcceptedRun
from launcher.core.model.run import Cause, RunId, RunState
from launcher.drive.spawn import ensure_controller
from launcher.store.chains import IN_LINE
from launcher.store.rows import RunRow
from launcher.store.store import Store
from launcher.transport.clock import pause

SETTLE_S = 10.0
"""How long to wait until a run has its leases, so that it can be placed again where it does not get them (s)."""

POLL_S = 0.05
RELOAD_S = 0.5
"""How long a run is not decoded anew where its journal has nothing new (s)."""
RELOAD_SHARE = 5.0
"""How much longer than its decoding took a run is not decoded anew, whatever its journal has: thousands of nodes take
long."""


def begin(store: Store, accepted: AcceptedRun) -> None:
    """Make sure that an accepted run has a controller.

    KeyboardInterrupt, after that, where Ctrl-C came meanwhile.
    """
    try:
        ensure_controller(store.home, store.find(accepted.id))
    except KeyboardInterrupt:
        ensure_controller(store.home, store.find(accepted.id))
        raise
    if accepted.interrupted:
        raise KeyboardInterrupt


def start_detached(store: Store, accepted: AcceptedRun) -> RunRow:
    """Give an accepted run a controller.

    Return the run once it has its nodes, its place in the queue, or has ended.
    """
    begin(store, accepted)
    match accepted.how:
        case Acceptance.STARTED:
            return _with_leases(store, accepted.id)
        case Acceptance.QUEUED:
            return _in_queue(store, accepted.id)
        case Acceptance.RESIZED:
            return store.find(accepted.id)


def _with_leases(store: Store, run: RunId) -> RunRow:
    """Return a run once it has its leases, has ended, or `SETTLE_S` have passed."""
    deadline = time.monotonic() + SETTLE_S
    seen, due, rest = -1, 0.0, 0.0
    while True:
        row, last, now = store.find(run), store.journal.last(run), time.monotonic()
        if row.ended is None and now < deadline and (now < rest or (last == seen and now < due)):
            pause(POLL_S)
            continue
        # Large runs take long to decode: only when something happened, or it is due.
        (found, record), seen, due = store.load(run), last, now + RELOAD_S
        rest = now + RELOAD_SHARE * (time.monotonic() - now)
        wanted = set(found.placement.nodes) - set(record.failed_nodes)
        losing = any(evidence.cause is Cause.LEASE_HELD for evidence in record.failed_nodes.values())
        if row.ended is not None or (wanted <= record.leased and not losing) or time.monotonic() > deadline:
            return row
        pause(POLL_S)


def _in_queue(store: Store, run: RunId) -> RunRow:
    """Return a queued run once its controller has evaluated the queue."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        row = store.find(run)
        if row.state is not RunState.QUEUED or row.status_message != IN_LINE or time.monotonic() > deadline:
            return row
        pause(POLL_S)
