"""Follow a run to its end.

Report what its journal says, and replace a controller that died. Never harms the run.
"""

import time
from collections.abc import Callable, Iterator
from typing import Protocol

from launcher.core.model.run import RunId, RunState
from launcher.drive.spawn import controller_log, ensure_controller
from launcher.errors import LaunchError
from launcher.store.journal import Event, EventKind
from launcher.store.rows import RunRow
from launcher.store.store import Store
from launcher.transport.clock import pause

POLL_S = 0.1
"""How often the journal is read (s): too short for a person to notice, and a read takes a millisecond."""

RELEASE_WAIT_S = 20.0
"""How long to wait for unreachable nodes at the end of a run, before that is left to the controller (s)."""

MAX_CONTROLLERS = 3
"""How many controllers may die before the follower gives up: one that was killed is replaced, a bug repeats."""


class RunListener(Protocol):
    """Receives what happens in a followed run."""

    def status(self, event: Event) -> None:
        """Receive a new status of the run."""

    def warning(self, event: Event) -> None:
        """Receive a warning; equal messages come once."""

    def node_failed(self, event: Event) -> None:
        """Receive a node that the run does not use any more, and why."""

    def queued_again(self, row: RunRow) -> None:
        """Receive a run that was preempted; its successor is followed."""

    def controller_died(self, row: RunRow) -> None:
        """Receive a run whose controller died and is replaced."""


class SilentRunListener:
    """Ignores everything."""

    def status(self, event: Event) -> None:
        """Ignore."""

    def warning(self, event: Event) -> None:
        """Ignore."""

    def node_failed(self, event: Event) -> None:
        """Ignore."""

    def queued_again(self, row: RunRow) -> None:
        """Ignore."""

    def controller_died(self, row: RunRow) -> None:
        """Ignore."""


class Follower:
    """Reports new entries in the journal of a run, then of its successors."""

    def __init__(self, store: Store, run: RunId, listener: RunListener, after: int = 0) -> None:
        self._store = store
        self._run = run
        self._listener = listener
        self._seen = after
        self._warned: set[str] = set()

    def poll(self) -> RunRow:
        """Report new entries; return the run as of before they were read.

        So none is missed when it has ended.
        """
        row = self._store.find(self._run)
        for event in self._store.journal.events(self._run, after=self._seen):
            self._seen = event.seq
            if event.kind is EventKind.STATUS:
                self._listener.status(event)
            elif event.kind is EventKind.NODE_FAILED:
                self._listener.node_failed(event)
            elif event.kind is EventKind.WARNING and event.message not in self._warned:
                self._warned.add(event.message)
                self._listener.warning(event)
        successor = self._store.chains.after(row.id) if row.ended is not None else None
        if successor is None:
            return row
        self._listener.queued_again(row)
        self._run, self._seen = successor, 0
        return self.poll()


def event_batches(store: Store, run: RunId, *, after: int = 0, follow: bool = False) -> Iterator[tuple[Event, ...]]:
    """Return the journal entries of a run above `after`, in batches.

    With `follow` new ones until the run has ended.
    """
    while True:
        ended = store.find(run).ended is not None
        batch = store.journal.events(run, after=after)
        if batch:
            after = batch[-1].seq
            yield batch
        if ended or not follow:
            return
        pause(2 * POLL_S)


def follow(
    store: Store,
    run: RunId,
    listener: RunListener,
    *,
    after: int = 0,
    timeout: float | None = None,
    each: Callable[[], None] = lambda: None,
) -> RunRow:
    """Return a run when it has ended.

    Also when only unreachable nodes were left for `RELEASE_WAIT_S`.

    Reports journal entries above `after`, and calls `each` each time. TimeoutError after `timeout` seconds; LaunchError
    where controllers die again and again, or the controller was told to stop.
    """
    begun = time.monotonic()
    controllers = MAX_CONTROLLERS
    pending_since: float | None = None
    follower = Follower(store, run, listener, after)
    while True:
        row = follower.poll()
        each()
        if row.ended is not None:
            return row
        now = time.monotonic()
        pending_since = (pending_since or now) if row.state is RunState.RELEASE_PENDING else None
        if pending_since and now - pending_since > RELEASE_WAIT_S:
            return row
        if timeout is not None and now - begun > timeout:
            raise TimeoutError(f"run `{row.name}` is {row.state.value} after {timeout:.0f} s")
        controllers -= replace_dead_controller(store, row, listener)
        if not controllers:
            raise LaunchError(
                f"the controller of `{row.name}` died {MAX_CONTROLLERS} times",
                hints=(f"its log is {controller_log(store.home, run)}",),
            )
        pause(POLL_S)


def attend(store: Store, row: RunRow, listener: RunListener) -> None:
    """Make sure that a run which is about to be followed has a controller."""
    if row.owner is None:  # not started yet, or told to stop
        ensure_controller(store.home, row)
    else:
        replace_dead_controller(store, row, listener)


def replace_dead_controller(store: Store, row: RunRow, listener: RunListener) -> bool:
    """Replace the controller of a run where it died.

    Return whether it did. LaunchError where it was told to stop.
    """
    if row.owner is None:
        raise LaunchError(
            f"the controller of `{row.name}` stopped; the run goes on without one",
            hints=(
                f"`nvlaunch watch {row.name}` starts another controller",
                f"its log is {controller_log(store.home, row.id)}",
            ),
        )
    if row.owner.alive():
        return False
    listener.controller_died(row)
    ensure_controller(store.home, row)
    return True
