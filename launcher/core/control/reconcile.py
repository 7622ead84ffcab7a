"""The one decision: what should exist against what does, answered with reasoned actions and a time to look again."""

from collections.abc import Mapping
from dataclasses import dataclass

from launcher.core.control.conditions import Condition
from launcher.core.control.gang_failure import judge
from launcher.core.control.headline import progress, standing
from launcher.core.control.receipts import absorb
from launcher.core.control.startup import advance
from launcher.core.control.state import Draft
from launcher.core.control.teardown import end, pending, silent
from launcher.core.control.time_limit import expire
from launcher.core.model.actions import Action
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.observation import Observation
from launcher.core.model.record import Outcome, Record
from launcher.core.model.run import Cause, MemberName, Run, RunState, Wanted

# How often to look (s): while something is under way, and while all is well.
BUSY = 0.3
STEADY = 1.0
# How often to look at what cannot be reached while the rest is released (s).
PATIENT = 5.0

_FINAL = {
    Cause.SUCCESS: RunState.SUCCEEDED,
    Cause.STOPPED: RunState.STOPPED,
    Cause.PREEMPTED: RunState.STOPPED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do now, what to remember before doing it, when to look again (s), and one sentence for people.

    `conditions` has every slot's, as the decision saw them; `doubted` are nodes whose health is asked for at once.
    """

    actions: tuple[Action, ...]
    record: Record
    wake_at: float
    status_message: str
    state: RunState
    conditions: Mapping[MemberName, Condition]
    doubted: frozenset[NodeName] = frozenset()


def reconcile(run: Run, seen: Observation, record: Record) -> Decision:
    """Return what to do now. Pure: the same run, observation and record give the same decision."""
    draft = Draft(run, seen, record)
    absorb(draft)
    if draft.outcome is None and run.wanted is Wanted.NOTHING:
        draft.end(Outcome(cause=Cause.STOPPED, message="taken down"))
    if draft.outcome is None:
        judge(draft)
    if draft.outcome is None:
        expire(draft)
    if draft.outcome is None:
        advance(draft)
    if draft.outcome is not None:
        return _ending(draft)
    state = standing(draft)
    draft.wake(seen.at + (STEADY if state in (RunState.RUNNING, RunState.ON_HOLD) else BUSY))
    return Decision(
        actions=tuple(draft.actions),
        record=draft.record(),
        wake_at=draft.wake_at,
        status_message=progress(draft, state),
        state=state,
        conditions=draft.settle(),
        doubted=frozenset(draft.doubted),
    )


def _ending(draft: Draft) -> Decision:
    assert draft.outcome is not None
    draft.actions.clear()
    end(draft)
    left = pending(draft)
    if left or draft.seen.in_flight or draft.actions:
        state = RunState.RELEASE_PENDING if silent(draft) and not draft.actions else RunState.STOPPING
        # Who is out of reach has to be named; how many are being released is enough while they are.
        rest = f"{fold(left)} out of reach" if state is RunState.RELEASE_PENDING else f"{len(left)} to release"
        status_message = f"{draft.outcome.message}; {rest}" if left else draft.outcome.message
    else:
        state = _FINAL.get(draft.outcome.cause, RunState.FAILED)
        status_message = draft.outcome.message
    draft.wake(draft.seen.at + (PATIENT if state is RunState.RELEASE_PENDING else BUSY))
    return Decision(
        actions=tuple(draft.actions),
        record=draft.record(),
        wake_at=draft.wake_at,
        status_message=status_message,
        state=state,
        conditions=draft.settle(),
    )
