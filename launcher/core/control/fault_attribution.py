"""Which node is at fault: when one link dies, a whole slice reports errors."""

from collections.abc import Iterable, Sequence

from launcher.core.control.fencing import proof
from launcher.core.control.liveness import Silence
from launcher.core.control.state import Tick
from launcher.core.control.timing import EVIDENCE_S, SHARED_FAULT_NODES, SILENCE_S, WITNESS_S
from launcher.core.model.inventory import GpuDriver
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.observation import Sign, Symptom, Unseen
from launcher.core.model.record import SharedFault
from launcher.core.model.run import GangName


def find_shared_fault(tick: Tick) -> None:
    """Hold a run whose nodes of one rack are half sick at once.

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
        sick = [name for name in names if name in silent or tick.signs(name)]
        some_seen = any(not isinstance(tick.seen.nodes.get(name), Unseen) for name in names)
        news = any(name not in tick.record.resumed for name in sick)
        if len(sick) >= SHARED_FAULT_NODES and len(sick) * 2 >= len(names) and some_seen and news:
            message = f"{len(sick)} of {len(names)} nodes of the run in {rack} failed at once: {fold(sick)}"
            tick.record.shared_fault = SharedFault(message=message, nodes=tuple(sick))
            return


def gathered(tick: Tick, name: GangName) -> bool:
    """Whether there is no more evidence to wait for about a failed gang.

    Each of its nodes has news that is newer than the failure, or has had its time.
    """
    evidence = tick.record.since.evidence
    lasted = tick.lasted(evidence, name)
    since, nodes = evidence[name], [tick.node_of(member) for member in tick.index.by_gang[name]]
    stale = {node for node in nodes if tick.sees(node) and not _fresh(tick, node, since)}
    tick.doubted |= stale
    if lasted < EVIDENCE_S and any(tick.index.nodes[node].gpu_driver is GpuDriver.NVIDIA for node in stale):
        tick.wake(since + EVIDENCE_S)
        return False
    if lasted < SILENCE_S and any(_unsettled(tick, node) for node in nodes):
        tick.wake(since + SILENCE_S)
        return False
    return True


def _fresh(tick: Tick, node: NodeName, since: float) -> bool:
    health = tick.seen.health.get(node)
    return health is not None and health.at >= since


def _unsettled(tick: Tick, node: NodeName) -> bool:
    """Whether a node has fallen silent, and it is not known yet whether it is dead."""
    if tick.sees(node) or node not in tick.record.requested:
        return False
    recent = tick.quiet(node) < WITNESS_S
    return recent or (tick.silence(node) is Silence.DOWN and proof(tick, node) is None)


def guilty(tick: Tick, nodes: Sequence[NodeName], began: NodeName | None) -> dict[NodeName, tuple[Sign, ...]]:
    """Return the nodes that show the worst symptom, those with the most signs first.

    Otherwise they are in the order of `nodes`. What was excused counts again for the node on which the failure `began`.
    """
    shown = {node: found for node in nodes if (found := _shown(tick, node, began))}
    worst = min((sign.symptom for found in shown.values() for sign in found), default=None)
    tops = [node for node, found in shown.items() if worst in {sign.symptom for sign in found}]
    return {node: shown[node] for node in sorted(tops, key=lambda node: -len(shown[node]))}


def _shown(tick: Tick, node: NodeName, began: NodeName | None) -> tuple[Sign, ...]:
    health = tick.seen.health.get(node)
    if node != began or health is None:
        return tick.signs(node)
    return tuple(sign for sign in health.signs if sign.symptom.fails_node)


def excuse(tick: Tick, nodes: Iterable[NodeName]) -> None:
    """Ignore on these nodes the signs that the guilty node can cause.

    A dead link has two ends.
    """
    for node in nodes:
        signs = [sign.message for sign in tick.signs(node) if sign.symptom is Symptom.FATAL_LINK]
        if signs and node not in tick.record.resumed:
            tick.record.excused[node] = (*tick.record.excused.get(node, ()), *signs)


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
