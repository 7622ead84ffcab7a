"""Orders of operators, and nodes that may serve again: what changes in the record before anything is decided."""

from typing_extensions import assert_never

from launcher.core.control.liveness import alive
from launcher.core.control.state import Draft
from launcher.core.model.actions import Reason, Why
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Unseen
from launcher.core.model.operator_requests import OperatorRequest, RequestKind
from launcher.core.model.record import Evidence, Outcome
from launcher.core.model.run import Cause

# What the machine that the inventory names for Ray heads is called in orders.
HEAD_MACHINE = NodeName("head")
# How far two good answers of a node about its own health have to be apart (s).
WELL_FOR = 30.0


def obey(draft: Draft) -> None:
    """Take in the orders that are new, and take back the nodes that have mended."""
    for order in draft.seen.requests:
        if order.seq > draft.requests_seen:
            draft.requests_seen = order.seq
            _order(draft, order)
    for name in draft.seen.nodes:
        if _confirmed(name) in draft.since:
            _confirm(draft, name, "")
    for name, evidence in list(draft.failed_nodes.items()):
        if evidence.mends:
            _mend(draft, name)
    draft.resumed -= {name for name in draft.resumed if draft.sees(name) and not draft.signs(name)}


def _order(draft: Draft, order: OperatorRequest) -> None:
    match order.kind:
        case RequestKind.CONFIRM_DEAD:
            _confirm(draft, NodeName(order.subject), order.by)
        case RequestKind.RESUME:
            if draft.verdict:
                draft.resumed |= set(draft.verdict.nodes)
            draft.verdict = None
        case RequestKind.RELOCATE:
            if order.subject in draft.index.parts:
                draft.moving.add(draft.index.home(draft.index.by_slice[order.subject][0]).key)
                draft.verdict = None
        case RequestKind.READMIT:
            readmit(draft, NodeName(order.subject))
        case RequestKind.RESIZE:
            draft.resizing = True
        case RequestKind.PREEMPT:
            message = f"preempted for {order.by}, which has a higher priority than {draft.run.task.priority}"
            draft.end(Outcome(cause=Cause.PREEMPTED, message=message))
        case _:
            assert_never(order.kind)


def _confirmed(node: NodeName) -> str:
    """Return under which key it is kept since when an operator's word about a node is not believed."""
    return f"confirmed:{node}"


def _confirm(draft: Draft, node: NodeName, by: str) -> None:
    """Believe an operator that a node is off, as soon as neither we see it ourselves nor anybody has just heard it."""
    message = f"{by or 'an operator'} confirmed that it is dead"
    if node == HEAD_MACHINE and draft.head_node is None and isinstance(draft.seen.head, Unseen):
        draft.stopped[node] = message
    if node not in draft.seen.nodes or draft.sees(node):
        draft.since.pop(_confirmed(node), None)
        return
    if (heard := alive(draft.seen, node, head=draft.head_node)) is not None:
        draft.lasted(_confirmed(node))
        draft.notes.append(f"{node} is not taken for dead yet: {heard}")
        return
    draft.since.pop(_confirmed(node), None)
    draft.stopped[node] = message
    if node in draft.requested:
        draft.fail_node(node, Evidence(cause=Cause.NODE, message=message, mends=True))


def _mend(draft: Draft, name: NodeName) -> None:
    """Take a node back once it has twice said that it is well, and nothing of the run is left on it."""
    since, health = draft.since.get(f"failed:{name}", draft.seen.at), draft.seen.health.get(name)
    well = f"well:{name}"
    if not draft.sees(name):
        draft.since.pop(well, None)
        return
    if health is None or health.at <= since:
        draft.doubted.add(name)
        return
    if health.hung or any(sign.symptom.fails_node for sign in health.signs):
        draft.since.pop(well, None)
        return
    first = draft.since.setdefault(well, health.at)
    if health.at < first + WELL_FOR:
        if draft.seen.at >= first + WELL_FOR:
            draft.doubted.add(name)
        else:
            draft.wake(first + WELL_FOR)
    elif name not in draft.requested:
        readmit(draft, name)


def readmit(draft: Draft, node: NodeName) -> None:
    """Forget what was held against a node; a slot that it still has starts there under the next generation."""
    if draft.failed_nodes.pop(node, None) is None:
        return
    for key in (f"failed:{node}", f"well:{node}"):
        draft.since.pop(key, None)
    for known in (draft.node_attempts, draft.excused, draft.failures):
        known.pop(node, None)
    draft.leased.discard(node)
    if node in draft.holders:
        member = draft.index.by_name[draft.holders[node]]
        if node in draft.requested:
            draft.fence_slot(member, Reason(why=Why.REJOIN, message=f"{node} may serve again"))
        draft.give(member, node)
