"""Nodes that fail: fence, start again in place, give the seat to a spare, or give the node up."""

from launcher.core.absorb import blame
from launcher.core.actions import Level, Reason, Sweep, Unclaim, Why
from launcher.core.condition import Condition
from launcher.core.draft import Draft
from launcher.core.observation import Phase, Seen
from launcher.core.run import Cause, Evidence, Member, Outcome
from launcher.core.seat import Seat
from launcher.core.task import OnNoSpare

# How long a machine that was never ours may be out of reach before the launch goes on, or ends, without it (s).
CONNECT_GRACE = 30.0
# How long a live raylet may be missing in Ray's table before it counts as lost (s): `ray start` itself gives up
# after 30 s, and Ray needs up to 18 s to notice that a silent one is gone.
JOIN_GRACE = 90.0


def recover(draft: Draft) -> None:
    """Decide of each node whether it still serves, who has its seat if not, and fence what must not go on."""
    _give_up_on_silence(draft)
    _judge_spares(draft)
    for member in draft.members:
        _replace(draft, member)
    _fence_strays(draft)
    draft.settle()
    for sweep in draft.sweeps:
        draft.do(sweep)
    _let_go(draft)


def _give_up_on_silence(draft: Draft) -> None:
    """A node that was never ours and cannot be reached is left alone after a while; one that was ours never is."""
    for name in draft.run.placement.nodes:
        if name in draft.condemned or name in draft.asked or f"unseen:{name}" not in draft.since:
            continue
        draft.wake(draft.since[f"unseen:{name}"] + CONNECT_GRACE)
        if draft.lasted(f"unseen:{name}") >= CONNECT_GRACE:
            view = draft.seen.nodes[name]
            words = f"connect: out of reach for {CONNECT_GRACE:.0f} s: {getattr(view, 'words', '')}"
            draft.condemn(name, Evidence(cause=Cause.PROVISION, words=words))


def _judge_spares(draft: Draft) -> None:
    """A spare whose keeper is gone has lost its lease: claim it again, as often as a node may be tried."""
    others = {seat.node for seat in draft.seats.values()} | draft.condemned.keys()
    for name in draft.run.placement.nodes:
        view = draft.seen.nodes.get(name)
        if name in draft.claimed and name not in others and isinstance(view, Seen) and view.keeper is None:
            draft.claimed.discard(name)
            blame(draft, name, Evidence(cause=Cause.EXHAUSTED, words="its keeper is gone"))


def _fence_strays(draft: Draft) -> None:
    """A rank that is over and runs came up behind its fence, from a `Start` that was given up or whose controller
    died: fence it again."""
    for member in draft.members:
        gang, keeper = draft.gangs[draft.run.gang(member)], draft.keeper(draft.seats[member.name].node)
        for rank in keeper.ranks if keeper else ():
            over = rank.epoch < gang.epoch or gang.broken
            if rank.member == member.name and rank.running and over:
                reason = gang.broken or Reason(why=Why.RESTART, words=f"epoch {rank.epoch} of {member.name} is over")
                draft.fence_rank(member, rank.epoch, reason)


def _replace(draft: Draft, member: Member) -> None:
    """Judge a seat's node, and give the seat to a spare of its slice when the node is condemned."""
    seat = draft.seats[member.name]
    if seat.node not in draft.condemned:
        _judge_node(draft, member, seat)
    if seat.node in draft.condemned and draft.needed(member) not in (Condition.FINISHED, Condition.FAILED):
        _swap(draft, member, seat)


def _judge_node(draft: Draft, member: Member, seat: Seat) -> None:
    view, condition = draft.seen.nodes.get(seat.node), draft.needed(member)
    joining = f"joining:{member.name}#{seat.generation}"
    # While Ray cannot be asked, that it does not know a raylet says nothing.
    if condition is Condition.JOINING and draft.head():
        draft.wake(draft.seen.at - draft.lasted(joining) + JOIN_GRACE)
        if draft.lasted(joining) >= JOIN_GRACE:
            _lose(draft, member, seat, f"its raylet did not appear in Ray within {JOIN_GRACE:.0f} s", ())
        return
    draft.since.pop(joining, None)
    if condition is not Condition.LOST or not isinstance(view, Seen):
        return
    if view.keeper is None:
        _lose(draft, member, seat, "its keeper is gone", ())
    elif view.keeper.setup.phase is Phase.FAILED:
        # The same script on the same node fails again: only another node can tell whose fault it is.
        setup = view.keeper.setup
        words = f"{setup.words or 'setup'}: exited with {setup.exit_code}"
        draft.condemn(seat.node, Evidence(cause=Cause.PROVISION, words=words, tail=view.keeper.setup.tail))
    else:
        ray = view.keeper.ray
        _lose(draft, member, seat, f"its raylet ended with {ray.exit_code}", ray.tail)


def _lose(draft: Draft, member: Member, seat: Seat, words: str, tail: tuple[str, ...]) -> None:
    """A node failed under its seat: fence it, then start again on it, or condemn it when its attempts are used up."""
    gang = draft.run.gang(member)
    reason = Reason(why=Why.REJOIN, words=f"{seat.node}: {words}")
    draft.break_gang_of(member, reason)
    _fence_node(draft, member, seat, reason)
    draft.claimed.discard(seat.node)
    cause = Cause.EXHAUSTED if draft.gangs[gang].epoch > 0 else Cause.PROVISION
    times = draft.attempts.get(seat.node, 0) + 1
    blame(draft, seat.node, Evidence(cause=cause, words=f"{words} ({times} times)", tail=tail))
    if seat.node not in draft.condemned:
        draft.seats[member.name] = Seat(member=member.name, node=seat.node, generation=seat.generation + 1)


def _fence_node(draft: Draft, member: Member, seat: Seat, reason: Reason) -> None:
    draft.fence(
        Sweep(
            reason=reason,
            node=seat.node,
            level=Level.GENERATION,
            member=member.name,
            gang=draft.run.gang(member),
            generation=seat.generation,
        )
    )


def _swap(draft: Draft, member: Member, seat: Seat) -> None:
    part = draft.run.slice_of(member)
    evidence = draft.condemned[seat.node]
    held = {other.node for other in draft.seats.values()}
    spares = [name for name in part.spares if name not in held and name not in draft.condemned]
    # One that cannot be seen now may never be again, and a seat is not taken from it: it is the last choice.
    spare = min(spares, key=lambda name: not isinstance(draft.seen.nodes.get(name), Seen), default=None)
    if spare is None:
        _bereft(draft, member, seat, evidence)
        return
    reason = Reason(why=Why.SWAP, words=f"{seat.node}: {evidence.words}; {spare} takes its seat")
    draft.break_gang_of(member, reason)
    if seat.node in draft.asked:
        _fence_node(draft, member, seat, reason)
    draft.seats[member.name] = Seat(member=member.name, node=spare, generation=seat.generation + 1)


def _bereft(draft: Draft, member: Member, seat: Seat, evidence: Evidence) -> None:
    started = draft.gangs[draft.run.gang(member)].epoch > 0
    words = f"{seat.node}: {evidence.words}, and no spare is left in {draft.run.slice_of(member).place}"
    policy = draft.run.group(member.group).recovery.on_no_spare
    if started and policy is not OnNoSpare.FAIL:
        draft.break_gang_of(member, Reason(why=Why.SWAP, words=words))
        draft.waiting_for = f"{member.name} waits for a node: {words}"
        return
    cause = Cause.EXHAUSTED if started else evidence.cause
    draft.end(Outcome(cause=cause, words=words, member=member.name, node=seat.node, tail=evidence.tail))


def _let_go(draft: Draft) -> None:
    """A condemned node is swept clean and its lease given back, once its fences are through."""
    fenced = {sweep.node for sweep in draft.sweeps}
    for name in draft.condemned:
        view = draft.seen.nodes.get(name)
        if name in fenced or not isinstance(view, Seen):
            continue
        if view.keeper is not None or view.leftovers:
            reason = Reason(why=Why.SWAP, words=f"{name} is condemned: {draft.condemned[name].words}")
            draft.do(Unclaim(reason=reason, node=name))
        elif f"claim:{name}" not in draft.seen.in_flight:
            draft.asked.discard(name)
