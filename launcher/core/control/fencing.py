"""Nodes that have fallen silent: what proves that nothing of the run can run there, and what is done to prove it."""

from launcher.core.control.liveness import EXPIRED, against, expired, head_expired, quiet
from launcher.core.control.state import Draft
from launcher.core.model.actions import PowerOff, Reason, Why
from launcher.core.model.inventory import NodeName
from launcher.core.model.observation import Unseen
from launcher.core.model.run import Cause, Evidence

# How long a node may be silent without proof that it has stopped, before people are asked for their word (s).
UNPROVEN = 40.0


def proof(draft: Draft, node: NodeName) -> str | None:
    """Answer in words why nothing of the run can run on a node that we do not see; None while it may.

    The best first: power that is off, an operator's word, and only then the keeper's stopping itself. In a launch there
    may be nothing to stop yet.
    """
    if node in draft.stopped:
        return draft.stopped[node]
    if node == draft.head_node:
        return head_expired(draft.seen, draft.claimed, node)
    if not draft.started and node not in draft.joined and quiet(draft.seen, draft.since, node) >= EXPIRED:
        return "no raylet was started on it"
    return expired(draft.seen, node)


def settle(draft: Draft) -> None:
    """Strike off the fences on nodes of which it is proven that there is nothing left to kill."""
    silent = {sweep.node for sweep in draft.sweeps.values() if _unseen(draft, sweep.node)}
    gone = {node for node in silent if proof(draft, node) is not None}
    if gone:
        draft.fence_done({key for key, sweep in draft.sweeps.items() if sweep.node in gone})


def lose_silent(draft: Draft, node: NodeName) -> None:
    """Condemn a silent node once it is proven that nothing runs there; power it off where that is how to prove it."""
    why = proof(draft, node)
    head = draft.head_node
    words = f"silent for {quiet(draft.seen, draft.since, node):.0f} s"
    others = "; ".join(against(draft.seen, node, head=head))
    if why is None:
        power_off(draft, node, f"{words}; {others}" if others else words)
        return
    if draft.started or node in draft.joined:
        draft.stopped[node] = why  # until it is seen again: the run's end need not wait for it
    draft.attempts[node] = draft.attempts.get(node, 0) + 1
    mends = draft.attempts[node] <= draft.index.attempts(node)
    draft.condemn(node, Evidence(cause=Cause.NODE, words=f"{words}; {why}", mends=mends))


def note_stopped(draft: Draft) -> None:
    """Note which silent nodes without a seat must have stopped themselves, while the head's ear can still prove it: the
    run's end need not wait for them."""
    for node in draft.index.nodes:
        if node not in draft.asked or not _unseen(draft, node) or node in draft.stopped:
            continue
        why = expired(draft.seen, node)
        if why is not None and node not in draft.holders and node != draft.head_node:
            draft.stopped[node] = why


def power_off(draft: Draft, node: NodeName, words: str) -> None:
    """Ask for the power of a node that is down to be cut, where the inventory says how; in the end ask people."""
    if draft.run.fleet.fence_command is not None and (draft.started or node in draft.joined or node == draft.head_node):
        draft.do(PowerOff(reason=Reason(why=Why.SWAP, words=f"{node}: {words}"), node=node))
    if quiet(draft.seen, draft.since, node) >= UNPROVEN:
        unproven = f"{node} is {words}, and nothing proves that no rank runs there"
        draft.waiting_for = draft.waiting_for or f"{unproven}: `nvlaunch confirm-dead {node}` if it is off"


def _unseen(draft: Draft, node: NodeName) -> bool:
    return isinstance(draft.seen.nodes.get(node), Unseen)
