"""Nodes that fail: fence, start again in place, give the slot to another node, or give the node up."""

from launcher.core.control.conditions import Condition
from launcher.core.control.drain import drain
from launcher.core.control.fault_attribution import unclear
from launcher.core.control.fencing import kill_all, lose_silent, note_stopped, settle
from launcher.core.control.head_failover import keep_head
from launcher.core.control.launch_timeout import CONNECT_GRACE, launching, wait_for_node
from launcher.core.control.liveness import SELF_STOP
from launcher.core.control.receipts import blame
from launcher.core.control.spares import swap
from launcher.core.control.state import Draft
from launcher.core.model.actions import Reason, Release, Unit, Why
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Phase, Seen, Unseen
from launcher.core.model.record import Evidence
from launcher.core.model.run import Cause, Member, Slot

# How long a live raylet may be missing in Ray's table before it counts as lost (s): `ray start` itself gives up
# after 30 s, and Ray needs up to 18 s to notice that a silent one is gone.
JOIN_GRACE = 90.0
# How long a node has to serve until its failed attempts are forgotten (s).
PROVEN = 600.0
# How long Ray may hold a raylet for dead that runs (s): one that can, ends itself when it learns of it.
DISOWNED_GRACE = 5.0


def recover(draft: Draft) -> None:
    """Decide of each node whether it still serves, who has its slot if not, and fence what must not go on."""
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
        draft.waiting_for = f"{draft.verdict.message}; `nvlaunch resume` or `relocate` says how to go on"
    _fence_strays(draft)
    settle(draft)
    draft.settle()
    kill_all(draft)
    _let_go(draft)


def _give_up_on_silence(draft: Draft) -> None:
    """A node that was never ours and cannot be reached is left alone after a while; one that was ours never is.

    A launch has a spare only once it has its lease, and it waits for that of every node.
    """
    for name in draft.index.kept:
        held = draft.holders.get(name)
        if held and launching(draft, draft.index.by_name[held]):
            continue  # it is waited for, or not, with its slot
        ours = draft.requested if held or draft.started else draft.leased
        if name in draft.failed_nodes or name in ours or f"unseen:{name}" not in draft.since:
            continue
        draft.wake(draft.since[f"unseen:{name}"] + CONNECT_GRACE)
        if draft.lasted(f"unseen:{name}") >= CONNECT_GRACE:
            view = draft.seen.nodes[name]
            message = f"connect: out of reach for {CONNECT_GRACE:.0f} s: {getattr(view, 'message', '')}"
            draft.fail_node(name, Evidence(cause=Cause.PROVISION, message=message))


def _judge_spares(draft: Draft) -> None:
    """A spare whose agent is gone has lost its lease: claim it again, as often as a node may be tried."""
    for name in draft.index.kept:
        if name in draft.holders or name in draft.failed_nodes or name in draft.seen.drained:
            continue
        view = draft.seen.nodes.get(name)
        if signs := draft.signs(name):
            tail = tuple(sign.message for sign in signs)
            draft.fail_node(name, Evidence(cause=Cause.NODE, message=tail[0], tail=tail, mends=True))
        elif name in draft.leased and isinstance(view, Seen) and view.agent is None:
            draft.leased.discard(name)
            blame(draft, name, Evidence(cause=Cause.EXHAUSTED, message="its agent is gone"))


def _fence_strays(draft: Draft) -> None:
    """A rank that is over and runs came up behind its fence, from a `Start` that was given up or whose controller
    died: fence it again."""
    for member in draft.members:
        gang, agent = draft.gangs[draft.gang_of(member)], draft.agent(draft.slots[member.name].node)
        for rank in agent.ranks if agent else ():
            over = rank.attempt < gang.attempt or gang.broken
            if rank.member == member.name and rank.running and over:
                reason = gang.broken or Reason(
                    why=Why.RESTART, message=f"attempt {rank.attempt} of {member.name} is over"
                )
                draft.fence_rank(member, rank.attempt, reason)


def _replace(draft: Draft, member: Member) -> None:
    """Judge a slot's node, and give the slot to another when the node is failed or has to be left."""
    slot = draft.slots[member.name]
    if slot.node not in draft.failed_nodes and slot.node not in draft.leaving:
        _judge_node(draft, member, slot)
    if slot.node not in draft.failed_nodes and slot.node not in draft.leaving:
        return
    if draft.needed(member) in (Condition.FINISHED, Condition.FAILED):
        return
    if slot.node in draft.failed_nodes:
        evidence = draft.failed_nodes[slot.node]
        swap(draft, member, Why.REPLACE, f"{slot.node}: {evidence.message}", evidence)
    else:
        drained = draft.seen.drained.get(slot.node)
        why = Why.DRAIN if drained is not None else Why.RELOCATE
        message = f"drained: {drained}" if drained is not None else f"{member.slice_key} goes elsewhere"
        swap(draft, member, why, f"{slot.node}: {message}", Evidence(cause=Cause.NODE, message=message))


def _judge_node(draft: Draft, member: Member, slot: Slot) -> None:
    if wait_for_node(draft, member) or slot.node in draft.failed_nodes:
        return
    view, condition = draft.seen.nodes.get(slot.node), draft.needed(member)
    proven = slot.node in draft.stopped and condition in (Condition.SUSPECT, Condition.UNSEEN)
    if proven or (condition is Condition.DOWN and not unclear(draft, slot.node)):
        lose_silent(draft, slot.node)
        return
    if _dead_in_ray(draft, member, slot, condition):
        _lose(draft, member, slot, "Ray holds its raylet for dead", ())
        return
    joining = f"joining:{member.name}#{slot.generation}"
    # While Ray cannot be asked, that it does not know a raylet says nothing.
    if condition is Condition.JOINING and draft.head():
        draft.wake(draft.seen.at - draft.lasted(joining) + JOIN_GRACE)
        if draft.lasted(joining) >= JOIN_GRACE:
            _lose(draft, member, slot, f"its raylet did not appear in Ray within {JOIN_GRACE:.0f} s", ())
        return
    draft.since.pop(joining, None)
    if condition is not Condition.LOST or not isinstance(view, Seen):
        return
    if view.agent is None:
        _lose(draft, member, slot, "its agent is gone", ())
    elif view.agent.setup.phase is Phase.FAILED:
        # The same script on the same node fails again: only another node can tell whose fault it is.
        setup = view.agent.setup
        message = f"{setup.message or 'setup'}: exited with {setup.exit_code}"
        draft.fail_node(slot.node, Evidence(cause=Cause.PROVISION, message=message, tail=view.agent.setup.tail))
    else:
        ray = view.agent.ray
        _lose(draft, member, slot, f"its raylet ended with {ray.exit_code}", ray.tail)


def _dead_in_ray(draft: Draft, member: Member, slot: Slot, condition: Condition) -> bool:
    """Whether Ray has given up a raylet that its agent sees run: stopped, or behind a link that was down."""
    key, agent = f"dead_in_ray:{member.name}#{slot.generation}", draft.agent(slot.node)
    dead = draft.ray.get((member.slot, slot.generation)) is False
    runs = agent is not None and agent.ray.phase is Phase.RUNNING and agent.ray.generation == slot.generation
    if not dead or not runs or condition not in (Condition.SERVING, Condition.JOINING):
        draft.since.pop(key, None)
        return False
    draft.wake(draft.seen.at - draft.lasted(key) + DISOWNED_GRACE)
    if draft.lasted(key) < DISOWNED_GRACE:
        return False
    del draft.since[key]
    return True


def _lose(draft: Draft, member: Member, slot: Slot, message: str, tail: tuple[str, ...]) -> None:
    """A node failed under its slot: fence it, then start again on it, or fail it when its attempts are used up."""
    reason = Reason(why=Why.REJOIN, message=f"{slot.node}: {message}")
    draft.break_gang_of(member, reason)
    draft.fence_slot(member, reason)
    draft.leased.discard(slot.node)
    cause = Cause.EXHAUSTED if draft.gangs[draft.gang_of(member)].attempt > 0 else Cause.PROVISION
    times = draft.node_attempts.get(slot.node, 0) + 1
    if not _cut_off(draft, slot.node):
        blame(draft, slot.node, Evidence(cause=cause, message=f"{message} ({times} times)", tail=tail))
    if slot.node not in draft.failed_nodes:
        draft.give(member, slot.node)


def _forgive(draft: Draft, member: Member) -> None:
    """Forget the attempts of a node that has served for long: what goes wrong each day is no node that cannot start."""
    node = draft.slots[member.name].node
    serves = f"serves:{node}"
    if node not in draft.node_attempts or draft.needed(member) is not Condition.SERVING:
        draft.since.pop(serves, None)
    elif draft.lasted(serves) >= PROVEN:
        del draft.node_attempts[node], draft.since[serves]


def _cut_off(draft: Draft, node: NodeName) -> bool:
    """Whether a node has done what it must when the head's host is silent: it is not to blame for that."""
    agent = draft.agent(node)
    return node != draft.head_node and (
        isinstance(draft.seen.head, Unseen)
        or (agent is not None and agent.head_silent is not None and agent.head_silent >= SELF_STOP)
    )


def _let_go(draft: Draft) -> None:
    """A node that is not used any more is killed clean and its lease given back, once its fences are through."""
    fenced = {kill.node for kill in draft.kills.values()}
    for name, message in _unused(draft).items():
        if name not in fenced and draft.release(name, Reason(why=Why.REPLACE, message=f"{name} {message}")):
            draft.leased.discard(name)
    for machine in draft.heads:
        if machine is not None and draft.sees(machine):
            reason = Reason(why=Why.HEAD, message=f"the head is not on {machine} any more")
            draft.do(Release(reason=reason, node=machine, unit=Unit.HEAD))


def _unused(draft: Draft) -> dict[NodeName, str]:
    """Return the nodes that the run has and does not use, and why."""
    found = {name: f"is failed: {evidence.message}" for name, evidence in draft.failed_nodes.items()}
    for name, reason in draft.seen.drained.items():
        if name in draft.index.kept and name not in draft.holders:
            found.setdefault(name, f"is drained: {reason}")
    if len(draft.index.kept) < len(draft.index.nodes):
        for name in draft.index.nodes:
            if name not in draft.index.kept and name not in draft.holders:
                found.setdefault(name, "is not of the run any more")
    return found
