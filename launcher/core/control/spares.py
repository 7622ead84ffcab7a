"""Who takes the seat of a node that cannot keep it: a spare, another node of the rack, or a slice somewhere else."""

from launcher.core.control.liveness import EXPIRED, quiet
from launcher.core.control.state import Draft
from launcher.core.model.actions import Enlist, Reason, Relocate, Why
from launcher.core.model.inventory import NodeName
from launcher.core.model.run import Cause, Evidence, Member, Outcome
from launcher.core.model.task import OnNoSpare


def free(draft: Draft, member: Member) -> list[NodeName]:
    """Answer the nodes that could take a seat now, the best first: those of its slice, then spares that its rack has
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
        if name not in draft.holders and name not in draft.condemned and name not in draft.seen.drained
    ]
    # One that is out of sight for a moment may be waited for; one that stays so is as good as not there.
    usable = [name for name in usable if draft.sees(name) or quiet(draft.seen, draft.since, name) < EXPIRED]
    return sorted(usable, key=lambda name: not draft.sees(name))


def swap(draft: Draft, member: Member, why: Why, words: str, evidence: Evidence) -> None:
    """Give a seat to another node and fence the old one; without one, do as the policy says."""
    seat = draft.seats[member.name]
    found = free(draft, member)
    if not found:
        _bereft(draft, member, evidence)
        return
    if not draft.sees(found[0]):
        # It may never be seen again, and then the seat would have no node at all.
        draft.break_gang_of(member, Reason(why=why, words=words))
        draft.waiting_for = f"{member.name} waits for {found[0]}, which cannot be seen: {words}"
        return
    reason = Reason(why=why, words=f"{words}; {found[0]} takes its seat")
    draft.break_gang_of(member, reason)
    if seat.node in draft.asked:
        draft.fence_seat(member, reason)
    nodes = draft.index.nodes
    if (nodes[seat.node].rack, nodes[seat.node].domain) != (nodes[found[0]].rack, nodes[found[0]].domain):
        # Ray's groups are pinned to the place that they were made in.
        draft.stale.update(one.slice_key for one in draft.index.crew(member))
    draft.retries.pop(f"enlist:{draft.index.home(member).key}", None)
    draft.give(member, found[0])


def _bereft(draft: Draft, member: Member, evidence: Evidence) -> None:
    gang, part, seat = draft.gang_of(member), draft.index.home(member), draft.seats[member.name]
    started = draft.gangs[gang].epoch > 0
    words = f"{seat.node}: {evidence.words}, and no spare is left in {part.place}"
    policy = draft.index.policy(draft.index.lead(member)).on_no_spare
    if not started or policy is OnNoSpare.FAIL:
        cause = Cause.EXHAUSTED if started else evidence.cause
        draft.end(Outcome(cause=cause, words=words, member=member.name, node=seat.node, tail=evidence.tail))
        return
    draft.break_gang_of(member, Reason(why=Why.SWAP, words=words))
    ask(draft, member, Reason(why=Why.SWAP, words=words))
    draft.waiting_for = f"{member.name} waits for a node: {words}"


def ask(draft: Draft, member: Member, reason: Reason) -> None:
    """Ask for one more node in the rack of a slice; where there is none, or the rack is lost, for another place, if the
    policy has it so."""
    part = draft.index.home(member)
    for name in (*part.nodes, *part.spares):
        if name in draft.holders or name in draft.condemned or name in draft.seen.drained or draft.sees(name):
            continue
        away = quiet(draft.seen, draft.since, name)
        if away < EXPIRED:
            return  # one that is out of sight for a moment is waited for
        words = f"out of sight for {away:.0f} s when it was needed"
        draft.condemn(name, Evidence(cause=Cause.PROVISION, words=words, mends=True))
    enlist = Enlist(reason=reason, slice=part.key)
    lost = not any(draft.sees(name) for name in (*part.nodes, *part.spares))
    relocates = draft.index.policy(draft.index.lead(member)).on_no_spare is OnNoSpare.RELOCATE
    if relocates and (lost or enlist.key in draft.retries):
        relocate(draft, member, Reason(why=Why.RELOCATE, words=reason.words))
    elif not lost:
        draft.do(enlist)


def relocate(draft: Draft, member: Member, reason: Reason) -> None:
    """Ask for another place for a whole slice, without those of its nodes that cannot serve."""
    part = draft.index.home(member)
    names = (*part.nodes, *part.spares)
    without = tuple(
        name
        for name in names
        if name in draft.condemned or name in draft.seen.drained or not draft.sees(name) or part.key in draft.moving
    )
    draft.do(Relocate(reason=reason, slice=part.key, without=without))
