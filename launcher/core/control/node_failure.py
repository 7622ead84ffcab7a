"""Failed nodes: restart in place, replace, or give up."""

from launcher.core.control import drain_notice, fencing, shared_fault, spares
from launcher.core.control.blame.slow_node import fail_slow
from launcher.core.control.conditions import Condition, needed, serves
from launcher.core.control.liveness import against
from launcher.core.control.slots.handover import give
from launcher.core.control.startup import wait_for_node
from launcher.core.control.state import Tick
from launcher.core.control.timing import DEAD_IN_RAY_S, JOIN_S, PROVEN_S, SELF_STOP_S
from launcher.core.model.actions import Reason, Why
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Phase, Unseen
from launcher.core.model.record import Evidence
from launcher.core.model.run import Cause, Member, Slot
from launcher.core.model.text import count


def replace_nodes(tick: Tick) -> None:
    """Judge the node of each slot, and replace it if it has failed or has to be left.

    One slot after the other, judged and replaced: the spare that one slot takes cannot serve the next.

    Reads `leaving`, conditions, `seen`. Writes `record.failed_nodes`, `node_attempts`, `stopped`, `slots` and their
    timers, `gangs` (attempts end), `stale`, `leased`, the outcome; `holders`, `kills`, `actions`, `awaited`,
    `hold_reason`.
    """
    for member in tick.index.members:
        slot = tick.record.slots[member.name]
        if _undisturbed(tick, member, slot):
            continue
        if not _must_leave(tick, slot.node):
            _judge(tick, member, slot)
        if _must_leave(tick, slot.node) and needed(tick, member) not in (Condition.FINISHED, Condition.FAILED):
            _replace(tick, member, slot.node)
        _forget_attempts(tick, member)


def _undisturbed(tick: Tick, member: Member, slot: Slot) -> bool:
    """Whether a slot serves on a node that it keeps, and no timer of either runs: there is nothing to judge."""
    record, since, node = tick.record, tick.record.since, slot.node
    if node in tick.leaving or tick.in_ray(member) is False:
        return False
    if node in record.node_attempts or node in since.serving:
        return False
    if member.name in since.joining or member.name in since.dead_in_ray:
        return False
    return serves(tick, member)


def _must_leave(tick: Tick, node: NodeName) -> bool:
    return node in tick.record.failed_nodes or node in tick.leaving


def _replace(tick: Tick, member: Member, node: NodeName) -> None:
    fail_slow(tick, node)
    if (evidence := tick.record.failed_nodes.get(node)) is not None:
        spares.replace_node(tick, member, Why.REPLACE, f"{node}: {evidence.message}", evidence)
        return
    drained = tick.seen.drained.get(node)
    why = Why.DRAIN if drained is not None else Why.RELOCATE
    message = f"drained: {drained}" if drained is not None else f"{member.slice_key} is relocated"
    spares.replace_node(tick, member, why, f"{node}: {message}", Evidence(cause=Cause.NODE, message=message))


def _judge(tick: Tick, member: Member, slot: Slot) -> None:
    if wait_for_node(tick, member) or slot.node in tick.record.failed_nodes:
        return
    if tick.sees(slot.node) and drain_notice.expected(tick, member, slot):
        return
    condition = needed(tick, member)
    confirmed = slot.node in tick.record.stopped and condition in (Condition.SUSPECT, Condition.UNSEEN)
    down = condition is Condition.DOWN and not shared_fault.neighbour_unclear(tick, slot.node)
    if confirmed or down:
        _fail_silent(tick, slot.node)
    elif _dead_in_ray(tick, member, slot, condition):
        _lose(tick, member, slot, "Ray lists its raylet as dead", ())
    elif condition is Condition.JOINING and tick.head():
        # While Ray cannot be asked, it says nothing that it does not list a raylet.
        joining = tick.lasted(tick.record.since.joining, member.name)
        tick.wake(tick.seen.at - joining + JOIN_S)
        if joining >= JOIN_S:
            _lose(tick, member, slot, f"raylet did not join Ray within {JOIN_S:.0f} s", ())
    else:
        tick.record.since.joining.pop(member.name, None)
        if condition is Condition.LOST:
            _judge_lost(tick, member, slot)


def _judge_lost(tick: Tick, member: Member, slot: Slot) -> None:
    agent = tick.agent(slot.node)
    if agent is None:
        _lose(tick, member, slot, "agent is not running", ())
    elif agent.setup.phase is Phase.FAILED:
        # The same script on the same node fails again: only another node can tell whose fault it is.
        message = f"{agent.setup.message or 'setup'}: exited with {agent.setup.exit_code}"
        if agent.fault:
            _fail_unfit(tick, slot, f"{message}: {agent.fault}", agent.setup.tail)
        else:
            tick.fail_node(slot.node, Evidence(cause=Cause.PROVISION, message=message, tail=agent.setup.tail))
    elif agent.fault:
        _fail_unfit(tick, slot, f"raylet exited with {agent.ray.exit_code}: {agent.fault}", agent.ray.tail)
    else:
        _lose(tick, member, slot, f"raylet exited with {agent.ray.exit_code}", agent.ray.tail)


def _fail_unfit(tick: Tick, slot: Slot, message: str, tail: tuple[str, ...]) -> None:
    """Fail a node at once that says that it is to blame itself: another try there would end like this one."""
    evidence = Evidence(cause=Cause.PROVISION, message=message, tail=tail, mends=True, unfit=True)
    tick.fail_node(slot.node, evidence)


def _fail_silent(tick: Tick, node: NodeName) -> None:
    """Fail a silent node once it is proven that nothing runs there.

    Without proof it is powered off, where the inventory says how.
    """
    proof, record = fencing.proof(tick, node), tick.record
    message = f"NotReady: {fencing.no_contact(tick, node)}"
    if proof is None:
        others = "; ".join(against(tick.seen, node, head=tick.head_node))
        fencing.power_off_silent(tick, node, f"{message}; {others}" if others else message)
        return
    if tick.started or node in record.joined:
        record.stopped[node] = proof  # until it is seen again: the end of the run need not wait for it
    attempts = record.node_attempts[node] = record.node_attempts.get(node, 0) + 1
    mends = attempts <= tick.index.node_attempts(node)
    tick.fail_node(node, Evidence(cause=Cause.NODE, message=f"{message}; {proof}", mends=mends))


def _dead_in_ray(tick: Tick, member: Member, slot: Slot, condition: Condition) -> bool:
    """Whether Ray lists the raylet as dead although its agent sees it run.

    It was stopped, or its link was down.
    """
    dead, agent = tick.record.since.dead_in_ray, tick.agent(slot.node)
    listed = tick.in_ray(member) is False
    runs = agent is not None and agent.ray.phase is Phase.RUNNING and agent.ray.generation == slot.generation
    if not listed or not runs or condition not in (Condition.SERVING, Condition.JOINING):
        dead.pop(member.name, None)
        return False
    lasted = tick.lasted(dead, member.name)
    tick.wake(tick.seen.at - lasted + DEAD_IN_RAY_S)
    if lasted < DEAD_IN_RAY_S:
        return False
    del dead[member.name]
    return True


def _lose(tick: Tick, member: Member, slot: Slot, message: str, tail: tuple[str, ...]) -> None:
    """End the attempt on a node that failed: start there again, or fail the node."""
    reason, record = Reason(why=Why.REJOIN, message=f"{slot.node}: {message}"), tick.record
    tick.break_gangs_at(member, reason)
    tick.kill_slot(member, reason)
    record.leased.discard(slot.node)
    cause = Cause.EXHAUSTED if tick.gang_of(member).attempt > 0 else Cause.PROVISION
    times = record.node_attempts.get(slot.node, 0) + 1
    if not _cut_off(tick, slot.node):
        tick.blame(slot.node, Evidence(cause=cause, message=f"{message} ({count(times, 'time')})", tail=tail))
    if slot.node not in record.failed_nodes:
        give(tick, member, slot.node)


def _cut_off(tick: Tick, node: NodeName) -> bool:
    """Whether a node has stopped because the head's machine is silent: not its fault."""
    agent = tick.agent(node)
    return node != tick.head_node and (
        isinstance(tick.seen.head, Unseen)
        or (agent is not None and agent.head_silent is not None and agent.head_silent >= SELF_STOP_S)
    )


def _forget_attempts(tick: Tick, member: Member) -> None:
    """Forget failed attempts of a node that has served for long.

    One failure a day is no broken node.
    """
    node, attempts, serving = tick.node_of(member), tick.record.node_attempts, tick.record.since.serving
    if node not in attempts or needed(tick, member) is not Condition.SERVING:
        serving.pop(node, None)
    elif tick.lasted(serving, node) >= PROVEN_S:
        del attempts[node], serving[node]
