"""The way down: signal, grace, sweep, release; done when nothing of the run is left on any node."""

from launcher.core.actions import Reason, Signal, Unclaim, Unit, Why
from launcher.core.draft import Draft
from launcher.core.fleet import NodeName
from launcher.core.observation import HeadSeen, Keeper, NodeView, Seen, Unseen
from launcher.core.run import Cause

_WHY = {Cause.SUCCESS: Why.FINISHED, Cause.STOPPED: Why.STOP}


def end(draft: Draft) -> None:
    """Take one step towards nothing being left of the run."""
    assert draft.outcome is not None
    draft.sweeps.clear()  # to release a node is to sweep it
    reason = Reason(why=_WHY.get(draft.outcome.cause, Why.FAILED), words=draft.outcome.words)
    if draft.outcome.cause is Cause.STOPPED and _in_grace(draft, reason):
        return
    for name in draft.run.placement.nodes:
        view = draft.seen.nodes.get(name)
        if isinstance(view, Seen) and (view.keeper is not None or view.leftovers):
            draft.do(Unclaim(reason=reason, node=name))
    if isinstance(draft.seen.head, HeadSeen) and (draft.seen.head.head or draft.seen.head.leftovers):
        draft.do(Unclaim(reason=reason, node=draft.run.head, unit=Unit.HEAD))


def _in_grace(draft: Draft, reason: Reason) -> bool:
    """Answer whether ranks still have time to write a checkpoint; each node is told once, by receipt."""
    running = [name for name, view in _views(draft) if isinstance(view, Seen) and _runs(view.keeper)]
    grace = draft.run.task.stop_grace
    if not running or draft.lasted("stopping") >= grace:
        return False
    draft.wake(draft.since["stopping"] + grace)
    for name in running:
        if name not in draft.signalled:
            draft.do(Signal(reason=reason, node=name, signal=draft.run.task.stop_signal))
    return True


def pending(draft: Draft) -> tuple[str, ...]:
    """Answer what is not proven to be free of the run: nodes, and `head`."""
    names = [
        str(name)
        for name, view in _views(draft)
        if (isinstance(view, Unseen) and name in draft.asked)
        or (isinstance(view, Seen) and (view.keeper is not None or view.leftovers > 0))
    ]
    head = draft.seen.head
    if isinstance(head, Unseen):
        if draft.run.head is None or draft.run.head in draft.asked:
            names.append("head")
    elif head.head is not None or head.leftovers:
        names.append("head")
    return tuple(names)


def silent(draft: Draft) -> bool:
    """Answer whether all that is left is out of reach."""
    left = pending(draft)
    views = [view for name, view in _views(draft) if str(name) in left]
    return bool(views) and all(isinstance(view, Unseen) for view in views)


def _views(draft: Draft) -> list[tuple[NodeName, NodeView]]:
    """Answer what was seen of each node, in the order of the placement: the order of a look means nothing."""
    return [(name, draft.seen.nodes[name]) for name in draft.run.placement.nodes if name in draft.seen.nodes]


def _runs(keeper: Keeper | None) -> bool:
    return keeper is not None and any(rank.running for rank in keeper.ranks)
