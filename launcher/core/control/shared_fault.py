"""Faults behind several nodes of a rack at once: a switch, its power; no node is replaced for them."""

from collections.abc import Sequence

from launcher.core.control.liveness import Silence
from launcher.core.control.state import Tick
from launcher.core.control.timing import SHARED_FAULT_NODES
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.observation import Unseen
from launcher.core.model.record import SharedFault


def find_shared_fault(tick: Tick) -> None:
    """Hold a run whose nodes of one rack are half unhealthy at once.

    A rack that is silent as a whole is simply lost.

    Reads `seen.nodes`, `seen.health`, `started`, `record`. Writes `record.shared_fault`.
    """
    if tick.record.shared_fault is not None or not tick.started:
        return
    unseen = any(isinstance(view, Unseen) for view in tick.seen.nodes.values())
    if not unseen and not any(tick.signs(name) for name in tick.seen.health):
        return
    failed = tick.record.failed_nodes
    for rack, placed in sorted(tick.index.racks.items()):
        names = [name for name in placed if name not in failed and not _relocates(tick, name)]
        silent = {name for name in names if _down(tick, name)}
        unhealthy = [name for name in names if name in silent or tick.signs(name)]
        some_seen = any(not isinstance(tick.seen.nodes.get(name), Unseen) for name in names)
        news = any(name not in tick.record.resumed for name in unhealthy)
        if len(unhealthy) >= SHARED_FAULT_NODES and len(unhealthy) * 2 >= len(names) and some_seen and news:
            message = f"{len(unhealthy)} of {len(names)} nodes of the run in {rack} failed at once: {fold(unhealthy)}"
            tick.record.shared_fault = SharedFault(message=message, nodes=tuple(unhealthy))
            return


def shared(tick: Tick, tops: Sequence[NodeName]) -> SharedFault | None:
    """Return the fault of nodes that are equally guilty, if they are many.

    None if they are few, or an operator has resumed the run.
    """
    if len(tops) < SHARED_FAULT_NODES or set(tops) <= tick.record.resumed:
        return None
    message = f"{fold(tops)} show the same fault at once: the cause is likely behind them (switch, rack, power)"
    return SharedFault(message=message, nodes=tuple(tops))


def neighbour_unclear(tick: Tick, node: NodeName) -> bool:
    """Whether another node of the rack has only just fallen silent.

    Then the two are judged together, a little later.
    """
    return any(other != node for other in tick.just_silent(tick.index.nodes[node].rack))


def _relocates(tick: Tick, node: NodeName) -> bool:
    part = tick.index.slice_of.get(node)
    return part is not None and part.key in tick.record.relocating


def _down(tick: Tick, node: NodeName) -> bool:
    return not tick.sees(node) and node in tick.record.requested and tick.silence(node) is Silence.DOWN
