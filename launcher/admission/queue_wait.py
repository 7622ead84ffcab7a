"""A run that waits for its turn: looked at whenever something changes, asked for its nodes, and placed."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from launcher.admission.current_inventory import whole
from launcher.admission.preflight import Preflight, guessed
from launcher.admission.queue_explain import lack, line, reason, status_message
from launcher.admission.store_retry import Trouble
from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.placement import Placement, Shortfall, Unavailable
from launcher.core.model.record import Outcome, Record
from launcher.core.model.run import Cause, Run, RunId, RunState, Wanted
from launcher.core.queue.backfill import QueueDecision, QueuedRun
from launcher.errors import LaunchError
from launcher.ports import Clock, Prober
from launcher.store.new_run import first_status
from launcher.store.queue import World
from launcher.store.store import Store

AGAIN_S = 30.0
"""How often a run that waits is looked at although nothing has changed here (s): nodes may be well again, or free of
others, and the inventory may be another one."""

NAMED = 3
"""How many nodes that are unfit are named in a status_message."""

Open = Callable[[Inventory], Prober]


def await_turn(
    store: Store, run_id: RunId, clock: Clock, open_prober: Open, stopped: Callable[[], bool], trouble: Trouble
) -> RunState:
    """Return when a run has its nodes (STARTING) or is taken down (STOPPED); QUEUED where `stopped()` came first.

    StoreError where the store fails; `trouble` is told when it does not.
    """
    while True:
        number = store.queue.number()
        run, _ = store.load(run_id)
        if run.wanted is Wanted.NOTHING:
            return _take_down(store, run)
        if stopped():
            return RunState.QUEUED
        if _Look(store, run, open_prober).placed():
            return RunState.STARTING
        trouble.over()
        clock.wait(clock.now() + AGAIN_S, _Changed(store, number, stopped))


class _Changed:
    """Whether something may have changed whose turn it is, or nobody wants to know any more."""

    def __init__(self, store: Store, number: int, stopped: Callable[[], bool]) -> None:
        self._store = store
        self._number = number
        self._stopped = stopped

    def __call__(self) -> bool:
        return self._stopped() or self._store.queue.number() != self._number


def _take_down(store: Store, run: Run) -> RunState:
    now, state = time.time(), RunState.STOPPED
    over = Outcome(cause=Cause.STOPPED, message="taken down while it waited for its turn")
    store.intend(run.id, Record(outcome=over), (), over.message, state, now)
    store.publish(run.id, replace(first_status(run, over.message, now), state=state, outcome=over))
    store.finish(run.id, state, now)
    return state


class _Look:
    """One look at the line, of one run that waits in it."""

    def __init__(self, store: Store, run: Run, open_prober: Open) -> None:
        self._store = store
        self._run = run
        self._open_prober = open_prober
        self._now = time.time()
        self._whole = whole(store, run.fleet)
        self._fleet = guessed(self._whole, store.domains(run.fleet.name))
        # What was sick may be well by now: it is asked once more.
        self._mine = QueuedRun(id=run.id, name=run.name, task=run.task, since=run.queued_at or self._now)

    def placed(self) -> bool:
        """Whether the run has its nodes now; else keep why not, and ask those to stop that it goes before."""
        world = self._store.queue.world(self._fleet.name, self._now)
        turn = self._turn(world)
        why: str | None = None
        barred: dict[NodeName, str] = {}
        if turn is not None and turn.placement is not None:
            why = self._ask(turn, barred)
            if why is None:
                return True
            self._mine = replace(
                self._mine, unavailable={name: Unavailable(unhealthy=message) for name, message in barred.items()}
            )
            turn = self._turn(world)
        if turn is not None and turn.victims:
            self._store.queue.preempt(turn.victims, self._run, self._now)
        message = why or (reason(turn, self._fleet, world) if turn else "too many come first to tell")
        self._store.queue.tell(self._run, status_message(self._run.id, self._line(world), message), barred, self._now)
        return False

    def _line(self, world: World) -> Sequence[QueueDecision]:
        return line(self._fleet, world, (self._mine,))

    def _turn(self, world: World) -> QueueDecision | None:
        return next((turn for turn in self._line(world) if turn.run is self._mine), None)

    def _ask(self, turn: QueueDecision, barred: dict[NodeName, str]) -> str | None:
        """Ask the nodes that the run would get, and give it those; else answer why not, and add who is unfit."""
        with _closing(self._open_prober(self._whole)) as prober:
            flight = Preflight(self._run.task, self._whole, prober, Unheard(), self._store.domains(self._whole.name))
            try:
                answer = flight.place(turn.unavailable)
            except LaunchError as error:
                return error.advice
        barred.update(flight.sick)
        barred.update({name: f"held by {holder}" for name, holder in flight.held.items()})
        if isinstance(answer, Shortfall):
            unfit = (f"`{name}`: {why}" for name, why in list(barred.items())[:NAMED])
            return "; ".join((lack(answer), *unfit))
        if self._store.queue.admit(self._run.id, lambda world: self._admit(world, flight, answer), time.time()):
            return None
        return f"others came first to {fold(answer.nodes)}"

    def _admit(self, world: World, flight: Preflight, answer: Placement) -> tuple[Placement, Inventory] | None:
        """Return the placement whose nodes were asked, where it still holds."""
        turn = self._turn(world)
        holds = turn is not None and turn.placement is not None and flight.again(turn.unavailable) == answer
        return (answer, flight.fleet) if holds else None


@contextmanager
def _closing(prober: Prober) -> Iterator[Prober]:
    try:
        yield prober
    finally:
        prober.close()


class Unheard:
    """Nobody is told how far a question has come: what came of it is kept."""

    def asking(self, nodes: Sequence[NodeName]) -> None:
        """Tell nobody."""

    def heard(self, node: NodeName, *, answered: bool) -> None:
        """Tell nobody."""
