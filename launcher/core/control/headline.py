"""Where a run stands, in one word for scripts and one sentence for people."""

from collections import Counter
from collections.abc import Iterator, Mapping

from launcher.core.control.conditions import Condition
from launcher.core.control.state import Draft
from launcher.core.model.nodeset import fold
from launcher.core.model.run import MemberName, RunState
from launcher.core.model.text import count

# How long a node may be out of sight before people are told (s): an agent that is starting does not answer yet.
BLINK = 5.0

_UP = (Condition.SERVING, Condition.FINISHED)
_HIDDEN = (Condition.UNSEEN, Condition.SUSPECT)
_FOR_HEAD = "waiting for the Ray head"
# What to say of slots that are on their way, from the rung that holds everybody up.
_RUNGS = (
    (Condition.LOST, "lost"),
    (Condition.DOWN, "silent"),
    (Condition.FENCED, "being fenced"),
    (Condition.ABSENT, "to claim"),
    (Condition.LEASED, "to prepare"),
    (Condition.PREPARING, "in setup"),
    (Condition.PREPARED, _FOR_HEAD),
    (Condition.JOINING, "joining Ray"),
    (Condition.READY, "ready"),
)
_LOST = (Condition.FAILED, Condition.LOST, Condition.FENCED, Condition.NODE_FAILED, Condition.DOWN)
# Whose agents may know better.
_TOLD = (Condition.LEASED, Condition.PREPARING)


def standing(draft: Draft) -> RunState:
    """Return the state of a run that goes on."""
    conditions = draft.settle().values()
    if draft.waiting_for or _blinded(draft):
        return RunState.ON_HOLD
    gangs = draft.gangs.values()
    whole = all(condition in (*_UP, *_HIDDEN) for condition in conditions)
    if whole and any(condition in _UP for condition in conditions) and not any(gang.broken for gang in gangs):
        return RunState.RUNNING
    # While evidence is gathered the attempt is not broken yet: what was up and is lost makes a recovery all the same.
    lost = draft.started and any(condition in _LOST for condition in conditions)
    again = lost or any(gang.broken or gang.attempt > 1 for gang in gangs)
    return RunState.RECOVERING if again else RunState.STARTING


def progress(draft: Draft, state: RunState) -> str:
    """Return one sentence: what is the matter, or how far it is."""
    if draft.waiting_for:
        return draft.waiting_for
    if _blinded(draft):
        return "cannot see a single node of the run, so the fault is rather on the way to them: nothing is touched"
    conditions = draft.settle()
    counts = Counter(conditions.values())
    total = len(draft.members)
    unseen = [str(draft.slots[name].node) for name in conditions if _long_unseen(draft, name, conditions[name])]
    blind = "".join((f"; cannot see {fold(unseen)}" if unseen else "", *(f"; {note}" for note in draft.notes)))
    if state is RunState.RUNNING:
        done = counts[Condition.FINISHED]
        return f"{total - done} of {count(total, 'rank')} running" + (f", {done} done" if done else "") + blind
    parts = list(_stages(draft, conditions)) or ["starting"]
    up = len({draft.slots[name].node for name, condition in conditions.items() if condition in _UP})
    total = len({slot.node for slot in draft.slots.values()})
    if up:
        parts.append(f"{up} running")
    broken = next((gang.broken.message for gang in draft.gangs.values() if gang.broken), None)
    return (f"{broken}: " if broken else "") + f"{count(total, 'node')}: " + ", ".join(parts) + blind


def _stages(draft: Draft, conditions: Mapping[MemberName, Condition]) -> Iterator[str]:
    """Return how many slots are on each rung; what a setup says of itself is told instead of its name."""
    told: Counter[str] = Counter()
    for rung, message in _RUNGS:
        # A raylet that was started before its head is ready waits for it.
        waits = rung is Condition.JOINING and draft.head() is None
        for node in {draft.slots[name].node: None for name, condition in conditions.items() if condition is rung}:
            agent = draft.agent(node) if rung in _TOLD else None
            told[(agent.setup.message if agent else "") or (_FOR_HEAD if waits else message)] += 1
    yield from (f"{number} {stage}" for stage, number in told.items())


def _long_unseen(draft: Draft, name: MemberName, condition: Condition) -> bool:
    return condition in (*_HIDDEN, Condition.DOWN) and draft.lasted(f"unseen:{draft.slots[name].node}") >= BLINK


def _blinded(draft: Draft) -> bool:
    return draft.blind() and draft.lasted("headless") >= BLINK
