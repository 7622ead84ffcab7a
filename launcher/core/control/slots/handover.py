"""Giving a slot to a node: the only place where a slot changes its node or its raylet."""

from launcher.core.control.state import Tick
from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import Member, Slot


def give(tick: Tick, member: Member, node: NodeName, raylet: int | None = None) -> None:
    """Give a slot and those colocated with it to a node, or to their own anew.

    The node is to start a raylet, of a higher generation than it has run: it may have run one of another slot. Or it
    goes on with the `raylet` of that generation, which it has as a spare. What Ray has placed for the slot before says
    nothing of the new one.
    """
    record, owner = tick.record, tick.index.node_owner(member)
    before = record.slots[member.name]
    takes_over = raylet is not None
    if raylet is not None:
        generation = raylet
    else:
        generation = tick.new_generation(before.generation if node == before.node and not before.spare else None)
    tick.hold_at(node, owner.name, before.node)
    record.spares.pop(node, None)
    for one in tick.index.colocated(member):
        record.since.joining.pop(one.name, None)
        record.since.dead_in_ray.pop(one.name, None)
        record.verified.pop(one.slice_key, None)
        if takes_over or before.spare:
            record.stale.add(one.slice_key)  # its placement group selects the label of another raylet
        record.slots[one.name] = Slot(member=one.name, node=node, generation=generation, spare=takes_over)
