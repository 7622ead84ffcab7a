"""Where a run stands: its state for scripts, and the status message for people."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from launcher.core.control.conditions import Condition
from launcher.core.control.slice_count import slice_notes
from launcher.core.control.state import Tick
from launcher.core.control.timing import BLINK_S, DEMAND_S
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.observation import Phase, RankReport, Refusal, Seen, Step, Unseen
from launcher.core.model.record import RunTimer
from launcher.core.model.run import MemberName, RunState
from launcher.core.model.text import count, data_size, span

_UP = (Condition.SERVING, Condition.FINISHED)
_HIDDEN = (Condition.UNSEEN, Condition.SUSPECT)
_LOST = (Condition.FAILED, Condition.LOST, Condition.FENCING, Condition.NODE_FAILED, Condition.DOWN)
# Conditions in which the setup itself says what it does.
_IN_SETUP = (Condition.LEASED, Condition.PREPARING)
_SLOW_SHOWN = 3
_MOUNTS_SHOWN = 2
_FOR_HEAD = "waiting for the Ray head"
# What is said of slots that do not run yet, the step that holds the run up first.
_STEPS = (
    (Condition.LOST, "lost"),
    (Condition.DOWN, "lost"),
    (Condition.FENCING, "being fenced"),
    (Condition.ABSENT, "waiting for a lease"),
    (Condition.LEASED, "waiting for setup"),
    (Condition.PREPARING, "in setup"),
    (Condition.PREPARED, _FOR_HEAD),
    (Condition.JOINING, "joining Ray"),
    (Condition.READY, "ready"),
)


def standing(tick: Tick) -> RunState:
    """Return the state of a run that goes on; its conditions are fixed."""
    conditions, gangs = tick.conditions.values(), tick.record.gangs.values()
    if tick.hold_reason or _sees_nothing(tick):
        return RunState.ON_HOLD
    whole = all(condition in (*_UP, *_HIDDEN) for condition in conditions)
    if whole and any(condition in _UP for condition in conditions) and not any(gang.broken for gang in gangs):
        return RunState.RUNNING
    # While evidence is gathered no attempt has ended yet: a slot that is lost makes it a recovery all the same.
    lost = tick.started and any(condition in _LOST for condition in conditions)
    again = lost or any(gang.broken or gang.attempt > 1 for gang in gangs)
    return RunState.RECOVERING if again else RunState.STARTING


def progress(tick: Tick, state: RunState) -> str:
    """Return the status message of a run: why it is on hold, or how far it is."""
    if tick.hold_reason:
        return tick.hold_reason
    if _sees_nothing(tick):
        return "no node of the run is reachable: check the network of this machine; nothing is changed"
    counts = Counter(tick.conditions.values())
    refusals = _refusals(tick)
    refused = {node for nodes in refusals.values() for node in nodes}
    hidden = [tick.record.slots[name].node for name in tick.conditions if _long_unseen(tick, name)]
    unseen = [str(node) for node in hidden if node not in refused]
    notes = [f"unreachable: {fold(unseen)}"] if unseen else []
    notes += [*(refusal_note(refusal, nodes) for refusal, nodes in refusals.items()), *_odd(tick), *_demand(tick)]
    notes += _mounts(tick)
    slices = slice_notes(tick) if state is RunState.RUNNING else ()  # a recovery has enough to say
    more = "".join(f"; {note}" for note in (*notes, *dict.fromkeys(tick.notes), *slices))
    if state is RunState.RUNNING:
        more += "".join(
            f"; {name} {'no longer ready' if report.unready else 'not ready yet'}"
            for name, report in asked_servers(tick)
            if report.ready is False
        )
        slow = ", ".join(f"{name} on {one.node}" for name, one in list(tick.record.slow_ranks.items())[:_SLOW_SHOWN])
        more += f"; slower than its peers: {slow}" if slow else ""
        total, done = len(tick.index.members), counts[Condition.FINISHED]
        return f"{total - done} of {count(total, 'rank')} running" + (f", {done} done" if done else "") + more
    broken = next((f"{gang.broken.message}; " for gang in tick.record.gangs.values() if gang.broken), "")
    return broken + ", ".join(_parts(tick, state)) + more


def asked_servers(tick: Tick) -> Iterator[tuple[MemberName, RankReport]]:
    """Yield the running ranks whose servers are asked whether they are ready, and what their parents report."""
    for group in tick.run.task.groups:
        if group.readiness is None:
            continue
        name = MemberName(f"{group.name}/0")
        slot, gang = tick.record.slots.get(name), tick.record.gangs.get(tick.index.gangs[name])
        agent = tick.agent(slot.node) if slot is not None else None
        for rank in agent.ranks if agent and gang else ():
            if rank.member == name and rank.running and gang is not None and rank.attempt == gang.attempt:
                yield name, rank


def _parts(tick: Tick, state: RunState) -> Iterator[str]:
    """Return how many nodes are at each step: `2 nodes in setup`, `126 running`."""
    steps = _steps(tick)
    nodes = {slot.node for slot in tick.record.slots.values()}
    up = {tick.record.slots[name].node for name, condition in tick.conditions.items() if condition in _UP}
    if not steps:
        steps["restarting" if state is RunState.RECOVERING else "starting"] = len(nodes - up) or len(nodes)
    for at, (step, number) in enumerate(steps.items()):
        yield f"{number} {step}" if at else f"{count(number, 'node')} {step}"
    if up and up != nodes:
        yield f"{len(up)} running"


def _steps(tick: Tick) -> Counter[str]:
    """Return how many nodes are at each step.

    What a setup says of itself replaces the name of the step.
    """
    at: dict[Condition, dict[NodeName, None]] = {}
    for name, condition in tick.conditions.items():
        at.setdefault(condition, {})[tick.record.slots[name].node] = None
    told: Counter[str] = Counter()
    copies: dict[str, list[Step]] = {}
    for step, message in _STEPS:
        # A raylet that was started before its head is ready waits for it.
        waits = step is Condition.JOINING and tick.head() is None
        for node in at.get(step, ()):
            agent = tick.agent(node) if step in _IN_SETUP else None
            told[(agent.setup.message if agent else "") or (_FOR_HEAD if waits else message)] += 1
            if agent and agent.setup.to_copy:
                copies.setdefault(agent.setup.message, []).append(agent.setup)
    return Counter({f"{text}{_copied(copies.get(text, ()), number)}": number for text, number in told.items()})


def _copied(copies: Sequence[Step], nodes: int) -> str:
    """Return how far the slowest copy is, in steps of a twentieth: each new text is an entry of the journal."""
    if not copies:
        return ""
    slowest = min(copies, key=lambda one: one.copied / one.to_copy)
    steps = min(20, slowest.copied * 20 // slowest.to_copy)
    text = f"{data_size(slowest.to_copy * steps // 20)} of {data_size(slowest.to_copy)}"
    return f" ({text})" if nodes == 1 else f" (slowest: {text})"


def _demand(tick: Tick) -> list[str]:
    """Return what Ray cannot place for a driver that runs, once that has lasted while no GPU was in use."""
    head, timers = tick.head(), tick.record.since.run
    drivers = [member for member in tick.index.members if tick.index.driver(member) is member]
    runs = any(tick.conditions.get(member.name) is Condition.SERVING for member in drivers)
    if head is None or not head.pending or not runs:
        timers.pop(RunTimer.PENDING, None)
        return []
    lasted = tick.lasted(timers, RunTimer.PENDING)
    over = DEMAND_S
    if lasted < over:
        return []
    while lasted >= over * 5:
        over *= 5
    return [f"the driver runs, no GPU is in use, and Ray cannot place for {span(over)}: {', '.join(head.pending)}"]


def _refusals(tick: Tick) -> dict[Refusal, list[NodeName]]:
    """Return the nodes of the run that keep us out, with a slot or without."""
    found: dict[Refusal, list[NodeName]] = {}
    for node, view in tick.seen.nodes.items():
        if isinstance(view, Unseen) and view.refusal is not None and tick.quiet(node) >= BLINK_S:
            found.setdefault(view.refusal, []).append(node)
    return found


def _mounts(tick: Tick) -> list[str]:
    """Return the troubles of mounted buckets on nodes that are set up, the same of several nodes as one."""
    nodes: dict[str, list[NodeName]] = {}
    for name, view in tick.seen.nodes.items():
        if isinstance(view, Seen) and view.agent is not None and view.agent.setup.phase is Phase.DONE:
            for trouble in view.agent.mounts:
                nodes.setdefault(trouble, []).append(name)
    shown = [f"bucket on {fold(found)}: {trouble}" for trouble, found in list(nodes.items())[:_MOUNTS_SHOWN]]
    return [*shown, *([f"{len(nodes) - _MOUNTS_SHOWN} more troubles of buckets"] if len(nodes) > _MOUNTS_SHOWN else [])]


def refusal_note(refusal: Refusal, nodes: Collection[NodeName]) -> str:
    """Return what keeps us out of nodes, and what to do about it."""
    names = fold(nodes)
    if refusal is Refusal.HOST_KEY:
        return f"unreachable: {names}: {refusal.value}: nvlaunch hosts rekey {names}"
    return f"unreachable: {names}: {refusal.value}"


def _odd(tick: Tick) -> Iterator[str]:
    """Yield what nodes sent that is no reply of an agent, the first message alone."""
    views = tick.seen.nodes.items()
    odd = {str(name): view.message for name, view in views if isinstance(view, Unseen) and view.odd}
    if odd:
        yield f"{fold(odd)}: {next(iter(odd.values()))}"


def _long_unseen(tick: Tick, name: MemberName) -> bool:
    hidden = tick.conditions[name] in (*_HIDDEN, Condition.DOWN)
    return hidden and tick.quiet(tick.record.slots[name].node) >= BLINK_S


def _sees_nothing(tick: Tick) -> bool:
    return tick.blind() and tick.lasted(tick.record.since.run, RunTimer.HEAD_UNSEEN) >= BLINK_S
