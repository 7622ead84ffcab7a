"""From a node without lease to a raylet in Ray: acquire, prepare, join; how long an unreachable node is waited for."""

from launcher.core.control import spares
from launcher.core.control.conditions import Condition, needed
from launcher.core.control.slots.spare_raylets import goes_back, other_raylet, raylet_kill
from launcher.core.control.state import Tick
from launcher.core.control.timing import CONNECT_S, EXPIRED_S, PATIENCE_S
from launcher.core.model.actions import Acquire, Join, Prepare, Reason, Release, Why
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Seen, Unseen
from launcher.core.model.record import Evidence
from launcher.core.model.run import Cause, Member
from launcher.core.model.task import OnNoSpare
from launcher.core.model.text import span

BEGIN = Reason(why=Why.START, message="run starts")
_SERVE = Reason(why=Why.START, message="node is available")


def acquire_leases(tick: Tick) -> None:
    """Acquire every node of the run, spares too.

    Nothing else begins before all of them are leased.

    Reads `seen`, `kills`, `holders`, `record.failed_nodes`, `record.leased`. Writes `leases_complete`,
    `record.requested`; `actions`.
    """
    record, spare = tick.record, tick.seen.drained.keys() - tick.holders.keys()
    returning = tick.in_flight.any("return_spare") or any(key.kind == "return_spare" for key in tick.actions)
    wanted = [
        name
        for name in tick.index.slice_of
        if name not in record.failed_nodes and name not in spare and not (returning and goes_back(tick, name))
    ]
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

    A raylet that the node still runs, as a spare or for another slot, is killed first.

    Reads `conditions`, the head. Writes `record.joined`, `kills`; `actions`.
    """
    for member in tick.index.members:
        found = needed(tick, member)
        if found not in (Condition.LEASED, Condition.PREPARED):
            continue  # done, under way, or decided elsewhere
        # Colocated members need the same of their node: it is done once, in the name of the node's owner.
        slot = tick.record.slots[tick.index.node_owner(member).name]
        match found:
            case Condition.LEASED:
                tick.do(Prepare(reason=why_start(tick, member), node=slot.node, member=slot.member))
            case Condition.PREPARED if (stray := other_raylet(tick, slot.node, slot.generation)) is not None:
                message = f"{slot.node} runs the raylet of generation {stray}"
                tick.kill(raylet_kill(tick, member, slot.node, stray, Reason(why=Why.REJOIN, message=message)))
            case Condition.PREPARED if tick.head_begun():
                tick.record.joined.add(slot.node)
                tick.do(Join(reason=why_start(tick, member), slot=slot))
            case _:
                pass  # the head has not begun


def why_start(tick: Tick, member: Member) -> Reason:
    """Return why something is started for a slot.

    The run starts, or the reason that ended the last attempt of its gang.
    """
    return tick.gang_of(member).broken or BEGIN


def wait_for_node(tick: Tick, member: Member) -> bool:
    """Whether a slot of a launch has to wait for its node, which is out of sight.

    People are told. The node fails after `CONNECT_S` if a spare can replace it and no raylet or head of the run can be
    on it, if an operator confirmed it dead, or if the policy is `on_no_spare: fail`; else after `PATIENCE_S`.
    """
    node, record = tick.node_of(member), tick.record
    if tick.sees(node) or tick.gang_of(member).attempt > 0:
        return False
    spared = any(tick.sees(name) for name in spares.free(tick, member))
    if spared and (node in record.joined or node == tick.head_node):
        return False
    dead = node in record.stopped and node not in record.requested  # confirmed, and the run never had its lease
    fails = tick.index.policy(tick.index.node_owner(member)).on_no_spare is OnNoSpare.FAIL
    limit, away = CONNECT_S if spared or dead or fails else PATIENCE_S, tick.quiet(node)
    if away >= limit and not tick.blind():
        message = f"{_stage(tick, node)}: unreachable for {away:.0f} s{_why(tick, node)}"
        tick.fail_node(node, Evidence(cause=Cause.PROVISION, message=message, mends=True, unfit=True))
        return False
    tick.wake(tick.seen.at + max(limit - away, 1.0))
    if not spared:
        tick.awaited.add(node)
        _tell(tick, member, node, away, limit)
    return not spared


def _tell(tick: Tick, member: Member, node: NodeName, away: float, limit: float) -> None:
    if away >= EXPIRED_S and not tick.blind():
        lately = f"{away // 10 * 10:.0f} s"  # in steps: each new status message is a line of the journal
        message = f"unreachable for {lately} during {_stage(tick, node)}{_why(tick, node)}"
        place = tick.index.home(member).in_place
        tick.hold(f"{member.name} waits for {node}, {message}; no spare{place}, fails after {span(limit)}")


def _stage(tick: Tick, node: NodeName) -> str:
    """Return how far the launch had come on a node."""
    if node not in tick.record.requested:
        return "connect"
    if node not in tick.record.leased:
        return "lease"
    return "join" if node in tick.record.joined else "setup"


def _why(tick: Tick, node: NodeName) -> str:
    view = tick.seen.nodes.get(node)
    return f": {view.message}" if isinstance(view, Unseen) and view.message else ""
