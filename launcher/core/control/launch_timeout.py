"""Nodes out of sight before any rank ran: waiting costs time, but no work."""

from launcher.core.control import spares
from launcher.core.control.state import Tick
from launcher.core.control.timing import CONNECT_S, EXPIRED_S, PATIENCE_S
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Unseen
from launcher.core.model.record import Evidence
from launcher.core.model.run import Cause, Member
from launcher.core.model.task import OnNoSpare
from launcher.core.model.text import span


def wait_for_node(tick: Tick, member: Member) -> bool:
    """Whether a slot of a launch has to wait for its node, which is out of sight.

    People are told. Where a spare can take the slot, and no raylet or head of the run can be on the node, it fails
    after `CONNECT_S`; without a spare it fails after `PATIENCE_S`.
    """
    node, record = tick.node_of(member), tick.record
    if tick.sees(node) or tick.gang_of(member).attempt > 0:
        return False
    spared = any(tick.sees(name) for name in spares.free(tick, member))
    if spared and (node in record.joined or node == tick.head_node):
        return False
    dead = node in record.stopped and node not in record.requested  # confirmed, and the run never had its lease
    fails = tick.index.policy(tick.index.node_owner(member)).on_no_spare is OnNoSpare.FAIL
    limit, away = CONNECT_S if spared or dead or fails else PATIENCE_S, tick.quiet(node)
    if away >= limit and not tick.blind():
        message = f"{_stage(tick, node)}: unreachable for {away:.0f} s{_why(tick, node)}"
        tick.fail_node(node, Evidence(cause=Cause.PROVISION, message=message, mends=True))
        return False
    tick.wake(tick.seen.at + max(limit - away, 1.0))
    if not spared:
        tick.awaited.add(node)
        _tell(tick, member, node, away, limit)
    return not spared


def _tell(tick: Tick, member: Member, node: NodeName, away: float, limit: float) -> None:
    if away >= EXPIRED_S and not tick.blind():
        lately = f"{away // 10 * 10:.0f} s"  # in steps: each new status message is a line of the journal
        message = f"unreachable for {lately} during {_stage(tick, node)}{_why(tick, node)}"
        place = tick.index.home(member).place
        tick.hold(f"{member.name} waits for {node}, {message}; no spare in {place}, fails after {span(limit)}")


def _stage(tick: Tick, node: NodeName) -> str:
    """Return how far the launch had come on a node."""
    if node not in tick.record.requested:
        return "connect"
    if node not in tick.record.leased:
        return "lease"
    return "join" if node in tick.record.joined else "setup"


def _why(tick: Tick, node: NodeName) -> str:
    view = tick.seen.nodes.get(node)
    return f": {view.message}" if isinstance(view, Unseen) and view.message else ""
