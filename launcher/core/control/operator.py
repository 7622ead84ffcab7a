"""Operator requests, and failed nodes that may be used again."""

from typing_extensions import assert_never

from launcher.core.control.drain import ask_move
from launcher.core.control.liveness import HeadPlace, alive
from launcher.core.control.slots.handover import give
from launcher.core.control.state import Tick
from launcher.core.control.timing import RECOVERED_S
from launcher.core.model.actions import Reason, Why
from launcher.core.model.move_order import read_order
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Unseen
from launcher.core.model.operator_requests import OperatorRequest, RequestKind
from launcher.core.model.record import Evidence, Outcome
from launcher.core.model.run import Cause, Wanted

# The name of the inventory's machine for Ray heads in requests.
HEAD_MACHINE = NodeName("head")


def apply_requests(tick: Tick) -> None:
    """Take in new requests, readmit recovered nodes, and end a run that is taken down.

    Reads `seen.requests`, `seen.health`, `seen.kept_out`, `run.wanted`. Writes `record.requests_seen`, `shared_fault`,
    `resumed`, `relocating`, `move`, `resizing`, `stopped`, `failed_nodes` and what was counted against a node, its slot
    and kills if it is used again, the outcome; `doubted` and `notes`.
    """
    record = tick.record
    for request in tick.seen.requests:
        if request.seq > record.requests_seen:
            record.requests_seen = request.seq
            _apply(tick, request)
    for name in [name for name in record.since.doubted_dead if name in tick.seen.nodes]:
        _confirm_dead(tick, name, "")
    for name in [name for name, evidence in record.failed_nodes.items() if evidence.mends]:
        _watch_recovery(tick, name)
    record.resumed -= {name for name in record.resumed if tick.sees(name) and not tick.signs(name)}
    if tick.run.wanted is Wanted.NOTHING:
        tick.end(Outcome(cause=Cause.STOPPED, message="on request"))


def _apply(tick: Tick, request: OperatorRequest) -> None:
    record = tick.record
    match request.kind:
        case RequestKind.CONFIRM_DEAD:
            _confirm_dead(tick, NodeName(request.subject), request.by)
        case RequestKind.RESUME:
            if record.shared_fault:
                record.resumed |= set(record.shared_fault.nodes)
            record.shared_fault = None
        case RequestKind.RELOCATE:
            if (order := read_order(request.subject)) is not None:
                ask_move(tick, order)
            elif request.subject in tick.index.slices:
                record.relocating.add(tick.index.home(tick.index.by_slice[request.subject][0]).key)
                record.shared_fault = None
        case RequestKind.READMIT:
            _readmit(tick, NodeName(request.subject))
        case RequestKind.RESIZE:
            record.resizing = True
        case RequestKind.PREEMPT:
            message = f"preempted by {request.by}; this run has priority {tick.run.task.priority}"
            tick.end(Outcome(cause=Cause.PREEMPTED, message=message))
        case _:
            assert_never(request.kind)


def _confirm_dead(tick: Tick, node: NodeName, by: str) -> None:
    """Take a node for stopped because an operator says so.

    Ignored while we see the node; postponed while another node hears it.
    """
    record, doubted = tick.record, tick.record.since.doubted_dead
    message = f"confirmed dead by {by or 'an operator'}"
    if node == HEAD_MACHINE and tick.head_node is None and isinstance(tick.seen.head, Unseen):
        record.stopped[node] = message
    if node not in tick.seen.nodes or tick.sees(node):
        doubted.pop(node, None)
        return
    if (heard := alive(tick.seen, node, head=HeadPlace.of(tick.head_node, record, tick.index))) is not None:
        tick.lasted(doubted, node)
        tick.notes.append(f"{node} is confirmed dead, but not failed yet: {heard}")
        return
    doubted.pop(node, None)
    record.stopped[node] = message
    if node in record.requested:
        tick.fail_node(node, Evidence(cause=Cause.NODE, message=message, mends=True))


def _watch_recovery(tick: Tick, name: NodeName) -> None:
    """Use a node again after two good health reports, once nothing is left on it.

    One that is kept out after a relapse, or until it has passed a check, waits for a request.
    """
    since, health = tick.record.since, tick.seen.health.get(name)
    if not tick.sees(name) or name in tick.seen.kept_out:
        since.well.pop(name, None)
    elif health is None or health.at <= since.failed.get(name, tick.seen.at):
        tick.doubted.add(name)
    elif health.hung or any(sign.symptom.fails_node for sign in health.signs):
        since.well.pop(name, None)
    else:
        again = since.well.setdefault(name, health.at) + RECOVERED_S
        if health.at >= again:
            if name not in tick.record.requested:
                _readmit(tick, name)
        elif tick.seen.at >= again:
            tick.doubted.add(name)
        else:
            tick.wake(again)


def _readmit(tick: Tick, node: NodeName) -> None:
    """Forget what was counted against a node; a slot that it still holds starts anew."""
    record = tick.record
    if (evidence := record.failed_nodes.pop(node, None)) is None:
        return
    for counted in (record.since.failed, record.since.well, record.node_attempts, record.excused):
        counted.pop(node, None)
    if evidence.cause is not Cause.PROGRAM:  # else it is known that the node is not why the program fails
        record.program_failures = [one for one in record.program_failures if one.node != node]
    record.leased.discard(node)
    if node in tick.holders:
        member = tick.index.by_name[tick.holders[node]]
        if node in record.requested:
            tick.kill_slot(member, Reason(why=Why.REJOIN, message=f"{node} is used again"))
        give(tick, member, node)
