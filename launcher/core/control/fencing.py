"""Nodes that have fallen silent: what proves that nothing of the run can run there, and what is done to prove it."""

from dataclasses import replace

from launcher.core.control.liveness import EXPIRED, against, expired, head_expired, quiet
from launcher.core.control.spares import free
from launcher.core.control.state import Draft
from launcher.core.model.actions import Answer, Kill, PowerOff, Reason, Result, Why
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Unseen
from launcher.core.model.record import Evidence
from launcher.core.model.run import Cause
from launcher.core.model.task import OnNoSpare

# How long a node may be silent without proof that it has stopped, before people are asked for their word (s).
UNPROVEN = 40.0


def proof(draft: Draft, node: NodeName) -> str | None:
    """Return in words why nothing of the run can run on a node that we do not see; None while it may.

    The best first: power that is off, an operator's word, and only then the agent's stopping itself. In a launch there
    may be nothing to stop yet.
    """
    if node in draft.stopped:
        return draft.stopped[node]
    if node == draft.head_node:
        return head_expired(draft.seen, draft.leased, node)
    if not draft.started and node not in draft.joined and quiet(draft.seen, draft.since, node) >= EXPIRED:
        return "no raylet was started on it"
    return expired(draft.seen, node)


def settle(draft: Draft) -> None:
    """Strike off the fences on nodes of which it is proven that there is nothing left to kill."""
    silent = {kill.node for kill in draft.kills.values() if _unseen(draft, kill.node)}
    gone = {node for node in silent if proof(draft, node) is not None}
    if gone:
        draft.fence_done({key for key, kill in draft.kills.items() if kill.node in gone})


def lose_silent(draft: Draft, node: NodeName) -> None:
    """Condemn a silent node once it is proven that nothing runs there; power it off where that is how to prove it."""
    why = proof(draft, node)
    head = draft.head_node
    message = f"silent for {quiet(draft.seen, draft.since, node):.0f} s"
    others = "; ".join(against(draft.seen, node, head=head))
    if why is None:
        power_off(draft, node, f"{message}; {others}" if others else message)
        return
    if draft.started or node in draft.joined:
        draft.stopped[node] = why  # until it is seen again: the run's end need not wait for it
    draft.node_attempts[node] = draft.node_attempts.get(node, 0) + 1
    mends = draft.node_attempts[node] <= draft.index.node_attempts(node)
    draft.fail_node(node, Evidence(cause=Cause.NODE, message=f"{message}; {why}", mends=mends))


def note_stopped(draft: Draft) -> None:
    """Note which silent nodes without a slot must have stopped themselves, while the head's ear can still prove it: the
    run's end need not wait for them."""
    for node in draft.index.nodes:
        if node not in draft.requested or not _unseen(draft, node) or node in draft.stopped:
            continue
        why = expired(draft.seen, node)
        if why is not None and node not in draft.holders and node != draft.head_node:
            draft.stopped[node] = why


def power_off(draft: Draft, node: NodeName, message: str) -> None:
    """Ask for the power of a node that is down to be cut, where the inventory says how; in the end ask people."""
    if draft.run.fleet.fence_command is not None and (draft.started or node in draft.joined or node == draft.head_node):
        draft.do(PowerOff(reason=Reason(why=Why.REPLACE, message=f"{node}: {message}"), node=node))
    if quiet(draft.seen, draft.since, node) >= UNPROVEN:
        unproven = f"{node} is {message}, and nothing proves that no rank runs there"
        draft.waiting_for = draft.waiting_for or f"{unproven}: `nvlaunch confirm-dead {node}` if it is off"


def _unseen(draft: Draft, node: NodeName) -> bool:
    return isinstance(draft.seen.nodes.get(node), Unseen)


CROWDED = 3
"""How often in a row the GPUs of a node may not be free, a few seconds apart, before its slot goes elsewhere."""
STUBBORN = 2
"""How often in a row a kill may not succeed before people are told."""
WEDGED = 5
"""How often in a row, over some twenty seconds, before the node's power is cut, where the inventory says how."""
CUT_AGAIN = 120.0
"""Seconds before that is done once more: a machine may be seen for a while after its power was cut."""


def kill_all(draft: Draft) -> None:
    """Ask for each kill that has no receipt yet, and say which do not succeed.

    What cannot be reached cannot be killed, and each try would be one more line of the journal. Whether GPUs are free
    matters where the slot stays: of a node that is left, it is enough that nothing of the run lives there.
    """
    for key, kill in draft.kills.items():
        if not draft.sees(kill.node):
            continue
        stays = _asks(draft, kill) and kill.node not in draft.failed_nodes
        if kill.reused and not stays:
            draft.retries.pop(key, None)  # what it failed for may not matter any more
        draft.kills[key] = replace(kill, reused=stays)
        draft.do(draft.kills[key])
        retry = draft.retries.get(key)
        if retry and retry.message and retry.count >= STUBBORN:
            draft.waiting_for = draft.waiting_for or f"{kill.member} waits for {kill.node}: {retry.message}"
            slot = draft.slots.get(kill.member)
            if retry.count >= WEDGED and (slot is None or slot.node != kill.node):
                _cut(draft, kill.node, retry.message)


def _cut(draft: Draft, node: NodeName, message: str) -> None:
    """Have the power cut of a node that its slot has left and that cannot be killed: a process that hangs in a driver
    outlives SIGKILL. Nothing else of ours proves that it writes nothing more."""
    cut = f"cut:{node}"
    if draft.seen.at >= draft.since.get(cut, -CUT_AGAIN) + CUT_AGAIN:
        draft.since[cut] = draft.seen.at
        power_off(draft, node, message)


def kill_failed(draft: Draft, kill: Kill, answer: Answer) -> None:
    """Take in that a kill did not succeed. GPUs that others hold cost a node its slot where another can have it, or
    the policy does not wait."""
    retry = replace(draft.retries[kill.key], message=answer.message)
    draft.retries[kill.key] = retry
    if answer.result is not Result.NOT_FREE or retry.count < CROWDED or not _asks(draft, kill):
        return
    member = draft.index.by_name[kill.member]
    waits = draft.index.policy(draft.index.lead(member)).on_no_spare is OnNoSpare.WAIT
    spare = sum(1 for name in free(draft, member) if draft.sees(name))
    owed = sum(
        1 for one in draft.of_slice(draft.index.home(member)) if draft.slots[one.name].node in draft.failed_nodes
    )
    if not waits or spare > owed:
        # Its own health says nothing of strangers: nothing starts there again before somebody has looked.
        draft.fail_node(kill.node, Evidence(cause=Cause.NODE, message=answer.message))


def _asks(draft: Draft, kill: Kill) -> bool:
    """Whether the slot of a kill is still on its node, and it is the one that asks whether GPUs are free: for
    all on that node where they start together, else each for its own."""
    member = draft.index.by_name.get(kill.member)
    if member is None:
        return False
    lead = draft.index.lead(member)
    return draft.holders.get(kill.node) == lead.name and (member is lead or draft.index.mixed(member))
