"""Who takes the slot of a node that cannot keep it: a spare, another node of the rack, or a slice somewhere else."""

from launcher.core.control.liveness import EXPIRED, quiet
from launcher.core.control.state import Draft
from launcher.core.model.actions import AddSpare, Reason, Relocate, Why
from launcher.core.model.nodeset import NodeName
from launcher.core.model.record import Evidence, Outcome
from launcher.core.model.run import Cause, Member
from launcher.core.model.task import OnNoSpare


def free(draft: Draft, member: Member) -> list[NodeName]:
    """Return the nodes that could take a slot now, the best first: those of its slice, then spares that its rack has
    for all slices of its group."""
    part = draft.index.home(member)
    names = [*part.nodes, *part.spares]
    if draft.run.group(part.group).topology.spares_per_rack:
        names += [
            name
            for other in draft.run.placement.slices
            if other.key != part.key
            and (other.group, other.place, other.domain) == (part.group, part.place, part.domain)
            for name in other.spares
        ]
    usable = [
        name
        for name in names
        if name not in draft.holders and name not in draft.failed_nodes and name not in draft.seen.drained
    ]
    # One that is out of sight for a moment may be waited for; one that stays so is as good as not there.
    usable = [name for name in usable if draft.sees(name) or quiet(draft.seen, draft.since, name) < EXPIRED]
    return sorted(usable, key=lambda name: not draft.sees(name))


def swap(draft: Draft, member: Member, why: Why, message: str, evidence: Evidence) -> None:
    """Give a slot to another node and fence the old one; without one, do as the policy says."""
    slot = draft.slots[member.name]
    found = free(draft, member)
    if not found:
        _bereft(draft, member, evidence)
        return
    if not draft.sees(found[0]):
        # It may never be seen again, and then the slot would have no node at all.
        draft.break_gang_of(member, Reason(why=why, message=message))
        draft.waiting_for = f"{member.name} waits for {found[0]}, which cannot be seen: {message}"
        return
    reason = Reason(why=why, message=f"{message}; {found[0]} takes its slot")
    draft.break_gang_of(member, reason)
    if slot.node in draft.requested:
        draft.fence_slot(member, reason)
    nodes = draft.index.nodes
    if (nodes[slot.node].rack, nodes[slot.node].domain) != (nodes[found[0]].rack, nodes[found[0]].domain):
        # Ray's groups are pinned to the place that they were made in.
        draft.stale.update(one.slice_key for one in draft.index.crew(member))
    draft.retries.pop(f"add_spare:{draft.index.home(member).key}", None)
    draft.give(member, found[0])


def _bereft(draft: Draft, member: Member, evidence: Evidence) -> None:
    gang, part, slot = draft.gang_of(member), draft.index.home(member), draft.slots[member.name]
    started = draft.gangs[gang].attempt > 0
    message = f"{slot.node}: {evidence.message}, and no spare is left in {part.place}"
    policy = draft.index.policy(draft.index.lead(member)).on_no_spare
    if not started or policy is OnNoSpare.FAIL:
        cause = Cause.EXHAUSTED if started else evidence.cause
        draft.end(Outcome(cause=cause, message=message, member=member.name, node=slot.node, tail=evidence.tail))
        return
    draft.break_gang_of(member, Reason(why=Why.REPLACE, message=message))
    ask(draft, member, Reason(why=Why.REPLACE, message=message))
    draft.waiting_for = f"{member.name} waits for a node: {message}"


def ask(draft: Draft, member: Member, reason: Reason) -> None:
    """Ask for one more node in the rack of a slice; where there is none, or the rack is lost, for another place, if the
    policy has it so."""
    part = draft.index.home(member)
    for name in (*part.nodes, *part.spares):
        if name in draft.holders or name in draft.failed_nodes or name in draft.seen.drained or draft.sees(name):
            continue
        away = quiet(draft.seen, draft.since, name)
        if away < EXPIRED:
            return  # one that is out of sight for a moment is waited for
        message = f"out of sight for {away:.0f} s when it was needed"
        draft.fail_node(name, Evidence(cause=Cause.PROVISION, message=message, mends=True))
    add_spare = AddSpare(reason=reason, slice=part.key)
    lost = not any(draft.sees(name) for name in (*part.nodes, *part.spares))
    relocates = draft.index.policy(draft.index.lead(member)).on_no_spare is OnNoSpare.RELOCATE
    if relocates and (lost or add_spare.key in draft.retries):
        relocate(draft, member, Reason(why=Why.RELOCATE, message=reason.message))
    elif not lost:
        draft.do(add_spare)


def relocate(draft: Draft, member: Member, reason: Reason) -> None:
    """Ask for another place for a whole slice, without those of its nodes that cannot serve."""
    part = draft.index.home(member)
    names = (*part.nodes, *part.spares)
    without = tuple(
        name
        for name in names
        if name in draft.failed_nodes or name in draft.seen.drained or not draft.sees(name) or part.key in draft.moving
    )
    draft.do(Relocate(reason=reason, slice=part.key, without=without))
