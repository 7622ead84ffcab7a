"""Spares: which nodes can take a slot, and what to do without one."""

from collections.abc import Sequence
from dataclasses import replace

from launcher.core.control import slice_count
from launcher.core.control.conditions import Condition
from launcher.core.control.slots.handover import give
from launcher.core.control.slots.spare_raylets import goes_back, raylet_of
from launcher.core.control.state import Tick
from launcher.core.control.timing import CONNECT_S, EXPIRED_S, TRIES
from launcher.core.model.action_key import ActionKey, key_of
from launcher.core.model.actions import AddSpare, Reason, Relocate, ReturnSpare, Why
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.observation import Phase, Seen
from launcher.core.model.placement import Slice
from launcher.core.model.record import Evidence, Outcome
from launcher.core.model.run import Cause, Member
from launcher.core.model.task import OnNoSpare
from launcher.core.model.text import count


def check_spares(tick: Tick) -> None:
    """Fail unhealthy spares, and nodes that were never reached.

    Reads `seen`, `holders`, `record.since.unseen`, leases. Writes `record.failed_nodes`, `node_attempts` and `leased`
    (a spare whose agent is gone is acquired again).
    """
    record = tick.record
    for name in tick.index.slice_of:
        if name in record.failed_nodes:
            continue
        _give_up_unreached(tick, name)
        if name in tick.holders or name in record.failed_nodes or name in tick.seen.drained:
            continue
        view = tick.seen.nodes.get(name)
        if signs := tick.signs(name):
            tail = tuple(sign.message for sign in signs)
            tick.fail_node(name, Evidence(cause=Cause.NODE, message=tail[0], tail=tail, mends=True))
        elif name in record.leased and isinstance(view, Seen) and view.agent is None:
            record.leased.discard(name)
            tick.blame(name, Evidence(cause=Cause.EXHAUSTED, message="agent is not running"))


def _give_up_unreached(tick: Tick, name: NodeName) -> None:
    """Fail a node that is out of reach and cannot hold a lease of this run.

    A launch has a spare once it has its lease; until then it waits for the lease of every node.
    """
    record, held = tick.record, tick.holders.get(name)
    if held and tick.gang_of(tick.index.by_name[held]).attempt == 0:
        return  # the launch waits for it, or does not, with its slot
    ours = record.requested if held or tick.started else record.leased
    if name in ours or name not in record.since.unseen:
        return
    tick.wake(record.since.unseen[name] + CONNECT_S)
    if tick.quiet(name) >= CONNECT_S:
        message = f"connect: unreachable for {CONNECT_S:.0f} s: {getattr(tick.seen.nodes[name], 'message', '')}"
        tick.fail_node(name, Evidence(cause=Cause.PROVISION, message=message))


def free(tick: Tick, member: Member) -> list[NodeName]:
    """Return the nodes that can take a slot now, the best first.

    Those in sight come first, and of them those whose raylet is up; then those of its slice, then spares of slices that
    share their spares with it.
    """
    part = tick.index.home(member)
    shared = (name for other in tick.index.pool(part) if other.key != part.key for name in other.spares)
    unused = (*tick.idle(part), *(name for name in shared if name not in tick.holders))
    left_out = (tick.record.failed_nodes, tick.seen.drained)
    usable = [name for name in unused if not any(name in names for names in left_out) and not goes_back(tick, name)]
    # A node out of sight for a moment may be waited for; one that stays so is of no use.
    usable = [name for name in usable if tick.sees(name) or tick.quiet(name) < EXPIRED_S]
    return sorted(usable, key=lambda name: (not tick.sees(name), raylet_of(tick, name) is None))


def return_surplus(tick: Tick) -> None:
    """Give nodes back that hold no slot and are more than the spares that the task asks for.

    A node that came back (undrained, readmitted) after another one has taken its slot is one. Nothing is given back
    before each slot of the slice runs where it may stay: until then any of its nodes may be needed.

    Reads `conditions`, `holders`, `seen`, `record.failed_nodes`, `leased`, `relocating`, `move`. Writes `actions`.
    """
    record = tick.record
    if record.resizing or record.dropping or record.move is not None or len(tick.index.slice_of) == len(tick.holders):
        return
    done: set[str] = set()
    for part in dict.fromkeys(tick.index.slice_of.values()):
        pool = tick.index.pool(part)
        if part.key in done or not any(tick.idle(one) for one in pool):
            continue
        done |= {one.key for one in pool}
        rule = tick.run.group(part.group).topology
        asked = rule.spares * len(pool) + rule.spares_per_rack
        found = [name for one in pool for name in _idle_well(tick, one)]
        if len(found) > asked and _at_rest(tick, pool):
            place = f"{fold(one.key for one in pool)} runs with {count(asked, 'spare') if asked else 'no spare'} left"
            members = {name for one in pool for name in one.nodes}
            # Kept are nodes with a lease, and those that were spares from the first.
            found.sort(key=lambda name: (name not in record.leased, name in members))
            for name in found[asked:]:
                reason = Reason(why=Why.REPLACE, message=f"{name} is not needed: {place}, as the task asks for")
                tick.do(ReturnSpare(reason=reason, node=name))


def _idle_well(tick: Tick, part: Slice) -> list[NodeName]:
    """Return the nodes of a slice that could take a slot at once; not the head's, nor one that a head may be on."""
    record = tick.record
    return [
        name
        for name in tick.idle(part)
        if tick.sees(name) and name not in record.failed_nodes and name not in tick.seen.drained
        if name != tick.head_node and name not in record.former_heads and not tick.fencing(name)
    ]


def _at_rest(tick: Tick, pool: Sequence[Slice]) -> bool:
    """Whether each slot of slices runs, or has finished, on a node that it does not have to leave."""
    record = tick.record
    for member in (
        member for part in pool for one in tick.index.by_slice[part.key] for member in tick.index.colocated(one)
    ):
        node = tick.node_of(member)
        if tick.conditions[member.name] not in (Condition.SERVING, Condition.FINISHED) or not tick.sees(node):
            return False
        if node in tick.seen.drained or node in record.failed_nodes or node not in tick.index.slice_of:
            return False
        if tick.gang_of(member).broken or tick.index.gangs[member.name] in record.since.draining:
            return False
    return not any(part.key in record.relocating for part in pool)


def replace_node(tick: Tick, member: Member, why: Why, message: str, evidence: Evidence) -> None:
    """Give a slot to another node and kill what runs on the old one.

    Without another node, do as the policy says.
    """
    old, found = tick.node_of(member), free(tick, member)
    if not found:
        _without_spare(tick, member, evidence)
        return
    if not tick.sees(found[0]):
        # It may never be seen again, and then the slot would have no node at all.
        tick.break_gangs_at(member, Reason(why=why, message=message))
        tick.hold_reason = f"{member.name} waits for {found[0]}, which is unreachable: {message}"
        return
    new, reason = found[0], Reason(why=why, message=f"{message}; replaced by {found[0]}")
    tick.break_gangs_at(member, reason)
    if old in tick.record.failed_nodes and tick.gang_of(member).attempt == 0:
        # A launch has no attempt to end for a reason, so the evidence tells people where the slot went.
        tick.record.failed_nodes[old] = replace(evidence, message=f"{evidence.message}; replaced by {new}")
    if old in tick.record.requested:
        tick.kill_slot(member, reason)
    here, there = tick.index.nodes[old], tick.index.nodes[new]
    if (here.rack, here.domain) != (there.rack, there.domain):
        # Ray's placement groups are pinned to the domain that they were made in.
        tick.record.stale.update(one.slice_key for one in tick.index.colocated(member))
    part = tick.index.home(member)
    tick.retries.pop(ActionKey("add_spare", slice=part.key), None)
    give(tick, member, new, raylet_of(tick, new))


def _without_spare(tick: Tick, member: Member, evidence: Evidence) -> None:
    node, started, part = tick.node_of(member), tick.gang_of(member).attempt > 0, tick.index.home(member)
    if part.key == tick.record.dropping:
        return
    spared = started or any(other.spares for other in tick.index.pool(part))
    lack = f"no spare node available{part.in_place}" if spared else "the task has no `spares`"
    others = _same_setup_failed(tick, node)
    asks = not started and evidence.unfit and not _refused(tick, part.key)
    if others:
        lack = f"so on {fold(others)}: another node would not help"
    elif evidence.unfit and not started and not asks:
        lack = f"no other node available{part.in_place}"
    message = f"{node}: {evidence.message}; {lack}"
    policy = tick.index.policy(tick.index.node_owner(member)).on_no_spare
    # A launch whose nodes others hold is placed again as a whole.
    shrinks = slice_count.can_drop(tick, part) and evidence.cause is not Cause.LEASE_HELD
    if ((not started and not shrinks) or policy is OnNoSpare.FAIL) and not asks:
        cause = Cause.EXHAUSTED if started else evidence.cause
        tick.end(Outcome(cause=cause, message=message, member=member.name, node=node, tail=evidence.tail))
        return
    reason = Reason(why=Why.REPLACE, message=message)
    tick.break_gangs_at(member, reason)
    ask_for_node(tick, member, reason)
    if not shrinks:  # else its slice is dropped once the rack has said that it has no node
        least = f"; {part.group} has its fewest slices" if policy is OnNoSpare.SHRINK else ""
        tick.hold_reason = f"{member.name} waits for a node: {message}{least}"


def _same_setup_failed(tick: Tick, node: NodeName) -> Sequence[NodeName]:
    """Return the other nodes on which the setup failed as on this one; none if it is not why this one failed."""
    failed = {
        name: agent.setup.exit_code
        for name in tick.index.slice_of
        if (agent := tick.agent(name)) is not None and agent.setup.phase is Phase.FAILED
    }
    return [name for name, code in failed.items() if name != node and code == failed.get(node)]


def _refused(tick: Tick, key: str) -> bool:
    """Whether the rack of a slice has no other node, or has given enough of them that were of no use."""
    asked = tick.retries.get(ActionKey("add_spare", slice=key))
    return asked is not None and (bool(asked.message) or asked.count >= TRIES)


def ask_for_node(tick: Tick, member: Member, reason: Reason) -> None:
    """Ask for one more node in the rack of a slice.

    Where the rack has none or is lost, ask for another place, or drop the slice, if the policy allows it.
    """
    part = tick.index.home(member)
    for name in tick.idle(part):
        if name in tick.record.failed_nodes or name in tick.seen.drained or tick.sees(name):
            continue
        away = tick.quiet(name)
        if away < EXPIRED_S:
            return  # a spare out of sight for a moment is waited for
        message = f"unreachable for {away:.0f} s when it was needed"
        tick.fail_node(name, Evidence(cause=Cause.PROVISION, message=message, mends=True))
    add_spare = AddSpare(reason=reason, slice=part.key)
    lost = not any(tick.sees(name) for name in (*part.nodes, *part.spares))
    relocates = tick.index.policy(tick.index.node_owner(member)).on_no_spare is OnNoSpare.RELOCATE
    refused = tick.retries.get(key_of(add_spare))
    if relocates and (lost or refused):
        _relocate(tick, member, Reason(why=Why.RELOCATE, message=reason.message))
    elif slice_count.can_drop(tick, part) and (lost or (refused and refused.at > tick.seen.at)):
        slice_count.drop(tick, part, reason.message)  # a refusal of long ago says nothing of now
    elif not lost:
        tick.do(add_spare)


def _relocate(tick: Tick, member: Member, reason: Reason) -> None:
    """Ask for another place for a slice, without its nodes that cannot serve."""
    part, leaves = tick.index.home(member), tick.index.home(member).key in tick.record.relocating
    without = tuple(
        name
        for name in (*part.nodes, *part.spares)
        if leaves or name in tick.record.failed_nodes or name in tick.seen.drained or not tick.sees(name)
    )
    tick.do(Relocate(reason=reason, slice=part.key, without=without))
