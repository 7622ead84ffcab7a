"""The machine of the run's Ray head: lost, or to be left; then the run's Ray begins anew on another node."""

import re

from launcher.core.control.conditions import Condition
from launcher.core.control.fencing import power_off, proof
from launcher.core.control.liveness import GRACE, Silence, against, head_expired
from launcher.core.control.operator import HEAD_MACHINE
from launcher.core.control.receipts import HEAD_TRIES
from launcher.core.control.state import Draft
from launcher.core.model.actions import Reason, Why
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Unseen


def keep_head(draft: Draft) -> None:
    """Move the head off a node that is lost, failed or drained, once nothing of it can run there."""
    node = draft.head_node
    if not draft.head_asked:
        if node is not None and (node in draft.failed_nodes or node in draft.seen.drained):
            draft.head_at = elsewhere(draft) or node
            draft.head_moved = draft.head_at != node
        return
    why = _machine_lost(draft) if node is None else _node_lost(draft, node)
    if why is not None and (new := elsewhere(draft)):
        begin_cluster(draft, new, why)
    elif why is not None:
        draft.waiting_for = draft.waiting_for or f"{why}, and no other node can be its head"


def begin_cluster(draft: Draft, new: NodeName | None, why: str) -> None:
    """Begin the run's Ray anew on a machine: no raylet of the one before it serves, and every gang starts again."""
    reason = Reason(why=Why.HEAD, message=why)
    draft.heads.append(draft.head_node)
    draft.head_at = new
    draft.head_moved = True
    draft.head_asked = False
    draft.cluster += 1
    draft.verified.clear()
    draft.stale.clear()
    for key in [key for key in draft.retries if re.split("[:@]", key)[0] in _OF_RAY]:
        del draft.retries[key]
    for name in draft.gangs:
        if not draft.over(name):
            draft.break_gang(name, reason)
    for member in draft.members:
        node = draft.slots[member.name].node
        if member.host is None and node not in draft.failed_nodes:
            if node in draft.requested:
                draft.fence_slot(member, reason)
            draft.give(member, node)


_OF_RAY = ("verify", "misplaced", "reserve", "unreserve", "start_head", "start", "anew", HEAD_TRIES)


def elsewhere(draft: Draft) -> NodeName | None:
    """Return the first node with a slot that can be the head's."""
    for member in draft.members:
        node = draft.slots[member.name].node
        well = node not in draft.failed_nodes and node not in draft.seen.drained and draft.sees(node)
        if well and node != draft.head_node and draft.needed(member) is not Condition.DOWN:
            return node
    return None


def _node_lost(draft: Draft, node: NodeName) -> str | None:
    """Return why the head has to leave its node; None while it may stay."""
    if draft.sees(node):
        if node in draft.failed_nodes:
            return f"the head's node {node} is failed: {draft.failed_nodes[node].message}"
        idle = all(gang.attempt == 0 or gang.broken for gang in draft.gangs.values())
        if node in draft.seen.drained and (node in draft.leaving or node not in draft.holders) and idle:
            return f"the head's node {node} is drained: {draft.seen.drained[node]}"
        return None
    down = node in draft.stopped or draft.silence(node) is Silence.DOWN
    if down and (why := proof(draft, node)):
        return f"the head's node {node} is lost: {why}"
    if down and node not in draft.awaited:
        power_off(draft, node, "; ".join(("silent", *against(draft.seen, node, head=node))))
    return None


def _machine_lost(draft: Draft) -> str | None:
    """Return why the machine that the inventory names for heads is lost; None while it is not."""
    if isinstance(draft.seen.head, Unseen) and draft.since.get("headless", draft.seen.at) + GRACE <= draft.seen.at:
        why = draft.stopped.get(HEAD_MACHINE) or head_expired(draft.seen, draft.leased, None)
        if why is not None:
            return f"the head's machine is lost: {why}"
    return None
