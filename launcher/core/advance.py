"""The ladder: each seat goes up one rung a tick, from an unclaimed node to a running rank, or sideways to a spare."""

from launcher.core.absorb import astray, blame
from launcher.core.actions import (
    Claim,
    Join,
    Level,
    Prepare,
    Reason,
    Reserve,
    Start,
    StartHead,
    Sweep,
    Unclaim,
    Unit,
    Unreserve,
    Verify,
    Why,
)
from launcher.core.condition import Condition
from launcher.core.draft import TRIES, Draft
from launcher.core.fleet import NodeName
from launcher.core.observation import GroupReport, GroupState, Head, HeadSeen, Phase, Seen, Unseen
from launcher.core.placement import Slice
from launcher.core.run import Cause, Evidence, Gang, Member, Outcome
from launcher.core.seat import GangName, Seat
from launcher.core.task import OnNoSpare

# How long a machine that was never ours may be out of reach before the launch goes on, or ends, without it (s).
CONNECT_GRACE = 30.0
# How long a live raylet may be missing in Ray's table before it counts as lost (s): `ray start` itself gives up
# after 30 s, and Ray needs up to 18 s to notice that a silent one is gone.
JOIN_GRACE = 90.0

# How often the head of a run is started before the run is given up; its storage survives each start.
HEAD_STARTS = 5

_BEGIN = Reason(why=Why.START, words="the run begins")


def advance(draft: Draft) -> None:
    """Move everything one step towards a run in which every rank runs."""
    _give_up_on_silence(draft)
    _judge_spares(draft)
    for member in draft.members:
        _replace(draft, member)
    _fence_strays(draft)
    draft.settle()
    for sweep in draft.sweeps:
        draft.do(sweep)
    _let_go(draft)
    if draft.outcome is None and _claim_all(draft):
        _head(draft)
        for member in draft.members:
            _rung(draft, member)
        for part in draft.run.placement.slices:
            _reserve(draft, part)
        for name in draft.gangs:
            _start(draft, name)


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
    if seat.node in draft.condemned and draft.condition(member) not in (
        Condition.FINISHED,
        Condition.FAILED,
    ):
        _swap(draft, member, seat)


def _judge_node(draft: Draft, member: Member, seat: Seat) -> None:
    view, condition = draft.seen.nodes.get(seat.node), draft.condition(member)
    joining = f"joining:{member.name}#{seat.generation}"
    # While Ray cannot be asked, that it does not know a raylet says nothing.
    if condition is Condition.JOINING and _ready_head(draft):
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
        words = f"setup: exited with {view.keeper.setup.exit_code}"
        draft.condemn(seat.node, Evidence(cause=Cause.PROVISION, words=words, tail=view.keeper.setup.tail))
    else:
        ray = view.keeper.ray
        _lose(draft, member, seat, f"its raylet ended with {ray.exit_code}", ray.tail)


def _lose(draft: Draft, member: Member, seat: Seat, words: str, tail: tuple[str, ...]) -> None:
    """A node failed under its seat: fence it, then start again on it, or condemn it when its attempts are used up."""
    gang = draft.run.gang(member)
    reason = Reason(why=Why.REJOIN, words=f"{seat.node}: {words}")
    draft.break_gang(gang, reason)
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
    draft.break_gang(draft.run.gang(member), reason)
    if seat.node in draft.asked:
        _fence_node(draft, member, seat, reason)
    draft.seats[member.name] = Seat(member=member.name, node=spare, generation=seat.generation + 1)


def _bereft(draft: Draft, member: Member, seat: Seat, evidence: Evidence) -> None:
    started = draft.gangs[draft.run.gang(member)].epoch > 0
    words = f"{seat.node}: {evidence.words}, and no spare is left in {draft.run.slice_of(member).place}"
    policy = draft.run.group(member.group).recovery.on_no_spare
    if started and policy is not OnNoSpare.FAIL:
        draft.break_gang(draft.run.gang(member), Reason(why=Why.SWAP, words=words))
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


def _claim_all(draft: Draft) -> bool:
    """Ask for every lease; nothing else begins before all nodes of the run, spares too, are ours."""
    wanted = [name for name in draft.run.placement.nodes if name not in draft.condemned]
    for name in wanted:
        view = draft.seen.nodes.get(name)
        fenced = any(sweep.node == name for sweep in draft.sweeps)
        if not isinstance(view, Seen) or view.keeper is not None or fenced:
            continue
        if view.leftovers:
            words = f"{view.leftovers} processes of the run have no keeper"
            draft.do(Unclaim(reason=Reason(why=Why.REJOIN, words=words), node=name))
        elif name not in draft.claimed:
            draft.asked.add(name)
            draft.do(Claim(reason=_BEGIN, node=name))
    return all(name in draft.claimed or _was_up(draft, name) for name in wanted)


def _was_up(draft: Draft, name: NodeName) -> bool:
    """Answer whether the run has passed its first claim: then one node that is claimed again holds up no other."""
    return any(gang.epoch > 0 for gang in draft.gangs.values()) or draft.attempts.get(name, 0) > 0


def _head(draft: Draft) -> None:
    if isinstance(draft.seen.head, Unseen):
        if not draft.head_asked and draft.lasted("headless") >= CONNECT_GRACE:
            words = f"connect: the head is out of reach for {CONNECT_GRACE:.0f} s: {draft.seen.head.words}"
            draft.end(Outcome(cause=Cause.PROVISION, words=words))
        return
    head = draft.seen.head.head
    if head is None and draft.seen.head.leftovers:
        draft.do(Unclaim(reason=_BEGIN, node=draft.run.head, unit=Unit.HEAD))
    elif head is not None and head.ray.phase is Phase.FAILED and head.ray.generation >= HEAD_STARTS:
        words = f"head: Ray's head ended with {head.ray.exit_code}, {head.ray.generation} times"
        draft.end(Outcome(cause=Cause.PROVISION, words=words, tail=head.ray.tail))
    elif head is None or head.ray.phase in (Phase.ABSENT, Phase.FAILED):
        draft.head_asked = True
        draft.do(StartHead(reason=_BEGIN))


def _ready_head(draft: Draft) -> Head | None:
    """Answer the head when it can be asked and told things; None while it cannot."""
    head = draft.seen.head.head if isinstance(draft.seen.head, HeadSeen) else None
    return head if head is not None and head.ray.phase is Phase.RUNNING and head.ready else None


def _rung(draft: Draft, member: Member) -> None:
    seat = draft.seats[member.name]
    match draft.condition(member):
        case Condition.CLAIMED:
            draft.do(Prepare(reason=_why(draft, member), node=seat.node, member=member.name))
        case Condition.PREPARED if _ready_head(draft):
            draft.do(Join(reason=_why(draft, member), seat=seat))
        case _:
            pass  # done, under way, or for others to decide


def _why(draft: Draft, member: Member) -> Reason:
    return draft.gangs[draft.run.gang(member)].broken or _BEGIN


def _reserve(draft: Draft, part: Slice) -> None:
    head = _ready_head(draft)
    up = (Condition.READY, Condition.SERVING, Condition.FINISHED)
    if head is None or any(draft.condition(member) not in up for member in draft.of_slice(part)):
        return
    report = next((group for group in head.groups if group.slice == part.key), None)
    if report is None or report.state is GroupState.REMOVED:
        draft.verified.pop(part.key, None)  # what Ray answered was about another group
        draft.do(Reserve(reason=_BEGIN, slice=part.key))
    elif report.state is GroupState.CREATED and draft.verified.get(part.key) != draft.generations(part):
        _verify(draft, part, report)


def _verify(draft: Draft, part: Slice, report: GroupReport) -> None:
    """Ask Ray afresh before any rank starts; a slice that is seen outside its domain is taken back."""
    strayed = [b for b in report.bundles if part.domain is not None and b.domain not in (None, part.domain)]
    wrong = draft.retries.get(astray(part.key))
    if strayed or (wrong and wrong.count >= TRIES):
        draft.retries.pop(astray(part.key), None)
        found = ", ".join(sorted({b.domain or "no domain" for b in report.bundles}))
        words = f"Ray has {part.key} in {found}, not on its seats in {part.place}"
        draft.do(Unreserve(reason=Reason(why=Why.STRAYED, words=words), slice=part.key))
    else:
        draft.do(Verify(reason=_BEGIN, slice=part.key))


def _start(draft: Draft, name: GangName) -> None:
    """Start a gang when every seat is ready, every slice is verified and every fence of the gang has its receipt."""
    gang, members = draft.gangs[name], draft.of_gang(name)
    conditions = [draft.condition(member) for member in members]
    slices = {member.slice_key for member in members}
    parts = [part for part in draft.run.placement.slices if part.key in slices]
    if _ready_head(draft) is None or any(sweep.gang == name for sweep in draft.sweeps):
        return
    if any(draft.verified.get(part.key) != draft.generations(part) for part in parts):
        return
    if (gang.epoch == 0 or gang.broken) and all(state is Condition.READY for state in conditions):
        reason = gang.broken or _BEGIN
        gang = Gang(epoch=gang.epoch + 1, restarts=gang.restarts)
        draft.gangs[name] = gang
    elif _half_begun(gang, conditions):
        reason = _BEGIN  # the intent is journalled, its effect is not seen: act again, under the same epoch
    else:
        return
    seats = tuple(draft.seats[member.name] for member in draft.members)
    draft.do(Start(reason=reason, gang=name, epoch=gang.epoch, restarts=gang.restarts, seats=seats))


def _half_begun(gang: Gang, conditions: list[Condition]) -> bool:
    """Answer whether an epoch was claimed and some of its ranks, all of which we see, are still only ready."""
    begun = (Condition.SERVING, Condition.FINISHED, Condition.FAILED, Condition.READY)
    known = all(condition in begun for condition in conditions)
    return gang.epoch > 0 and not gang.broken and known and Condition.READY in conditions
