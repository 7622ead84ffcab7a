"""Telling Ray which nodes are about to be left, before a driver is told to stop.

A driver is a program that talks to Ray, and some listen: Ray Train lets its workers write a last checkpoint when the
node of one is drained. So Ray is told first, with the moment when the driver gets its stop signal: `stop_grace` later.
From then on all is as for ranks. Ray 2.60 cannot take a drain back, and starts nothing on such a raylet: where the node
is not left after all, its raylet starts again with the next attempt, and not before. A raylet without work ends by
itself once Ray knows of the drain.
"""

from collections.abc import Mapping

from launcher.core.control.slots import handover
from launcher.core.control.state import Tick
from launcher.core.model.actions import Announce, Reason, Why
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.run import GangName, Member, Slot


def give(tick: Tick, name: GangName, reasons: Mapping[NodeName, Reason]) -> float:
    """Tell Ray which nodes a gang with a driver leaves; return for how long nobody is told to stop (s).

    0 for a gang without a driver, and where Ray has nothing to be told.
    """
    members = [member for member in tick.index.by_gang[name] if tick.index.driver(member) is not None]
    leaving = [member for member in members if tick.node_of(member) in reasons]
    if not leaving and not any(_told(tick, tick.record.slots[member.name]) for member in members):
        return 0.0
    grace = tick.run.task.stop_grace
    left = grace - tick.lasted(tick.record.since.draining, name)
    for member in leaving:
        slot = tick.record.slots[tick.index.node_owner(member).name]
        if left > 0 and not _told(tick, slot) and tick.head() is not None:
            tick.do(Announce(reason=reasons[slot.node], slot=slot, deadline=tick.seen.wall + left))
    return grace


def withdrawn(tick: Tick, name: GangName) -> bool:
    """Whether a drain was withdrawn before anybody of a gang was told to stop, or has ended for the notice."""
    members = tick.index.by_gang[name]
    ended = any(member.name in tick.record.exits for member in members)
    if ended or not any(_told(tick, tick.record.slots[member.name]) for member in members):
        return False
    return tick.lasted(tick.record.since.draining, name) < tick.run.task.stop_grace


def expected(tick: Tick, member: Member, slot: Slot) -> bool:
    """Whether a raylet may end, or leave Ray's table, because Ray was told of a drain: no fault of its node."""
    return _told(tick, slot) and tick.gang_of(member).attempt > 0 and not tick.gang_of(member).broken


def renew(tick: Tick) -> None:
    """Start raylets again that Ray counts as draining, where nothing runs any more that they would disturb."""
    kept: list[NodeName] = []
    for node, generation in list(tick.record.noticed.items()):
        held = tick.holders.get(node)
        if held is None or tick.record.slots[held].generation != generation:
            del tick.record.noticed[node]
            continue
        member = tick.index.by_name[held]
        gangs = [tick.gang_of(one) for one in tick.index.colocated(member)]
        if all(gang.attempt == 0 or gang.broken for gang in gangs) and node not in tick.record.failed_nodes:
            del tick.record.noticed[node]
            tick.kill_slot(member, Reason(why=Why.REJOIN, message=f"Ray counts {node} as draining"))
            handover.give(tick, member, node)
        elif node not in tick.seen.drained:
            kept.append(node)
    if kept:
        tick.notes.append(f"Ray counts {fold(kept)} as draining until the next attempt")


def _told(tick: Tick, slot: Slot) -> bool:
    return tick.record.noticed.get(slot.node) == slot.generation
