"""The loop: observe, reconcile, journal, execute, wait. There is no other."""

import time
from collections.abc import Callable
from dataclasses import replace

from launcher.core.actions import Action, Answer
from launcher.core.reconcile import Decision, reconcile
from launcher.core.run import RunId, RunState, rebased
from launcher.core.status import summarise
from launcher.drive.execute import Executor
from launcher.drive.observe import observe
from launcher.ports import Clock, Nodes
from launcher.store.store import Store


class Loop:
    """One run, driven until it is over or until this process is asked to stop driving it."""

    def __init__(self, store: Store, nodes: Nodes, clock: Clock, executor: Executor, run_id: RunId) -> None:
        self._store = store
        self._nodes = nodes
        self._clock = clock
        self._executor = executor
        self._run, record = store.load(run_id)
        # Times of an earlier boot mean nothing on this one.
        self._record = rebased(record, clock.now())
        self._state: RunState | None = None
        self._since = 0.0

    def drive(self, stopped: Callable[[], bool]) -> RunState:
        """Go round until the run is over, or until `stopped()`; answer the state it is in then."""
        while True:
            decision = self.tick()
            if decision.state.final or stopped():
                return decision.state
            self._clock.wait(decision.wake_at, lambda: stopped() or self._executor.pending())

    def tick(self) -> Decision:
        """Go round once: a decision is kept before it is acted on, and acted on before it is shown."""
        self._executor.collect(self._keep)
        run = replace(self._run, wanted=self._store.wanted(self._run.id))
        in_flight = self._executor.in_flight
        receipts = self._store.receipts_after(run.id, self._record.receipts_seen)
        seen = observe(run, self._nodes, self._clock, in_flight=in_flight, receipts=receipts)
        decision = reconcile(run, seen, self._record)
        now = time.time()
        self._store.intend(run.id, decision.record, decision.actions, decision.headline, decision.state, now)
        self._record = decision.record
        for action in decision.actions:
            self._executor.begin(run, action)
        if decision.state is not self._state:
            self._state, self._since = decision.state, now
        self._store.publish(run.id, summarise(run, decision, since=self._since, observed_at=now))
        if decision.state.final:
            self._store.finish(run.id, decision.state, now)
        return decision

    def _keep(self, action: Action, answer: Answer) -> None:
        self._store.receipt(self._run.id, action, answer, time.time())
