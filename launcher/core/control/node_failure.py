"""Nodes that fail: fence, start again in place, give the seat to another node, or give the node up."""

from launcher.core.control.conditions import Condition
from launcher.core.control.crowd import sweep_all
from launcher.core.control.drain import drain
from launcher.core.control.fault_attribution import unclear
from launcher.core.control.fencing import lose_silent, note_stopped, settle
from launcher.core.control.head_failover import keep_head
from launcher.core.control.launch_timeout import CONNECT_GRACE, bide, launching
from launcher.core.control.liveness import SELF_STOP
from launcher.core.control.receipts import blame
from launcher.core.control.spares import swap
from launcher.core.control.state import Draft
from launcher.core.model.actions import Reason, Unclaim, Unit, Why
from launcher.core.model.inventory import NodeName
from launcher.core.model.observation import Phase, Seen, Unseen
from launcher.core.model.run import Cause, Evidence, Member
from launcher.core.model.slots import Seat

# How long a live raylet may be missing in Ray's table before it counts as lost (s): `ray start` itself gives up
# after 30 s, and Ray needs up to 18 s to notice that a silent one is gone.
JOIN_GRACE = 90.0
# How long a node has to serve until its failed attempts are forgotten (s).
PROVEN = 600.0
# How long Ray may hold a raylet for dead that runs (s): one that can, ends itself when it learns of it.
DISOWNED_GRACE = 5.0


def recover(draft: Draft) -> None:
    """Decide of each node whether it still serves, who has its seat if not, and fence what must not go on."""
    note_stopped(draft)
    if draft.verdict is None:
        _give_up_on_silence(draft)
        _judge_spares(draft)
        drain(draft)
        for member in draft.members:
            _replace(draft, member)
            _forgive(draft, member)
        keep_head(draft)
    else:
        draft.waiting_for = f"{draft.verdict.words}; `nvlaunch resume` or `relocate` says how to go on"
    _fence_strays(draft)
    settle(draft)
    draft.settle()
    sweep_all(draft)
    _let_go(draft)


def _give_up_on_silence(draft: Draft) -> None:
    """A node that was never ours and cannot be reached is left alone after a while; one that was ours never is.

    A launch has a spare only once it has its lease, and it waits for that of every node.
    """
    for name in draft.index.kept:
        held = draft.holders.get(name)
        if held and launching(draft, draft.index.by_name[held]):
            continue  # it is waited for, or not, with its seat
        ours = draft.asked if held or draft.started else draft.claimed
        if name in draft.condemned or name in ours or f"unseen:{name}" not in draft.since:
            continue
        draft.wake(draft.since[f"unseen:{name}"] + CONNECT_GRACE)
        if draft.lasted(f"unseen:{name}") >= CONNECT_GRACE:
            view = draft.seen.nodes[name]
            words = f"connect: out of reach for {CONNECT_GRACE:.0f} s: {getattr(view, 'words', '')}"
            draft.condemn(name, Evidence(cause=Cause.PROVISION, words=words))


def _judge_spares(draft: Draft) -> None:
    """A spare whose keeper is gone has lost its lease: claim it again, as often as a node may be tried."""
    for name in draft.index.kept:
        if name in draft.holders or name in draft.condemned or name in draft.seen.drained:
            continue
        view = draft.seen.nodes.get(name)
        if signs := draft.signs(name):
            tail = tuple(sign.words for sign in signs)
            draft.condemn(name, Evidence(cause=Cause.NODE, words=tail[0], tail=tail, mends=True))
        elif name in draft.claimed and isinstance(view, Seen) and view.keeper is None:
            draft.claimed.discard(name)
            blame(draft, name, Evidence(cause=Cause.EXHAUSTED, words="its keeper is gone"))


def _fence_strays(draft: Draft) -> None:
    """A rank that is over and runs came up behind its fence, from a `Start` that was given up or whose controller
    died: fence it again."""
    for member in draft.members:
        gang, keeper = draft.gangs[draft.gang_of(member)], draft.keeper(draft.seats[member.name].node)
        for rank in keeper.ranks if keeper else ():
            over = rank.epoch < gang.epoch or gang.broken
            if rank.member == member.name and rank.running and over:
                reason = gang.broken or Reason(why=Why.RESTART, words=f"epoch {rank.epoch} of {member.name} is over")
                draft.fence_rank(member, rank.epoch, reason)


def _replace(draft: Draft, member: Member) -> None:
    """Judge a seat's node, and give the seat to another when the node is condemned or has to be left."""
    seat = draft.seats[member.name]
    if seat.node not in draft.condemned and seat.node not in draft.leaving:
        _judge_node(draft, member, seat)
    if seat.node not in draft.condemned and seat.node not in draft.leaving:
        return
    if draft.needed(member) in (Condition.FINISHED, Condition.FAILED):
        return
    if seat.node in draft.condemned:
        evidence = draft.condemned[seat.node]
        swap(draft, member, Why.SWAP, f"{seat.node}: {evidence.words}", evidence)
    else:
        drained = draft.seen.drained.get(seat.node)
        why = Why.DRAIN if drained is not None else Why.RELOCATE
        words = f"drained: {drained}" if drained is not None else f"{member.slice_key} goes elsewhere"
        swap(draft, member, why, f"{seat.node}: {words}", Evidence(cause=Cause.NODE, words=words))


def _judge_node(draft: Draft, member: Member, seat: Seat) -> None:
    if bide(draft, member) or seat.node in draft.condemned:
        return
    view, condition = draft.seen.nodes.get(seat.node), draft.needed(member)
    proven = seat.node in draft.stopped and condition in (Condition.SUSPECT, Condition.UNSEEN)
    if proven or (condition is Condition.DOWN and not unclear(draft, seat.node)):
        lose_silent(draft, seat.node)
        return
    if _disowned(draft, member, seat, condition):
        _lose(draft, member, seat, "Ray holds its raylet for dead", ())
        return
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


def _disowned(draft: Draft, member: Member, seat: Seat, condition: Condition) -> bool:
    """Answer whether Ray has given up a raylet that its keeper sees run: stopped, or behind a link that was down."""
    key, keeper = f"disowned:{member.name}#{seat.generation}", draft.keeper(seat.node)
    dead = draft.ray.get((member.seat, seat.generation)) is False
    runs = keeper is not None and keeper.ray.phase is Phase.RUNNING and keeper.ray.generation == seat.generation
    if not dead or not runs or condition not in (Condition.SERVING, Condition.JOINING):
        draft.since.pop(key, None)
        return False
    draft.wake(draft.seen.at - draft.lasted(key) + DISOWNED_GRACE)
    if draft.lasted(key) < DISOWNED_GRACE:
        return False
    del draft.since[key]
    return True


def _lose(draft: Draft, member: Member, seat: Seat, words: str, tail: tuple[str, ...]) -> None:
    """A node failed under its seat: fence it, then start again on it, or condemn it when its attempts are used up."""
    reason = Reason(why=Why.REJOIN, words=f"{seat.node}: {words}")
    draft.break_gang_of(member, reason)
    draft.fence_seat(member, reason)
    draft.claimed.discard(seat.node)
    cause = Cause.EXHAUSTED if draft.gangs[draft.gang_of(member)].epoch > 0 else Cause.PROVISION
    times = draft.attempts.get(seat.node, 0) + 1
    if not _cut_off(draft, seat.node):
        blame(draft, seat.node, Evidence(cause=cause, words=f"{words} ({times} times)", tail=tail))
    if seat.node not in draft.condemned:
        draft.give(member, seat.node)


def _forgive(draft: Draft, member: Member) -> None:
    """Forget the attempts of a node that has served for long: what goes wrong each day is no node that cannot start."""
    node = draft.seats[member.name].node
    serves = f"serves:{node}"
    if node not in draft.attempts or draft.needed(member) is not Condition.SERVING:
        draft.since.pop(serves, None)
    elif draft.lasted(serves) >= PROVEN:
        del draft.attempts[node], draft.since[serves]


def _cut_off(draft: Draft, node: NodeName) -> bool:
    """Answer whether a node has done what it must when the head's host is silent: it is not to blame for that."""
    keeper = draft.keeper(node)
    return node != draft.head_node and (
        isinstance(draft.seen.head, Unseen)
        or (keeper is not None and keeper.head_silent is not None and keeper.head_silent >= SELF_STOP)
    )


def _let_go(draft: Draft) -> None:
    """A node that is not used any more is swept clean and its lease given back, once its fences are through."""
    fenced = {sweep.node for sweep in draft.sweeps.values()}
    for name, words in _unused(draft).items():
        if name not in fenced and draft.release(name, Reason(why=Why.SWAP, words=f"{name} {words}")):
            draft.claimed.discard(name)
    for machine in draft.heads:
        if machine is not None and draft.sees(machine):
            reason = Reason(why=Why.HEAD, words=f"the head is not on {machine} any more")
            draft.do(Unclaim(reason=reason, node=machine, unit=Unit.HEAD))


def _unused(draft: Draft) -> dict[NodeName, str]:
    """Answer the nodes that the run has and does not use, and why."""
    found = {name: f"is condemned: {evidence.words}" for name, evidence in draft.condemned.items()}
    for name, reason in draft.seen.drained.items():
        if name in draft.index.kept and name not in draft.holders:
            found.setdefault(name, f"is drained: {reason}")
    if len(draft.index.kept) < len(draft.index.nodes):
        for name in draft.index.nodes:
            if name not in draft.index.kept and name not in draft.holders:
                found.setdefault(name, "is not of the run any more")
    return found
