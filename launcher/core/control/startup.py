"""From a node without lease to a raylet in Ray: acquire, prepare, join."""

from launcher.core.control.conditions import Condition, needed
from launcher.core.control.state import Tick
from launcher.core.model.actions import Acquire, Join, Prepare, Reason, Release, Why
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Seen
from launcher.core.model.run import Member

BEGIN = Reason(why=Why.START, message="run starts")
_SERVE = Reason(why=Why.START, message="node is available")


def acquire_leases(tick: Tick) -> None:
    """Acquire every node of the run, spares too.

    Nothing else begins before all of them are leased.

    Reads `seen`, `kills`, `holders`, `record.failed_nodes`, `record.leased`. Writes `leases_complete`,
    `record.requested`; `actions`.
    """
    record, spare = tick.record, tick.seen.drained.keys() - tick.holders.keys()
    wanted = [name for name in tick.index.slice_of if name not in record.failed_nodes and name not in spare]
    fenced = {kill.node for kill in tick.kills.values()}
    for name in wanted:
        view = tick.seen.nodes.get(name)
        if not isinstance(view, Seen) or view.agent is not None or name in fenced:
            continue
        if view.leftovers:
            message = f"{view.leftovers} leftover processes without an agent"
            tick.do(Release(reason=Reason(why=Why.REJOIN, message=message), node=name))
        elif name not in record.leased:
            record.requested.add(name)
            tick.do(Acquire(reason=_SERVE if tick.started else BEGIN, node=name))
    tick.leases_complete = all(name in record.leased or _was_leased(tick, name) for name in wanted)


def _was_leased(tick: Tick, name: NodeName) -> bool:
    """Whether the run is past its first leases: no other node waits for this one."""
    return tick.started or tick.record.node_attempts.get(name, 0) > 0


def bring_up(tick: Tick) -> None:
    """Prepare each leased node that has a slot, and join it to Ray once prepared.

    Reads `conditions`, the head. Writes `record.joined`; `actions`.
    """
    for member in tick.index.members:
        # Colocated members need the same of their node: it is done once, in the name of the node's owner.
        slot = tick.record.slots[tick.index.node_owner(member).name]
        match needed(tick, member):
            case Condition.LEASED:
                tick.do(Prepare(reason=why_start(tick, member), node=slot.node, member=slot.member))
            case Condition.PREPARED if tick.head_begun():
                tick.record.joined.add(slot.node)
                tick.do(Join(reason=why_start(tick, member), slot=slot))
            case _:
                pass  # done, under way, or decided elsewhere


def why_start(tick: Tick, member: Member) -> Reason:
    """Return why something is started for a slot.

    The run starts, or the reason that ended the last attempt of its gang.
    """
    return tick.gang_of(member).broken or BEGIN
