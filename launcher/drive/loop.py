"""The loop: observe, reconcile, journal, execute, wait. There is no other."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor as Pool
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from launcher.admission.store_retry import StoreRetry
from launcher.core.control.reconcile import Decision, reconcile
from launcher.core.control.slice_count import small_groups
from launcher.core.control.status import RunStatus, summarise
from launcher.core.model.action_key import ActionKey
from launcher.core.model.actions import Action, AddSpare, Grow, Move, Relocate, Resize, ReturnSpare
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import HeadSeen, Observation
from launcher.core.model.receipt import Answer, Receipt, Result
from launcher.core.model.record import rebased
from launcher.core.model.run import Run, RunId, RunState, Wanted
from launcher.drive import health_polling
from launcher.drive.execute import Executor, Inline
from launcher.drive.health_polling import HealthPoller
from launcher.drive.observe import observe
from launcher.errors import StoreError
from launcher.ports import Clock, Nodes
from launcher.store.decision_log import logged
from launcher.store.store import Store

LEDGER_S = 30.0
"""How often quarantines are read, and room for more slices is looked for (s)."""

LONGEST_PAUSE_S = 1.0
"""The longest time for which answers are gathered before the next tick (s). After a tick they are gathered for as long
as it took: so ticks take half of the time at most. Without that a launch of thousands of nodes, of which answers come
all the time, would have a tick of all nodes for every few of them. A small run has ticks of milliseconds."""


class Loop:
    """One run, driven until it is over or until this process is asked to stop.

    While the store fails nothing is decided: nothing may be done that is not stored first. `retry` tells people.
    """

    def __init__(
        self, store: Store, nodes: Nodes, clock: Clock, executor: Executor, run_id: RunId, retry: StoreRetry
    ) -> None:
        self._store = store
        self._nodes = nodes
        self._clock = clock
        self._executor = executor
        self._retry = retry
        self._read(run_id)
        self._health = HealthPoller(nodes, clock, _pool_of(self._run))
        self._doubted: frozenset[NodeName] = frozenset()
        self._suspects: Mapping[NodeName, str] = {}
        self._ledger_due = 0.0
        self._gather_until = 0.0
        self._room: frozenset[str] = frozenset()

    def _read(self, run_id: RunId) -> None:
        """Read the run anew: at first, and after a failure that leaves it in doubt."""
        self._run, record = self._store.load(run_id)
        # Times of an earlier boot mean nothing on this one.
        self._record = rebased(record, self._clock.now())
        self._state, self._since = self._store.standing(run_id)
        self._status: RunStatus | None = None
        self._doubtful = False

    def drive(self, stopped: Callable[[], bool]) -> RunState:
        """Tick until the run is over, or until `stopped()`; return its state then."""
        try:
            while True:
                try:
                    begun = self._clock.now()
                    decision = self.tick()
                    ended = self._clock.now()
                    self._gather_until = ended + min(ended - begun, LONGEST_PAUSE_S)
                    self._retry.recovered()
                    if decision.state.final or stopped():
                        return decision.state
                    self._clock.wait(decision.wake_at, lambda: stopped() or self._has_news())
                except StoreError as error:
                    self._doubtful = True
                    if not self._retry.wait(error, stopped):
                        return self._state
        finally:
            self._health.close()

    def _has_news(self) -> bool:
        """Whether something has ended that the next decision waits for, and no more is about to end."""
        if self._executor.pending():
            return self._executor.settled() or self._clock.now() >= self._gather_until
        return bool(self._doubted) and self._health.pending()

    def tick(self) -> Decision:
        """Tick once: store the decision before acting on it, and act before showing it."""
        if self._doubtful:
            self._read(self._run.id)
        self._executor.collect(self._keep)
        in_flight = self._executor.in_flight
        receipts = self._store.receipts_after(self._run.id, self._record.receipts_seen)
        run = self._current(receipts)
        self._check(run)
        seen = self._observe(run, in_flight, receipts)
        decision = reconcile(run, seen, self._record)
        self._doubted = decision.doubted
        self._check(run)
        now = time.time()
        entry = logged(run, seen, self._record, decision)
        self._store.intend(
            run.id,
            decision.record,
            decision.actions,
            decision.status_message,
            decision.state,
            now,
            entry,
            log=decision.tail,
        )
        before, after = self._record, decision.record
        if (before.program_failures, before.failed_nodes) != (after.program_failures, after.failed_nodes):
            self._ledger_due = 0.0  # this decision may have quarantined a node, or released one
        self._record = decision.record
        self._executor.begin(run, decision.actions)
        if decision.state is not self._state:
            self._state, self._since = decision.state, now
        head = seen.head.head if isinstance(seen.head, HeadSeen) else None
        self._status = summarise(
            run,
            decision,
            since=self._since,
            observed_at=now,
            drained=seen.drained,
            wall=seen.wall,
            dashboard=head.dashboard if head else None,
            before=self._status,
        )
        self._store.publish(run.id, self._status)
        if decision.state.final:
            self._store.finish(run.id, decision.state, now)
        return decision

    def _current(self, receipts: Sequence[Receipt]) -> Run:
        """Return the run as it is now, with nodes that it was given meanwhile.

        The store is read only when a receipt says that the run has changed.
        """
        changes = (AddSpare, ReturnSpare, Relocate, Move, Resize, Grow)
        if any(isinstance(one.action, changes) and one.answer.result is Result.DONE for one in receipts):
            self._run, _ = self._store.load(self._run.id)
        wanted = self._store.wanted(self._run.id)
        return replace(self._run, wanted=wanted, head_at=self._record.head or self._run.head_at)

    def _observe(self, run: Run, in_flight: frozenset[ActionKey], receipts: Sequence[Receipt]) -> Observation:
        now = self._clock.now()
        if now >= self._ledger_due:
            self._suspects = self._store.ledger.suspects(run.fleet.name, run.id)
            self._ledger_due = now + LEDGER_S
            # A placement in the whole inventory: only where the answer can matter.
            small = any(small_groups(run.task)) and self._state is RunState.RUNNING
            self._room = self._executor.room(run) if small else frozenset()
        return observe(
            run,
            self._nodes,
            self._clock,
            in_flight=in_flight,
            receipts=receipts,
            health=self._health.health,
            requests=self._store.requests.after(run.id, self._record.requests_seen),
            drained=self._store.ledger.drained(run.fleet.name),
            suspects=self._suspects,
            room=self._room,
            warn=lambda message: self._store.journal.warn(self._run.id, "look", message, time.time()),
            kept_out=self._store.checks.history.kept_out(run.fleet, self._record.failed_nodes, time.time()),
        )

    def _check(self, run: Run) -> None:
        """Ask leased and failed nodes for their health, and all that are doubted."""
        if run.wanted is Wanted.RUNNING:
            self._health.begin(run, self._record.leased | self._record.failed_nodes.keys(), self._doubted)

    def _keep(self, ended: Sequence[tuple[Action, Answer]]) -> None:
        self._store.receipts(self._run.id, ended, time.time())


def _pool_of(run: Run) -> Pool:
    """Return the pool that asks for health: an imaginary fleet answers at once."""
    if run.fleet.capabilities.imaginary:
        return Inline()
    return ThreadPoolExecutor(health_polling.FAN_OUT, thread_name_prefix="inspect")
