"""Carrying out a plan of moves: one step after the other, each asked for once the one before is done.

Whatever ends a plan early, each run is whole: a slice is at its old place or at its new one.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from launcher.core.control.timing import MOVE_S
from launcher.core.model.actions import Acquire, Move
from launcher.core.model.move_order import MoveOrder
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.operator_requests import RequestKind
from launcher.core.model.receipt import Receipt, Result
from launcher.core.model.run import RunState, Wanted
from launcher.core.model.text import count
from launcher.errors import SpecError
from launcher.ports import Clock
from launcher.store.rows import RunRow
from launcher.store.store import Store
from launcher.store.stored_plan import PlanState, StoredPlan, StoredStep

POLL_S = 0.5
"""How often a step is looked at (s)."""

RENEW_S = 15.0
"""How often the lease of a plan is renewed (s)."""

ENSURE_S = 5.0
"""How often a run that moves is looked at for a live controller (s)."""

RESTART_S = 900.0
"""How long a moved gang may take to run again, and its old nodes to be released (s), besides all else."""


class StepState(Enum):
    """How far a step is. STAYED: its slices are where they were."""

    ASKED = "asked"
    MOVING = "moving"
    RESTARTING = "restarting"
    DONE = "done"
    STAYED = "stayed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProgress:
    """News of a step: its number from 1, of how many."""

    number: int
    total: int
    step: StoredStep
    state: StepState
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A step that was asked for: by the numbers of its request and of the journal's entry before it."""

    step: StoredStep
    request: int
    journal: int


class PlanExecution:
    """Carries out a stored plan.

    `ensure` gives a run its controller, `tell` hears of each step. `stopped` ends the plan: a step under way goes back,
    or to its end where its ranks have stopped already.
    """

    def __init__(
        self,
        store: Store,
        plan: StoredPlan,
        clock: Clock,
        *,
        ensure: Callable[[RunRow], None],
        tell: Callable[[StepProgress], None],
        stopped: Callable[[], bool],
    ) -> None:
        self._store = store
        self._plan = plan
        self._clock = clock
        self._ensure = ensure
        self._tell = tell
        self._stopped = stopped
        self._renewed = clock.now()

    def run(self, waiting: RunRow | None = None) -> StoredPlan:
        """Move slice by slice until all is done or something is in the way; return the plan as it ended.

        The plan ends early once the run that is `waiting` for the room waits no more.
        """
        plans, plan = self._store.move_plans, self._plan
        total, done = len(plan.steps), 0
        why: str | None = None
        try:
            for number, step in enumerate(plan.steps, start=1):
                why = self._obstacle(waiting) or self._step(number, step)
                if why is not None:
                    break
                done += 1
        except BaseException:
            plans.end(plan.id, PlanState.CANCELLED, f"interrupted after {done} of {count(total, 'step')}", time.time())
            raise
        if why is not None:
            plans.end(plan.id, PlanState.CANCELLED, f"{why}; {done} of {count(total, 'step')} done", time.time())
        elif plan.beneficiary == plan.id:
            plans.end(plan.id, PlanState.DONE, f"{count(total, 'step')} done", time.time())
        else:
            plans.end(plan.id, PlanState.KEPT, f"{count(total, 'step')} done", time.time())
        if waiting is not None:
            self._ensure(self._store.find(waiting.id))
        return plans.load(plan.id)

    def _obstacle(self, waiting: RunRow | None) -> str | None:
        """Return why no other step may begin; None where the next one may."""
        if self._stopped():
            return "interrupted"
        now = self._store.move_plans.load(self._plan.id)
        if now.state is not PlanState.ACTIVE:
            return now.message
        if waiting is not None:
            row = self._store.find(waiting.id)
            if row.state is not RunState.QUEUED or row.wanted is not Wanted.RUNNING:
                return f"`{row.name}` waits no more ({row.state.value})"
        kept = [name for name, one in self._reserved().items() if one == self._plan.id]
        marks = set(self._store.ledger.drained(self._plan.fleet))
        marks |= {one.node for one in self._store.ledger.quarantines(self._plan.fleet)}
        bad = [name for name in kept if name in marks]
        return f"{fold(bad)} {'is' if len(bad) == 1 else 'are'} out of service" if bad else None

    def _reserved(self) -> dict[NodeName, str]:
        return {name: one.plan for name, one in self._store.move_plans.reserved(self._plan.fleet).items()}

    def _step(self, number: int, step: StoredStep) -> str | None:
        """Carry out one step; return why the plan ends with it, None where it is done."""
        try:
            row = self._store.find(step.id)
        except SpecError:
            return f"`{step.run}` is gone"
        self._ensure(row)
        journal = self._store.journal.last(step.id)
        by = f"{self._plan.user} to make room for `{self._plan.beneficiary}`"
        request = self._store.move_plans.ask(self._plan, step, by=by, at=time.time())
        if request is None:
            return self._store.move_plans.load(self._plan.id).message
        asked = _Asked(step=step, request=request, journal=journal)
        news = StepProgress(number=number, total=len(self._plan.steps), step=step, state=StepState.ASKED)
        self._tell(news)
        run, _ = self._store.load(step.id)
        deadline = self._clock.now() + MOVE_S + RESTART_S + run.task.stop_grace
        ended = self._follow(asked, news, deadline)
        self._ensure(self._store.find(step.id))
        return ended

    def _follow(self, asked: _Asked, news: StepProgress, deadline: float) -> str | None:
        """Wait until a step has ended. Where the plan ends first, or takes too long, the step goes back if it can."""
        ended: str | None = None
        ensured = self._clock.now()
        while True:
            if self._clock.now() - ensured >= ENSURE_S:  # its controller may have died since
                self._ensure(self._store.find(asked.step.id))
                ensured = self._clock.now()
            state, message = self._look(asked)
            if state is StepState.STAYED:
                message = self._stayed(asked, ended)
            if state is not news.state:
                news = replace(news, state=state, message=message)
                self._tell(news)
            if state is StepState.DONE:
                return ended
            if state is StepState.STAYED:
                return ended or f"`{asked.step.run}` stays: {message}"
            if ended is None and (ended := self._ended(deadline)) is not None:
                self._withdraw(asked.step)
                deadline = self._clock.now() + RESTART_S
            elif ended is not None and (state is StepState.RESTARTING or self._clock.now() > deadline):
                return ended  # the run's own recovery brings it up
            until = self._clock.now() + POLL_S
            self._clock.wait(until, lambda: False)

    def _ended(self, deadline: float) -> str | None:
        """Return why the plan ends while a step is under way; renews its lease."""
        if self._stopped():
            return "interrupted"
        if self._clock.now() > deadline:
            return "a step took too long"
        if self._clock.now() - self._renewed >= RENEW_S:
            self._renewed = self._clock.now()
            if not self._store.move_plans.renew(self._plan.id, time.time()):
                return self._store.move_plans.load(self._plan.id).message
        return None

    def _withdraw(self, step: StoredStep) -> None:
        order, by = MoveOrder(plan=self._plan.id), str(self._plan.user)
        if self._store.find(step.id).ended is None:
            self._store.requests.add(step.id, RequestKind.RELOCATE, subject=str(order), by=by, at=time.time())

    def _look(self, asked: _Asked) -> tuple[StepState, str]:
        """Return how far a step is, and what there is to say about it."""
        step = asked.step
        row = self._store.find(step.id)
        if row.ended is not None:
            return StepState.DONE, f"`{row.name}` has ended"
        run, record = self._store.load(step.id)
        if record.requests_seen < asked.request:
            return StepState.ASKED, ""
        old = {part.slice: set(part.nodes) for part in step.old}
        here = {part.key: {*part.nodes, *part.spares} for part in run.placement.slices if part.key in old}
        if record.move is not None and record.move.order.plan == self._plan.id:
            return StepState.MOVING, ""
        if any(nodes & old[key] for key, nodes in here.items()):
            return StepState.STAYED, ""
        held = {name for name, run_id in self._store.holders(self._plan.fleet).items() if run_id == step.id}
        left = set().union(*old.values()) & held
        back = row.state is RunState.RUNNING and not any(gang.broken for gang in record.gangs.values())
        return (StepState.DONE, "") if back and not left else (StepState.RESTARTING, "")

    def _stayed(self, asked: _Asked, ended: str | None) -> str:
        """Take back the cost of a step that moved nothing, store which new nodes were not ready; return why it stays.

        `ended` is why the plan has ended, if it has: then the step was withdrawn.
        """
        self._store.move_plans.refund(self._plan.id, asked.step)
        if ended is not None:
            return ended
        receipts = self._store.receipts_after(asked.step.id, asked.journal)
        moves = [one for one in receipts if isinstance(one.action, Move) and one.action.order.plan == self._plan.id]
        if refused := [one.answer.message for one in moves if one.answer.result is Result.FAILED]:
            return refused[-1]
        unready = self._unready(asked.step, receipts) if moves else []
        if not unready:
            return "it was disturbed meanwhile"
        self._store.ledger.add_unready(self._plan.fleet, asked.step.id, unready, self._plan.id, time.time())
        return f"{fold(unready)} did not get ready"

    def _unready(self, step: StoredStep, receipts: Sequence[Receipt]) -> list[NodeName]:
        """Return the new nodes of a step that its run got no lease of, or that have failed since."""
        leased = {
            one.action.node for one in receipts if isinstance(one.action, Acquire) and one.answer.result is Result.DONE
        }
        failed = self._store.load(step.id)[1].failed_nodes.keys()
        return [name for part in step.new for name in part.nodes if name in failed or name not in leased]
