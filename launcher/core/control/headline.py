"""Where a run stands, in one word for scripts and one sentence for people."""

from collections import Counter
from collections.abc import Iterator, Mapping

from launcher.core.control.conditions import Condition
from launcher.core.control.state import Draft
from launcher.core.model.nodeset import fold
from launcher.core.model.run import RunState
from launcher.core.model.slots import MemberName
from launcher.core.model.text import count

# How long a node may be out of sight before people are told (s): a keeper that is starting does not answer yet.
BLINK = 5.0

_UP = (Condition.SERVING, Condition.FINISHED)
_HIDDEN = (Condition.UNSEEN, Condition.SUSPECT)
_FOR_HEAD = "waiting for the Ray head"
# What to say of seats that are on their way, from the rung that holds everybody up.
_RUNGS = (
    (Condition.LOST, "lost"),
    (Condition.DOWN, "silent"),
    (Condition.FENCED, "being fenced"),
    (Condition.ABSENT, "to claim"),
    (Condition.CLAIMED, "to prepare"),
    (Condition.PREPARING, "in setup"),
    (Condition.PREPARED, _FOR_HEAD),
    (Condition.JOINING, "joining Ray"),
    (Condition.READY, "ready"),
)
_LOST = (Condition.FAILED, Condition.LOST, Condition.FENCED, Condition.CONDEMNED, Condition.DOWN)
# Whose keepers may know better.
_TOLD = (Condition.CLAIMED, Condition.PREPARING)


def standing(draft: Draft) -> RunState:
    """Answer the state of a run that goes on."""
    conditions = draft.settle().values()
    if draft.waiting_for or _blinded(draft):
        return RunState.HOLDING
    gangs = draft.gangs.values()
    whole = all(condition in (*_UP, *_HIDDEN) for condition in conditions)
    if whole and any(condition in _UP for condition in conditions) and not any(gang.broken for gang in gangs):
        return RunState.RUNNING
    # While evidence is gathered the epoch is not broken yet: what was up and is lost makes a recovery all the same.
    lost = draft.started and any(condition in _LOST for condition in conditions)
    again = lost or any(gang.broken or gang.epoch > 1 for gang in gangs)
    return RunState.RECOVERING if again else RunState.STARTING


def progress(draft: Draft, state: RunState) -> str:
    """Answer one sentence: what is the matter, or how far it is."""
    if draft.waiting_for:
        return draft.waiting_for
    if _blinded(draft):
        return "cannot see a single node of the run, so the fault is rather on the way to them: nothing is touched"
    conditions = draft.settle()
    counts = Counter(conditions.values())
    total = len(draft.members)
    unseen = [str(draft.seats[name].node) for name in conditions if _long_unseen(draft, name, conditions[name])]
    blind = "".join((f"; cannot see {fold(unseen)}" if unseen else "", *(f"; {note}" for note in draft.notes)))
    if state is RunState.RUNNING:
        done = counts[Condition.FINISHED]
        return f"{total - done} of {count(total, 'rank')} running" + (f", {done} done" if done else "") + blind
    parts = list(_stages(draft, conditions)) or ["starting"]
    up = len({draft.seats[name].node for name, condition in conditions.items() if condition in _UP})
    total = len({seat.node for seat in draft.seats.values()})
    if up:
        parts.append(f"{up} running")
    broken = next((gang.broken.words for gang in draft.gangs.values() if gang.broken), None)
    return (f"{broken}: " if broken else "") + f"{count(total, 'node')}: " + ", ".join(parts) + blind


def _stages(draft: Draft, conditions: Mapping[MemberName, Condition]) -> Iterator[str]:
    """Answer how many seats are on each rung; what a setup says of itself is told instead of its name."""
    told: Counter[str] = Counter()
    for rung, words in _RUNGS:
        # A raylet that was started before its head is ready waits for it.
        waits = rung is Condition.JOINING and draft.head() is None
        for node in {draft.seats[name].node: None for name, condition in conditions.items() if condition is rung}:
            keeper = draft.keeper(node) if rung in _TOLD else None
            told[(keeper.setup.words if keeper else "") or (_FOR_HEAD if waits else words)] += 1
    yield from (f"{number} {stage}" for stage, number in told.items())


def _long_unseen(draft: Draft, name: MemberName, condition: Condition) -> bool:
    return condition in (*_HIDDEN, Condition.DOWN) and draft.lasted(f"unseen:{draft.seats[name].node}") >= BLINK


def _blinded(draft: Draft) -> bool:
    return draft.blind() and draft.lasted("headless") >= BLINK
