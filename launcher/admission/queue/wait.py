"""A queued run: evaluated after each change of the queue, placed when it fits."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from launcher.admission.checks.before_start import StartCheck
from launcher.admission.checks.consequences import end_idle_checks
from launcher.admission.current_inventory import whole
from launcher.admission.domains import guessed
from launcher.admission.listener import ControllerListener
from launcher.admission.preflight import Preflight
from launcher.admission.queue.explain import queue_order, reason, shortfall_summary, status_message
from launcher.admission.store_retry import StoreRetry
from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.placement import Placement, Shortfall, Unavailable
from launcher.core.model.record import Outcome, Record
from launcher.core.model.run import Cause, Run, RunId, RunState, Wanted
from launcher.core.queue.backfill import QueueDecision, QueuedRun
from launcher.errors import LaunchError
from launcher.ports import Checker, Clock, Prober
from launcher.store.chains import waits_for
from launcher.store.new_run import first_status
from launcher.store.queue import QueueState
from launcher.store.store import Store

AGAIN_S = 30.0
"""How often a queued run is evaluated without a change in the store (s): nodes may have recovered or been released by
others, and the inventory file may have changed."""

NAMED = 3
"""How many unfit nodes are named in a status message."""

Open = Callable[[Inventory], Prober]
OpenChecker = Callable[[Inventory], Checker]


def await_turn(
    store: Store,
    run_id: RunId,
    clock: Clock,
    open_prober: Open,
    stopped: Callable[[], bool],
    retry: StoreRetry,
    open_checker: OpenChecker | None = None,
) -> RunState:
    """Return STARTING for a placed run, STOPPED for an ended one.

    QUEUED where `stopped()` came first.

    StoreError where the store fails; `retry` is told when it works.
    """
    check: StartCheck | None = None
    if open_checker is not None:
        check = StartCheck(store, open_checker, ControllerListener(store, run_id), _TakenDown(store, run_id, stopped))
    while True:
        number = store.queue.number()
        run, _ = store.load(run_id)
        if run.wanted is Wanted.NOTHING:
            return _end(store, run, "ended while it was queued")
        if stopped():
            return RunState.QUEUED
        before = store.chains.dependency(run)
        if before is not None and before.ended is None:
            store.queue.tell(run, waits_for(before.name), {}, time.time())
        elif before is not None and before.ended and before.ended is not RunState.SUCCEEDED:
            return _end(store, run, f"not started: `{before.name}` did not succeed ({before.ended.value})")
        elif _Evaluation(store, run, open_prober, check).placed():
            return RunState.STARTING
        retry.recovered()
        clock.wait(clock.now() + AGAIN_S, _Changed(store, number, stopped))


class _Changed:
    """Whether the queue may have changed, or the waiting was stopped."""

    def __init__(self, store: Store, number: int, stopped: Callable[[], bool]) -> None:
        self._store = store
        self._number = number
        self._stopped = stopped

    def __call__(self) -> bool:
        return self._stopped() or self._store.queue.number() != self._number


class _TakenDown:
    """Whether a queued run was taken down, or its controller stops: a check of its nodes ends then."""

    def __init__(self, store: Store, run: RunId, stopped: Callable[[], bool]) -> None:
        self._store, self._run, self._stopped = store, run, stopped
        self._due, self._found = 0.0, False

    def __call__(self) -> bool:
        if not self._found and time.monotonic() >= self._due:
            self._due = time.monotonic() + 1.0
            self._found = self._store.wanted(self._run) is Wanted.NOTHING
        return self._found or self._stopped()


def _end(store: Store, run: Run, why: str) -> RunState:
    now, state = time.time(), RunState.STOPPED
    over = Outcome(cause=Cause.STOPPED, message=why)
    store.intend(run.id, Record(outcome=over), (), over.message, state, now)
    store.publish(run.id, replace(first_status(run, over.message, now), state=state, outcome=over))
    store.finish(run.id, state, now)
    return state


class _Evaluation:
    """One evaluation of the queue for one run."""

    def __init__(self, store: Store, run: Run, open_prober: Open, check: StartCheck | None) -> None:
        self._store = store
        self._run = run
        self._open_prober, self._check = open_prober, check
        self._now = time.time()
        self._whole = whole(store, run.fleet)
        self._fleet = guessed(self._whole, store.domains.of(run.fleet.name))
        # Nodes that were unfit before may have recovered: they are asked again.
        self._mine = QueuedRun(id=run.id, name=run.name, task=run.task, since=run.queued_at or self._now)

    def placed(self) -> bool:
        """Whether the run has its nodes now.

        Else store why not, and preempt runs where that helps.
        """
        state = self._store.queue.state(self._fleet.name, self._now)
        turn = self._turn(state)
        why: str | None = None
        unfit: dict[NodeName, str] = {}
        if turn is not None and turn.placement is not None:
            why = self._ask(turn, unfit)
            if why is None:
                return True
            unavailable = {name: Unavailable(unhealthy=message) for name, message in unfit.items()}
            self._mine = replace(self._mine, unavailable=unavailable)
            turn = self._turn(state)
        if turn is not None and turn.victims:
            self._store.queue.preempt(turn.victims, self._run, self._now)
        message = why or (reason(turn, self._fleet, state) if turn else "the queue is too long to evaluate")
        told = status_message(self._run.id, self._order(state), len(state.waiting), message)
        self._store.queue.tell(self._run, told, unfit, self._now)
        return False

    def _order(self, state: QueueState) -> Sequence[QueueDecision]:
        return queue_order(self._fleet, state, (self._mine,))

    def _turn(self, state: QueueState) -> QueueDecision | None:
        return next((turn for turn in self._order(state) if turn.run.id == self._mine.id), None)

    def _ask(self, turn: QueueDecision, unfit: dict[NodeName, str]) -> str | None:
        """Check the nodes of a turn, and place the run there.

        Else return why not, and add unfit nodes to `unfit`.
        """
        with _closing(self._open_prober(self._whole)) as prober:
            listener = ControllerListener(self._store, self._run.id)
            flight = Preflight(self._run.task, self._whole, prober, listener, self._store.domains.of(self._whole.name))
            try:
                end_idle_checks(self._store, self._whole.name)
                answer = self._checked(flight, flight.place(turn.unavailable), turn)
            except LaunchError as error:
                return error.advice
        if self._whole.checks.before_start is not None and self._check is not None and self._check.interrupted:
            return "the check of its nodes was stopped"
        unfit.update(flight.unhealthy)
        unfit.update({name: f"held by {holder}" for name, holder in flight.held.items()})
        if isinstance(answer, Shortfall):
            named = (f"`{name}`: {why}" for name, why in list(unfit.items())[:NAMED])
            return "; ".join((shortfall_summary(answer), *named))
        if self._store.queue.admit(self._run.id, lambda state: self._admit(state, flight, answer), time.time()):
            return None
        return f"other runs took {fold(answer.nodes)}"

    def _checked(self, flight: Preflight, answer: Placement | Shortfall, turn: QueueDecision) -> Placement | Shortfall:
        """Return a placement whose nodes have passed `before_start`, if the inventory has that check."""
        if self._check is None:
            return answer
        return self._check.settle(self._whole, flight, answer, lambda: turn.unavailable)

    def _admit(self, state: QueueState, flight: Preflight, answer: Placement) -> tuple[Placement, Inventory] | None:
        """Return the checked placement while it is still the best."""
        turn = self._turn(state)
        holds = turn is not None and turn.placement is not None and flight.again(turn.unavailable) == answer
        return (answer, flight.fleet) if holds else None


@contextmanager
def _closing(prober: Prober) -> Iterator[Prober]:
    try:
        yield prober
    finally:
        prober.close()
