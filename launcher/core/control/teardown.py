"""Releasing nodes: those not used any more, and all of them once the run ends or its time is over."""

from collections.abc import Iterator

from launcher.core.control import liveness
from launcher.core.control.operator import HEAD_MACHINE
from launcher.core.control.state import Tick
from launcher.core.control.timing import ABANDONED_S, BLINK_S, CLOCK_JUMP_S
from launcher.core.model.action_key import ActionKey
from launcher.core.model.actions import Reason, Release, Signal, Unit, Why
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.observation import AgentReport, HeadSeen, HeadView, NodeView, Seen, Unseen
from launcher.core.model.record import Outcome, Record, RunTimer
from launcher.core.model.run import Cause, RunState
from launcher.core.model.text import span

_WHY = {
    Cause.SUCCESS: Why.FINISHED,
    Cause.STOPPED: Why.STOP,
    Cause.TIME_LIMIT: Why.STOP,
    Cause.PREEMPTED: Why.STOP,
}
# Ranks that run well get time for a checkpoint.
_WARNED = (Cause.STOPPED, Cause.TIME_LIMIT, Cause.PREEMPTED)
_FINAL = {
    Cause.SUCCESS: RunState.SUCCEEDED,
    Cause.STOPPED: RunState.STOPPED,
    Cause.PREEMPTED: RunState.STOPPED,
}


def release_unused(tick: Tick) -> None:
    """Release unused nodes, once their kills have succeeded, and former heads.

    Reads `kills`, `holders`, `record.failed_nodes`, `seen`. Writes `record.requested`, `joined`, `leased`; `actions`.
    """
    fenced = {kill.node for kill in tick.kills.values()}
    for name, message in _unused(tick).items():
        if name not in fenced and release(tick, name, Reason(why=Why.REPLACE, message=f"{name} {message}")):
            tick.record.leased.discard(name)
    for machine in tick.record.former_heads:
        if machine is not None and tick.sees(machine):
            reason = Reason(why=Why.HEAD, message=f"the head has moved off {machine}")
            tick.do(Release(reason=reason, node=machine, unit=Unit.HEAD))


def release(tick: Tick, node: NodeName, reason: Reason) -> bool:
    """Release a node that we see; return whether it was seen to be free of the run.

    A node that was free once need not be seen again.
    """
    view = tick.seen.nodes.get(node)
    if not isinstance(view, Seen):
        return False
    if view.agent is not None or view.leftovers:
        tick.do(Release(reason=reason, node=node))
        return False
    if tick.in_flight.has(ActionKey("acquire", node=node)):
        return False
    tick.record.requested.discard(node)
    tick.record.joined.discard(node)
    return True


def _unused(tick: Tick) -> dict[NodeName, str]:
    """Return the nodes that the run has and does not use, and why."""
    found = {name: f"failed: {evidence.message}" for name, evidence in tick.record.failed_nodes.items()}
    for name, reason in tick.seen.drained.items():
        if name in tick.index.slice_of and name not in tick.holders:
            found.setdefault(name, f"is drained: {reason}")
    for name in tick.index.nodes:
        if name not in tick.index.slice_of and name not in tick.holders:
            found.setdefault(name, "is no longer part of the run")
    return found


def enforce_time_limit(tick: Tick) -> None:
    """End a run whose `time_limit` is over.

    The time goes on while no controller lives, while the run recovers or is on hold, and while the launching machine
    reboots: other runs count on it. Setting that machine's clock neither ends a run nor prolongs it.

    Reads `started`, `seen.wall`. Writes `record.started_at`, `record.clock_offset`, the outcome; wakes at the end.
    """
    _follow_clock(tick)
    record, limit = tick.record, tick.run.task.time_limit
    if record.started_at is None and tick.started:
        record.started_at = tick.seen.wall
    if limit is None or record.started_at is None:
        return
    left = record.started_at + limit - tick.seen.wall
    if left <= 0:
        tick.end(Outcome(cause=Cause.TIME_LIMIT, message=f"reached its time limit ({span(limit)})"))
    else:
        tick.wake(tick.seen.at + left)


def tear_down(tick: Tick) -> None:
    """Take one step towards nothing being left of the run.

    Reads the outcome, `seen`. Writes `actions` (only its own are left), `doubted` (none), `kills` (none: to release a
    node is to kill all of the run there), `record.requested`, `joined`, `head_requested`, the timers of the end.
    """
    outcome = tick.record.outcome
    assert outcome is not None
    tick.actions.clear()
    tick.doubted.clear()
    for key in list(tick.kills):
        tick.drop_kill(key)
    reason = Reason(why=_WHY.get(outcome.cause, Why.FAILED), message=outcome.message)
    if outcome.cause in _WARNED and _in_grace(tick, reason):
        return
    for name in tick.index.nodes:
        release(tick, name, reason)
    if isinstance(tick.seen.head, HeadSeen):
        if tick.seen.head.head or tick.seen.head.leftovers:
            tick.do(Release(reason=reason, node=tick.head_node, unit=Unit.HEAD))
        elif not tick.in_flight.any("start_head"):
            tick.record.head_requested = False
    for machine in tick.record.former_heads:
        if machine is None or tick.sees(machine):
            tick.do(Release(reason=reason, node=machine, unit=Unit.HEAD))


def ending(tick: Tick, outcome: Outcome) -> tuple[RunState, str]:
    """Return the state of a run that ends, and its status message."""
    left = list(_left(tick))
    if not left and not tick.in_flight and not tick.actions:
        return _FINAL.get(outcome.cause, RunState.FAILED), outcome.message + _left_note(tick)
    if _out_of_reach(tick, left) and not tick.actions:
        # Machines out of reach have to be named; how many are being released is enough while they are.
        names = fold(name for name, _ in left)
        confirmed = fold(name for name, _ in left if name in tick.index.nodes or name == HEAD_MACHINE)
        how = f"; released once reachable; if off or re-imaged: nvlaunch confirm-dead {confirmed}" if confirmed else ""
        return RunState.RELEASE_PENDING, f"{outcome.message}; unreachable: {names}{how}"
    return RunState.STOPPING, f"{outcome.message}; {len(left)} to release" if left else outcome.message


def left_behind(record: Record) -> tuple[NodeName, ...]:
    """Return the nodes that a run has not released although it may end.

    Their agents have stopped the ranks there, and end by themselves after `ABANDONED_S` without a launcher.
    """
    return tuple(
        node for node in sorted(record.requested) if record.stopped.get(node, "").startswith(liveness.SELF_FENCED)
    )


def _left_note(tick: Tick) -> str:
    left = left_behind(tick.record)
    if not left:
        return ""
    how = f"unreachable, ranks stopped; its agent ends itself within {span(ABANDONED_S)}"
    return f"; not released: {fold(left)} ({how}), or once it is reachable: nvlaunch down {tick.run.id}"


def _follow_clock(tick: Tick) -> None:
    """Move the start by as much as the time of day was set since the last look."""
    record, offset = tick.record, tick.seen.wall - tick.seen.at
    jump = 0.0 if record.clock_offset is None else offset - record.clock_offset
    if record.clock_offset is None or abs(jump) > CLOCK_JUMP_S:
        record.clock_offset = offset
        record.started_at = None if record.started_at is None else record.started_at + jump


def _in_grace(tick: Tick, reason: Reason) -> bool:
    """Whether ranks still have time to write a checkpoint.

    Each node is signalled until a receipt says so.
    """
    running = [name for name, view in _views(tick) if isinstance(view, Seen) and _runs(view.agent)]
    timers, task = tick.record.since.run, tick.run.task
    if not running or tick.lasted(timers, RunTimer.STOPPING) >= task.stop_grace:
        return False
    tick.wake(timers[RunTimer.STOPPING] + task.stop_grace)
    for name in running:
        if (name, None) not in tick.record.signalled:
            tick.do(Signal(reason=reason, node=name, signal=task.stop_signal))
    return True


def _out_of_reach(tick: Tick, left: list[tuple[str, NodeView | HeadView]]) -> bool:
    """Whether all that is left is out of sight for longer than an agent needs to end."""
    if left and all(isinstance(view, Unseen) for _, view in left):
        return tick.lasted(tick.record.since.run, RunTimer.RELEASE_PENDING) >= BLINK_S
    tick.record.since.run.pop(RunTimer.RELEASE_PENDING, None)
    return False


def _left(tick: Tick) -> Iterator[tuple[str, NodeView | HeadView]]:
    """Return the machines that are not proven to be free of the run.

    A node without power is free of it.
    """
    record, named = tick.record, set()
    for name, view in _views(tick):
        leased = name in record.requested and name not in record.stopped
        if leased if isinstance(view, Unseen) else view.agent is not None or view.leftovers:
            named.add(name)
            yield name, view
    for machine in record.former_heads:
        if machine not in record.stopped and machine not in named:
            gone = Unseen(message="not asked about an earlier head")
            view = tick.seen.nodes.get(machine, gone) if machine else gone
            yield f"head on {machine or 'its former machine'}", view
    head = tick.seen.head
    if record.head_requested if isinstance(head, Unseen) else head.head is not None or head.leftovers:
        yield "head", head


def _views(tick: Tick) -> list[tuple[NodeName, NodeView]]:
    """Return the views of nodes in the order of the inventory, not of the look."""
    return [(name, tick.seen.nodes[name]) for name in tick.index.nodes if name in tick.seen.nodes]


def _runs(agent: AgentReport | None) -> bool:
    return agent is not None and any(rank.running for rank in agent.ranks)
