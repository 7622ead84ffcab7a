"""Nodes that are left because a rank there is slower than its peers, where the task asks for that."""

from launcher.core.control import spares
from launcher.core.control.state import Tick
from launcher.core.model.actions import Reason, Why
from launcher.core.model.nodeset import NodeName
from launcher.core.model.record import Evidence, SlowRank
from launcher.core.model.run import Cause, GangName, Member, MemberName
from launcher.core.model.task import OnStraggler


def slow_movers(tick: Tick, name: GangName) -> dict[NodeName, Reason]:
    """Return the nodes that a gang leaves because a rank there is slow, and why.

    A rank is moved once, and only to a spare that is there: one that is slow on its second node too is not slow because
    of its node, and no run stands still for a slow rank. Notes in `record.slow_left` which were moved.
    """
    found: dict[NodeName, Reason] = {}
    room: dict[str, int] = {}
    if not tick.record.slow_ranks and not tick.record.slow_left:
        return found
    for member in tick.index.by_gang[name]:
        node, part = tick.node_of(member), tick.index.home(member)
        slow = None if node in found or node in tick.record.failed_nodes else _slow(tick, member)
        if slow is None:
            continue
        if part.key not in room:
            room[part.key] = sum(1 for other in spares.free(tick, member) if tick.agent(other) is not None)
        if room[part.key]:
            room[part.key] -= 1
            tick.record.slow_left[slow[0]] = slow[1]
            found[node] = Reason(why=Why.REPLACE, message=slow[1].message)
    return found


def _slow(tick: Tick, member: Member) -> tuple[MemberName, SlowRank] | None:
    """Return the rank for which the node of a slot is to be left, and why; decided before, or now."""
    record, node = tick.record, tick.node_of(member)
    for one in tick.index.colocated(member):
        left, slow = record.slow_left.get(one.name), record.slow_ranks.get(one.name)
        if left is not None:
            if left.node == node and tick.index.gangs[one.name] in record.since.draining:
                return one.name, left
        elif slow is not None and slow.node == node and tick.index.policy(one).on_straggler is OnStraggler.REPLACE:
            return one.name, slow
    return None


def fail_slow(tick: Tick, node: NodeName) -> None:
    """Fail a node that is about to be left because a rank there was slow: the run does not use it again."""
    slow = next((one for one in tick.record.slow_left.values() if one.node == node), None)
    if slow is not None and node in tick.leaving and node not in tick.seen.drained:
        tick.fail_node(node, Evidence(cause=Cause.NODE, message=slow.message))
