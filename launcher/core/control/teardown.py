"""The way down: signal, grace, kill, release; done when nothing of the run is left on any node."""

from launcher.core.control.headline import BLINK
from launcher.core.control.state import Draft
from launcher.core.model.actions import Reason, Release, Signal, Unit, Why
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import AgentReport, HeadSeen, HeadView, NodeView, Seen, Unseen
from launcher.core.model.run import Cause

_WHY = {
    Cause.SUCCESS: Why.FINISHED,
    Cause.STOPPED: Why.STOP,
    Cause.TIME_LIMIT: Why.STOP,
    Cause.PREEMPTED: Why.STOP,
}
# Who is stopped while its program runs well may write a checkpoint first.
_WARNED = (Cause.STOPPED, Cause.TIME_LIMIT, Cause.PREEMPTED)


def end(draft: Draft) -> None:
    """Take one step towards nothing being left of the run."""
    assert draft.outcome is not None
    draft.fence_done(set(draft.kills))  # to release a node is to kill it
    reason = Reason(why=_WHY.get(draft.outcome.cause, Why.FAILED), message=draft.outcome.message)
    if draft.outcome.cause in _WARNED and _in_grace(draft, reason):
        return
    for name in draft.index.nodes:
        draft.release(name, reason)
    if isinstance(draft.seen.head, HeadSeen) and (draft.seen.head.head or draft.seen.head.leftovers):
        draft.do(Release(reason=reason, node=draft.head_node, unit=Unit.HEAD))
    elif isinstance(draft.seen.head, HeadSeen) and not any(
        key.startswith("start_head") for key in draft.seen.in_flight
    ):
        draft.head_asked = False
    for machine in draft.heads:
        if machine is None or draft.sees(machine):
            draft.do(Release(reason=reason, node=machine, unit=Unit.HEAD))


def _in_grace(draft: Draft, reason: Reason) -> bool:
    """Whether ranks still have time to write a checkpoint; each node is told once, by receipt."""
    running = [name for name, view in _views(draft) if isinstance(view, Seen) and _runs(view.agent)]
    grace = draft.run.task.stop_grace
    if not running or draft.lasted("stopping") >= grace:
        return False
    draft.wake(draft.since["stopping"] + grace)
    for name in running:
        if name not in draft.signalled:
            draft.do(Signal(reason=reason, node=name, signal=draft.run.task.stop_signal))
    return True


def pending(draft: Draft) -> tuple[str, ...]:
    """Return what is not proven to be free of the run: nodes, and `head`; a node without power is free of it."""
    return tuple(name for name, _ in _left(draft))


def silent(draft: Draft) -> bool:
    """Whether something is left, and all of it is out of reach, for longer than an agent needs to end."""
    left = _left(draft)
    if left and all(isinstance(view, Unseen) for _, view in left):
        return draft.lasted("silent") >= BLINK
    draft.since.pop("silent", None)
    return False


def _left(draft: Draft) -> list[tuple[str, NodeView | HeadView]]:
    left: list[tuple[str, NodeView | HeadView]] = [
        (name, view)
        for name, view in _views(draft)
        if (_kept(draft, name) if isinstance(view, Unseen) else view.agent is not None or view.leftovers)
    ]
    named = {name for name, _ in left}
    for machine in draft.heads:
        if machine not in draft.stopped and machine not in named:
            gone = Unseen(message="it is not asked about an earlier head")
            left.append(
                (f"head on {machine or 'its machine'}", draft.seen.nodes.get(machine, gone) if machine else gone)
            )
    head = draft.seen.head
    if draft.head_asked if isinstance(head, Unseen) else head.head is not None or head.leftovers:
        left.append(("head", head))
    return left


def _views(draft: Draft) -> list[tuple[NodeName, NodeView]]:
    """Return what was seen of each node, in the order of the fleet: the order of a look means nothing."""
    return [(name, draft.seen.nodes[name]) for name in draft.index.nodes if name in draft.seen.nodes]


def _kept(draft: Draft, name: NodeName) -> bool:
    return name in draft.requested and name not in draft.stopped


def _runs(agent: AgentReport | None) -> bool:
    return agent is not None and any(rank.running for rank in agent.ranks)
