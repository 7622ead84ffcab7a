"""The ladder: each slot goes up one rung a tick, from an unclaimed node to a running rank."""

from collections.abc import Set as AbstractSet

from launcher.core.control.conditions import Condition
from launcher.core.control.drain import at_home, draining
from launcher.core.control.fault_attribution import gathered, opened
from launcher.core.control.head_failover import begin_cluster, elsewhere
from launcher.core.control.launch_timeout import PATIENCE
from launcher.core.control.liveness import EXPIRED
from launcher.core.control.node_failure import recover
from launcher.core.control.receipts import HEAD_TRIES, misplaced_key
from launcher.core.control.state import TRIES, Draft
from launcher.core.model.actions import (
    Acquire,
    Join,
    Prepare,
    Reason,
    Release,
    Reserve,
    Start,
    StartHead,
    Unit,
    Unreserve,
    Verify,
    Why,
)
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import GroupReport, GroupState, Phase, Seen, Step, Unseen
from launcher.core.model.placement import Slice
from launcher.core.model.record import Gang, Outcome
from launcher.core.model.run import Cause, GangName, Member
from launcher.core.model.text import span

# How often in a row the head of a run is started, and does not answer, before the run is given up.
HEAD_STARTS = 5

# How long Ray may take to place a group whose slots are all alive (s); measured: milliseconds.
PLACE_GRACE = 10.0
# How often a group is taken back, before it is the run's whole Ray that is stuck.
PLACE_TRIES = 2

_BEGIN = Reason(why=Why.START, message="the run begins")
_SERVE = Reason(why=Why.START, message="it is well, and serves the run")
_HEAD = Reason(why=Why.START, message="Ray's head has ended")


def advance(draft: Draft) -> None:
    """Move everything one step towards a run in which every rank runs."""
    recover(draft)
    if draft.outcome is None and draft.verdict is None and _claim_all(draft):
        _head(draft)
        for member in draft.members:
            _rung(draft, member)
        for part in draft.run.placement.slices:
            _reserve(draft, part)
        fenced = {kill.gang for kill in draft.kills.values()}
        _take_back(draft)
        for name in draft.gangs:
            if not draft.resizing:
                _start(draft, name, fenced)


def _claim_all(draft: Draft) -> bool:
    """Ask for every lease; nothing else begins before all nodes of the run, spares too, are ours."""
    idle = draft.seen.drained.keys() - draft.holders.keys()
    wanted = [name for name in draft.index.kept if name not in draft.failed_nodes and name not in idle]
    fenced = {kill.node for kill in draft.kills.values()}
    for name in wanted:
        view = draft.seen.nodes.get(name)
        if not isinstance(view, Seen) or view.agent is not None or name in fenced:
            continue
        if view.leftovers:
            message = f"{view.leftovers} processes of the run have no agent"
            draft.do(Release(reason=Reason(why=Why.REJOIN, message=message), node=name))
        elif name not in draft.leased:
            draft.requested.add(name)
            draft.do(Acquire(reason=_SERVE if draft.started else _BEGIN, node=name))
    return all(name in draft.leased or _was_up(draft, name) for name in wanted)


def _was_up(draft: Draft, name: NodeName) -> bool:
    """Whether the run has passed its first acquire: then one node that is claimed again holds up no other."""
    return draft.started or draft.node_attempts.get(name, 0) > 0


def _head(draft: Draft) -> None:
    if draft.head_moved:
        return  # what was seen is where it was
    if draft.head_node in draft.heads:
        reason = Reason(why=Why.HEAD, message="its Ray begins anew")
        draft.do(Release(reason=reason, node=draft.head_node, unit=Unit.HEAD))
        return
    if any(draft.sees(machine) for machine in draft.heads if machine is not None):
        return  # the one before is let go of first
    if isinstance(draft.seen.head, Unseen):
        _await_head(draft, draft.seen.head)
        return
    head = draft.seen.head.head
    starts = draft.retries[HEAD_TRIES].count if HEAD_TRIES in draft.retries else 0
    if head is None and draft.seen.head.leftovers:
        draft.do(Release(reason=_BEGIN, node=draft.head_node, unit=Unit.HEAD))
    elif draft.head():
        draft.retries.pop(HEAD_TRIES, None)
    elif head is not None and head.ray.phase not in (Phase.ABSENT, Phase.FAILED):
        return
    elif starts >= HEAD_STARTS and (draft.started or head is not None):
        _head_fails(draft, head.ray if head is not None else Step(), starts)
    else:
        draft.head_asked, draft.head_at = True, draft.head_node
        draft.do(StartHead(reason=_HEAD if draft.started else _BEGIN, cluster=draft.cluster))


def _head_fails(draft: Draft, ray: Step, starts: int) -> None:
    """Give up a launch whose head does not stay up. Ranks that run need none: it is tried again, less often; and once
    nothing runs any more, on another node."""
    how = f"ended with {ray.exit_code}" if ray.phase is Phase.FAILED else "did not start"
    if not draft.started:
        message = f"head: Ray's head {how}, {starts} times in a row"
        draft.end(Outcome(cause=Cause.PROVISION, message=message, tail=ray.tail))
        return
    message = f"Ray's head {how}, again and again"
    idle = all(gang.broken or draft.over(name) for name, gang in draft.gangs.items())
    if idle and (new := elsewhere(draft)):
        begin_cluster(draft, new, message)
        return
    again = draft.retries[HEAD_TRIES].at
    draft.wake(again)
    draft.waiting_for = draft.waiting_for or f"{message}: {'no rank runs' if idle else 'ranks go on'} without it"
    if draft.seen.at >= again:
        draft.do(StartHead(reason=_HEAD, cluster=draft.cluster))


def _await_head(draft: Draft, view: Unseen) -> None:
    """Wait for the machine of a head that was not begun yet, and give the launch up in the end."""
    away = draft.lasted("headless")
    if draft.head_asked or draft.blind():
        return
    if away >= PATIENCE:
        message = f"connect: the head is out of reach for {PATIENCE:.0f} s: {view.message}"
        draft.end(Outcome(cause=Cause.PROVISION, message=message))
    elif away >= EXPIRED:
        message = (
            f"the head is out of reach for {away // 10 * 10:.0f} s: {view.message}; given up after {span(PATIENCE)}"
        )
        draft.waiting_for = draft.waiting_for or message


def _rung(draft: Draft, member: Member) -> None:
    # Whoever sits on a node needs the same of it, and it is done once, in the name of the one whose node it is.
    slot = draft.slots[draft.index.lead(member).name]
    match draft.needed(member):
        case Condition.LEASED:
            draft.do(Prepare(reason=_why(draft, member), node=slot.node, member=slot.member))
        case Condition.PREPARED if draft.head_begun():
            draft.joined.add(slot.node)
            draft.do(Join(reason=_why(draft, member), slot=slot))
        case _:
            pass  # done, under way, or for others to decide


def _why(draft: Draft, member: Member) -> Reason:
    return draft.gangs[draft.gang_of(member)].broken or _BEGIN


def _reserve(draft: Draft, part: Slice) -> None:
    head = draft.head()
    up = (Condition.READY, Condition.SERVING, Condition.FINISHED)
    if head is None or any(draft.needed(member) not in up for member in draft.of_slice(part)):
        return
    if any(
        not at_home(draft, member) and draft.needed(member) is not Condition.FINISHED for member in draft.of_slice(part)
    ):
        return  # Ray would never have it in one place
    report = next((group for group in head.groups if group.slice == part.key), None)
    if part.key in draft.stale:
        if report is not None and report.state is not GroupState.REMOVED:
            message = f"{part.key} is in {part.place} now"
            draft.do(Unreserve(reason=Reason(why=Why.RELOCATE, message=message), slice=part.key))
            return
        draft.stale.discard(part.key)
    if report is None or report.state is GroupState.REMOVED:
        draft.verified.pop(part.key, None)  # what Ray answered was about another group
        draft.do(Reserve(reason=_why(draft, draft.of_slice(part)[0]), slice=part.key))
    elif report.state is GroupState.CREATED:
        draft.since.pop(f"placing:{part.key}", None)
        draft.retries.pop(_anew(part), None)
        if draft.verified.get(part.key) != draft.generations(part):
            _verify(draft, part, report)
    else:
        _hasten(draft, part, report)


def _take_back(draft: Draft) -> None:
    """Take back the groups of slices that the run does not have any more."""
    head = draft.head()
    for group in head.groups if head else ():
        if group.slice not in draft.index.parts and group.state is not GroupState.REMOVED:
            message = f"{group.slice} is not of the run any more"
            draft.do(Unreserve(reason=Reason(why=Why.RESIZE, message=message), slice=group.slice))


def _hasten(draft: Draft, part: Slice, report: GroupReport) -> None:
    """Take back a group that Ray does not place although every slot is alive and one waits to start in it.

    Seen with Ray 2.60 after a lost raylet was replaced: RESCHEDULING, FAILED_TO_COMMIT_RESOURCES, without an end. A
    group that is taken back in that state may leave a bundle behind that nobody has, so that the next one finds no room
    (https://github.com/ray-project/ray/pull/66188): then only a new cluster helps.
    """
    placing = f"placing:{part.key}"
    conditions = {draft.condition(member) for member in draft.of_slice(part)}
    if Condition.SERVING in conditions or Condition.READY not in conditions:
        draft.since.pop(placing, None)
        return
    if draft.lasted(placing) < PLACE_GRACE:
        draft.wake(draft.since[placing] + PLACE_GRACE)
        return
    del draft.since[placing]
    if draft.back_off(_anew(part)) > PLACE_TRIES:
        message = f"Ray places {part.key} nowhere, asked {PLACE_TRIES + 1} times: its Ray begins anew"
        begin_cluster(draft, draft.head_node, message)
        return
    message = (
        f"Ray has not placed {part.key} in {PLACE_GRACE:.0f} s ({report.state.value}, {report.hint or 'no reason'})"
    )
    draft.do(Unreserve(reason=Reason(why=Why.MISPLACED, message=message), slice=part.key))


def _anew(part: Slice) -> str:
    """Return under which key it is counted how often the group of a slice was taken back in a row."""
    return f"anew:{part.key}"


def _verify(draft: Draft, part: Slice, report: GroupReport) -> None:
    """Ask Ray afresh before any rank starts; a slice that is seen outside its domain is taken back."""
    outside = [b for b in report.bundles if part.domain is not None and b.domain not in (None, part.domain)]
    wrong = draft.retries.get(misplaced_key(part.key))
    if outside or (wrong and wrong.count >= TRIES):
        draft.retries.pop(misplaced_key(part.key), None)
        found = ", ".join(sorted({b.domain or "no domain" for b in report.bundles}))
        message = f"Ray has {part.key} in {found}, not on its slots in {part.place}"
        draft.do(Unreserve(reason=Reason(why=Why.MISPLACED, message=message), slice=part.key))
    else:
        draft.do(Verify(reason=_why(draft, draft.of_slice(part)[0]), slice=part.key))


def _start(draft: Draft, name: GangName, fenced: AbstractSet[GangName]) -> None:
    """Start a gang when every slot is ready, every slice is verified and every fence of the gang has its receipt."""
    gang, members = draft.gangs[name], draft.of_gang(name)
    if draft.head() is None or name in fenced:
        return
    conditions = [draft.condition(member) for member in members]
    if not (gang.attempt == 0 or gang.broken or Condition.READY in conditions):
        return
    if draining(name) in draft.since or (gang.broken and not gathered(draft, name)):
        return
    parts = [draft.index.parts[key] for key in dict.fromkeys(member.slice_key for member in members)]
    if any(draft.verified.get(part.key) != draft.generations(part) for part in parts):
        return
    if (gang.attempt == 0 or gang.broken) and all(state is Condition.READY for state in conditions):
        reason = gang.broken or _BEGIN
        gang = Gang(attempt=gang.attempt + 1, restarts=gang.restarts)
        draft.gangs[name] = gang
        draft.since.pop(opened(name), None)
        nodes = {draft.slots[member.name].node for member in members}
        draft.signalled -= nodes | {f"{node}:{name}" for node in nodes}
    elif _half_begun(gang, conditions):
        reason = _BEGIN  # the intent is journalled, its effect is not seen: act again, under the same attempt
    else:
        return
    slots = tuple(draft.slots[member.name] for member in draft.members)
    draft.do(Start(reason=reason, gang=name, attempt=gang.attempt, restarts=gang.restarts, slots=slots))


def _half_begun(gang: Gang, conditions: list[Condition]) -> bool:
    """Whether an attempt was claimed and some of its ranks, all of which we see, are still only ready."""
    begun = (Condition.SERVING, Condition.FINISHED, Condition.FAILED, Condition.READY)
    known = all(condition in begun for condition in conditions)
    return gang.attempt > 0 and not gang.broken and known and Condition.READY in conditions
