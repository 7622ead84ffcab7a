"""Fencing: nothing of an attempt that is over may run when the next one starts."""

from dataclasses import replace

from launcher.core.control import slice_count, spares
from launcher.core.control.liveness import HeadPlace, expired, missed_for, self_stopped
from launcher.core.control.state import Tick
from launcher.core.control.timing import (
    EXPIRED_S,
    KILL_TRIES_NOT_FREE,
    KILL_TRIES_POWER_OFF,
    KILL_TRIES_SHOWN,
    POWER_OFF_AGAIN_S,
    POWER_OFF_S,
    POWER_QUERY_S,
    UNPROVEN_S,
)
from launcher.core.model.actions import Kill, PowerOff, PowerQuery, Reason, Why
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Unseen
from launcher.core.model.receipt import Answer, Result
from launcher.core.model.record import POWERED_OFF, Evidence
from launcher.core.model.run import Cause
from launcher.core.model.task import OnNoSpare


def fence(tick: Tick) -> None:
    """Ask for every kill without a receipt; drop those on nodes proven to run nothing.

    Reads `seen`, `record`, `holders`, `retries`. Writes `kills`, `retries`, `record.stopped`, `record.since.cut`,
    `actions` and `hold_reason`.
    """
    _note_stopped(tick)
    _fence_late_ranks(tick)
    silent = {kill.node for kill in tick.kills.values() if _unseen(tick, kill.node)}
    stopped = {node for node in silent if proof(tick, node) is not None}
    for key in [key for key, kill in tick.kills.items() if kill.node in stopped]:
        tick.drop_kill(key)
    _ask(tick)


def proof(tick: Tick, node: NodeName) -> str | None:
    """Return why nothing of the run can run on a node out of sight.

    None while something may run there.

    The strongest proof first: power off, an operator's confirmation, then the self-stop of the agent. In a launch there
    may be nothing to stop yet.
    """
    if node in tick.record.stopped:
        return tick.record.stopped[node]
    if node != tick.head_node and not tick.started and node not in tick.record.joined and tick.quiet(node) >= EXPIRED_S:
        return "no raylet was started there"
    return self_stopped(tick.seen, node, HeadPlace.of(tick.head_node, tick.record, tick.index))


def no_contact(tick: Tick, node: NodeName) -> str:
    """Return for how long a node is out of sight, and how its machine keeps us out, if it does."""
    view = tick.seen.nodes.get(node)
    refusal = view.refusal if isinstance(view, Unseen) else None
    return f"no contact for {tick.quiet(node):.0f} s" + (f", {refusal.value}" if refusal else "")


def _note_stopped(tick: Tick) -> None:
    """Note which silent nodes without a slot have stopped themselves.

    The head can still prove it now; the end of the run then need not wait for them.
    """
    for node in [node for node in tick.index.nodes if _unseen(tick, node)]:
        if node not in tick.record.requested or node in tick.record.stopped:
            continue
        why = expired(tick.seen, node)
        if why is not None and node not in tick.holders and node != tick.head_node:
            tick.record.stopped[node] = why


def _fence_late_ranks(tick: Tick) -> None:
    """Kill ranks of an ended attempt that a late `Start` began after their kill."""
    for member in tick.index.members:
        agent = tick.agent(tick.node_of(member))
        if agent is None or not agent.ranks:
            continue
        gang = tick.gang_of(member)
        for rank in agent.ranks:
            if (rank.attempt < gang.attempt or gang.broken) and rank.member == member.name and rank.running:
                message = f"attempt {rank.attempt} of {member.name} is over"
                tick.kill_rank(member, rank.attempt, gang.broken or Reason(why=Why.RESTART, message=message))


def _ask(tick: Tick) -> None:
    """Ask for each kill, and tell people which fail.

    A node out of sight cannot be reached, and each try would be a line of the journal. Whether its GPUs are free
    matters only while the slot stays on the node.
    """
    for key, kill in tick.kills.items():
        if not tick.sees(kill.node):
            continue
        stays = _asks_for_gpus(tick, kill) and kill.node not in tick.record.failed_nodes
        if kill.reused and not stays:
            tick.retries.pop(key, None)  # the reason of the failures may not matter any more
        tick.kills[key] = replace(kill, reused=stays)
        tick.do(tick.kills[key])
        retry = tick.retries.get(key)
        if retry and retry.message and retry.count >= KILL_TRIES_SHOWN:
            tick.hold(f"{kill.member} waits for {kill.node}: {retry.message}")
            slot = tick.record.slots.get(kill.member)
            if retry.count >= KILL_TRIES_POWER_OFF and (slot is None or slot.node != kill.node):
                _power_off_again(tick, kill.node, retry.message)


def _power_off_again(tick: Tick, node: NodeName, message: str) -> None:
    """Power off a node that its slot has left and whose processes outlive SIGKILL.

    Nothing else proves that a process that hangs in a driver writes nothing more.
    """
    cut = tick.record.since.cut
    if tick.seen.at >= cut.get(node, -POWER_OFF_AGAIN_S) + POWER_OFF_AGAIN_S:
        cut[node] = tick.seen.at
        power_off(tick, node, message)


def query_power(tick: Tick) -> None:
    """Ask whether silent nodes are off, where the inventory says how: such a node runs nothing.

    Reads `seen`, `holders`, `record.since.unseen`, `joined` and `stopped`. Writes `actions`.
    """
    if tick.run.fleet.power_query is None:
        return
    for node in tick.record.since.unseen:
        if (node in tick.holders or node == tick.head_node) and node not in tick.record.stopped:
            missed = _missed_for(tick, node)
            if missed >= POWER_QUERY_S and _may_run(tick, node):
                message = f"{node}: no contact for {missed:.0f} s"
                tick.do(PowerQuery(reason=Reason(why=Why.REPLACE, message=message), node=node))


def apply_power_query(tick: Tick, node: NodeName) -> None:
    """Take in that a node is off; not where a witness has heard it meanwhile."""
    if _missed_for(tick, node) >= POWER_QUERY_S:
        tick.record.stopped[node] = POWERED_OFF


def _missed_for(tick: Tick, node: NodeName) -> float:
    return missed_for(tick.seen, node, quiet=tick.quiet(node), head=tick.head_node)


def _may_run(tick: Tick, node: NodeName) -> bool:
    return tick.started or node in tick.record.joined or node == tick.head_node


def power_off_silent(tick: Tick, node: NodeName, message: str) -> None:
    """Ask to power off a node that is down, once it has been missed for `POWER_OFF_S`; in the end ask a person."""
    if _missed_for(tick, node) >= POWER_OFF_S or tick.quiet(node) >= UNPROVEN_S:
        power_off(tick, node, message)


def power_off(tick: Tick, node: NodeName, message: str) -> None:
    """Ask to power off a node whose processes cannot be ended otherwise; in the end ask a person."""
    if tick.run.fleet.fence_command is not None and _may_run(tick, node):
        tick.do(PowerOff(reason=Reason(why=Why.REPLACE, message=f"{node}: {message}"), node=node))
    if tick.quiet(node) >= UNPROVEN_S:
        tick.hold(f"{node}: {message}; ranks may still run there. If it is off: nvlaunch confirm-dead {node}")


def apply_failed_kill(tick: Tick, kill: Kill, answer: Answer, count: int) -> None:
    """Take in a kill that failed `count` times in a row.

    Others that use the GPUs cost a node its slot, where another node can have it or the policy does not wait.
    """
    if answer.result is not Result.NOT_FREE or count < KILL_TRIES_NOT_FREE or not _asks_for_gpus(tick, kill):
        return
    member = tick.index.by_name[kill.member]
    policy = tick.index.policy(tick.index.node_owner(member)).on_no_spare
    waits = policy in (OnNoSpare.WAIT, OnNoSpare.SHRINK) and not slice_count.can_drop(tick, tick.index.home(member))
    spare = sum(1 for name in spares.free(tick, member) if tick.sees(name))
    owed = sum(
        1 for one in tick.index.by_slice[tick.index.home(member).key] if tick.node_of(one) in tick.record.failed_nodes
    )
    if not waits or spare > owed:
        # The node's own health says nothing of other users: nothing starts there before a person has looked.
        tick.fail_node(kill.node, Evidence(cause=Cause.NODE, message=answer.message))


def _asks_for_gpus(tick: Tick, kill: Kill) -> bool:
    """Whether a kill has to find the GPUs free.

    Its slot is still on the node, and it is the one that asks: for all members there if they start together, else each
    for its own GPUs.
    """
    member = tick.index.by_name.get(kill.member)
    if member is None:
        return False
    owner = tick.index.node_owner(member)
    return tick.holders.get(kill.node) == owner.name and (member is owner or tick.index.shares_node(member))


def _unseen(tick: Tick, node: NodeName) -> bool:
    return isinstance(tick.seen.nodes.get(node), Unseen)
