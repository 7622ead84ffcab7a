"""The Ray head on another machine: its own is lost or has to be left."""

from launcher.core.control import fencing, slice_count
from launcher.core.control.conditions import Condition, needed
from launcher.core.control.liveness import HeadPlace, Silence, against, head_expired
from launcher.core.control.operator import HEAD_MACHINE
from launcher.core.control.slots.handover import give
from launcher.core.control.state import Tick
from launcher.core.control.timing import WITNESS_S
from launcher.core.model.actions import Reason, Why
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Unseen
from launcher.core.model.record import RunTimer


def keep_head(tick: Tick) -> None:
    """Move the head off a machine that is lost, failed, drained, dropped or left.

    It moves once nothing of it can run there.

    Reads `seen`, `awaited`, `leaving`, `holders`, `record.dropping`, conditions. Writes `head_moved`, `record.head` and
    what is known of the old Ray, `gangs`, `slots`, `kills`; `actions` (power off), `hold_reason`.
    """
    node = tick.head_node
    if not tick.record.head_requested:
        dropped = slice_count.dropped_nodes(tick)
        if node is not None and (node in tick.record.failed_nodes or node in tick.seen.drained or node in dropped):
            tick.record.head = elsewhere(tick) or node
            tick.head_moved = tick.record.head != node
        return
    why = _machine_lost(tick) if node is None else _node_lost(tick, node)
    if why is not None and (new := elsewhere(tick)):
        begin_cluster(tick, new, why)
    elif why is not None:
        tick.hold(f"{why}; no other node can run the head")


def begin_cluster(tick: Tick, new: NodeName | None, why: str) -> None:
    """Begin the run's Ray anew on a machine: every raylet and every gang starts again."""
    reason, record = Reason(why=Why.HEAD, message=why), tick.record
    record.former_heads.append(tick.head_node)
    record.head = new
    record.head_requested = record.head_bound = False
    record.cluster += 1
    tick.head_moved = True
    _forget_ray(tick)
    for name in record.gangs:
        if not tick.over(name):
            tick.break_gang(name, reason)
    for member in tick.index.members:
        node = tick.node_of(member)
        if member.colocated_with is None and node not in record.failed_nodes:
            if node in record.requested:
                tick.kill_slot(member, reason)
            give(tick, member, node)


def _forget_ray(tick: Tick) -> None:
    """Forget what was asked of the Ray before, and how often it failed."""
    record = tick.record
    record.verified.clear()
    record.stale.clear()
    record.misplaced.clear()
    record.regrouped.clear()
    record.head_starts = None
    record.spares.clear()
    asked = ("start_head", "park", "reserve", "unreserve", "verify", "start")
    tick.retries = {key: retry for key, retry in tick.retries.items() if key.kind not in asked}


def elsewhere(tick: Tick) -> NodeName | None:
    """Return the first node with a slot that can have the head."""
    dropped = slice_count.dropped_nodes(tick)
    for member in tick.index.members:
        node = tick.node_of(member)
        well = node not in tick.record.failed_nodes and node not in tick.seen.drained and tick.sees(node)
        if well and node not in dropped and node != tick.head_node and needed(tick, member) is not Condition.DOWN:
            return node
    return None


def _node_lost(tick: Tick, node: NodeName) -> str | None:
    """Return why the head has to leave its node; None while it may stay."""
    record = tick.record
    if tick.sees(node):
        if node in record.failed_nodes:
            return f"head node {node} failed: {record.failed_nodes[node].message}"
        idle = all(gang.attempt == 0 or gang.broken for gang in record.gangs.values())
        if node in tick.seen.drained and (node in tick.leaving or node not in tick.holders) and idle:
            return f"head node {node} is drained: {tick.seen.drained[node]}"
        over = all(gang.attempt == 0 or gang.broken or tick.over(name) for name, gang in record.gangs.items())
        if over and node in slice_count.dropped_nodes(tick):
            return f"head node {node} leaves with {record.dropping}"
        if node not in tick.holders and node not in tick.index.slice_of and idle:
            return f"the run has left head node {node}"
        return None
    down = node in record.stopped or tick.silence(node) is Silence.DOWN
    if down and (proof := fencing.proof(tick, node)):
        return f"head node {node} is lost: {proof}"
    if down and node not in tick.awaited:
        message = "; ".join((fencing.no_contact(tick, node), *against(tick.seen, node, head=node)))
        fencing.power_off_silent(tick, node, message)
    return None


def _machine_lost(tick: Tick) -> str | None:
    """Return why the inventory's machine for heads is lost; None while it is not."""
    since = tick.record.since.run.get(RunTimer.HEAD_UNSEEN, tick.seen.at)
    if isinstance(tick.seen.head, Unseen) and since + WITNESS_S <= tick.seen.at:
        proof = tick.record.stopped.get(HEAD_MACHINE) or head_expired(
            tick.seen, HeadPlace.of(None, tick.record, tick.index)
        )
        if proof is not None:
            return f"head machine is lost: {proof}"
    return None
