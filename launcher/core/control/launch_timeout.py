"""Nodes out of sight before any rank has run: to wait for them costs nothing but time, and nobody's work."""

from launcher.core.control.liveness import EXPIRED, quiet
from launcher.core.control.spares import free
from launcher.core.control.state import Draft
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Unseen
from launcher.core.model.record import Evidence
from launcher.core.model.run import Cause, Member
from launcher.core.model.task import OnNoSpare
from launcher.core.model.text import span

CONNECT_GRACE = 30.0
"""How long a launch waits for a machine that another can stand in for, where nothing has to be fenced first (s)."""
PATIENCE = 300.0
"""How long a launch waits for one that nothing can stand in for (s): longer than a switch takes to start anew."""


def launching(draft: Draft, member: Member) -> bool:
    """Whether no rank of a slot's gang has ever been started."""
    return draft.gangs[draft.gang_of(member)].attempt == 0


def wait_for_node(draft: Draft, member: Member) -> bool:
    """Whether a slot of a launch whose node is out of sight has to wait for it; then people are told.

    Where a spare can take the slot, and no raylet or head of ours can be on the node, it is failed after
    CONNECT_GRACE; where none can, after PATIENCE. Whatever else is to be done about it is left to others.
    """
    node = draft.slots[member.name].node
    if draft.sees(node) or not launching(draft, member):
        return False
    spared = any(draft.sees(name) for name in free(draft, member))
    if spared and (node in draft.joined or node == draft.head_node):
        return False
    dead = node in draft.stopped and node not in draft.requested  # somebody says so of a machine that was never ours
    fails = draft.index.policy(draft.index.lead(member)).on_no_spare is OnNoSpare.FAIL
    hurried = spared or dead or fails
    limit, away = CONNECT_GRACE if hurried else PATIENCE, quiet(draft.seen, draft.since, node)
    if away >= limit and not draft.blind():
        message = f"{_stage(draft, node)}: out of sight for {away:.0f} s{_why(draft, node)}"
        draft.fail_node(node, Evidence(cause=Cause.PROVISION, message=message, mends=True))
        return False
    draft.wake(draft.seen.at + max(limit - away, 1.0))
    if not spared:
        draft.awaited.add(node)
        _tell(draft, member, node, away, limit)
    return not spared


def _tell(draft: Draft, member: Member, node: NodeName, away: float, limit: float) -> None:
    """Say loudly who is waited for, once it is no blink."""
    if away >= EXPIRED and not draft.blind():
        lately = f"{away // 10 * 10:.0f} s"  # in steps: each other status_message is a line of the journal
        message = f"out of sight for {lately} in {_stage(draft, node)}{_why(draft, node)}"
        place = draft.index.home(member).place
        message = (
            f"{member.name} waits for {node}, {message}; no spare is left in {place}, given up after {span(limit)}"
        )
        draft.waiting_for = draft.waiting_for or message


def _stage(draft: Draft, node: NodeName) -> str:
    """Return how far a launch had come on a node that nobody sees any more."""
    if node not in draft.requested:
        return "connect"
    if node not in draft.leased:
        return "lease"
    return "join" if node in draft.joined else "setup"


def _why(draft: Draft, node: NodeName) -> str:
    view = draft.seen.nodes.get(node)
    return f": {view.message}" if isinstance(view, Unseen) and view.message else ""
