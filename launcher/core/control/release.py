"""Releasing nodes that the run does not use any more."""

from launcher.core.control.state import Tick
from launcher.core.model.action_key import ActionKey
from launcher.core.model.actions import Reason, Release, Unit, Why
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Seen


def release_unused(tick: Tick) -> None:
    """Release nodes that are not used any more, once their kills have succeeded, and the heads of earlier clusters.

    Reads `kills`, `holders`, `record.failed_nodes`, `seen`. Writes `record.requested`, `joined`, `leased`; `actions`.
    """
    fenced = {kill.node for kill in tick.kills.values()}
    for name, message in _unused(tick).items():
        if name not in fenced and release(tick, name, Reason(why=Why.REPLACE, message=f"{name} {message}")):
            tick.record.leased.discard(name)
    for machine in tick.record.former_heads:
        if machine is not None and tick.sees(machine):
            reason = Reason(why=Why.HEAD, message=f"the head has moved off {machine}")
            tick.do(Release(reason=reason, node=machine, unit=Unit.HEAD))


def release(tick: Tick, node: NodeName, reason: Reason) -> bool:
    """Release a node that we see; return whether it was seen to be free of the run. Afterwards it need not be seen."""
    view = tick.seen.nodes.get(node)
    if not isinstance(view, Seen):
        return False
    if view.agent is not None or view.leftovers:
        tick.do(Release(reason=reason, node=node))
        return False
    if tick.in_flight.has(ActionKey("acquire", node=node)):
        return False
    tick.record.requested.discard(node)
    tick.record.joined.discard(node)
    return True


def _unused(tick: Tick) -> dict[NodeName, str]:
    """Return the nodes that the run has and does not use, and why."""
    found = {name: f"failed: {evidence.message}" for name, evidence in tick.record.failed_nodes.items()}
    for name, reason in tick.seen.drained.items():
        if name in tick.index.slice_of and name not in tick.holders:
            found.setdefault(name, f"is drained: {reason}")
    for name in tick.index.nodes:
        if name not in tick.index.slice_of and name not in tick.holders:
            found.setdefault(name, "is no longer part of the run")
    return found
