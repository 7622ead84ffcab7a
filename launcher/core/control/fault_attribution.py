"""Evidence of many nodes, and which one is at fault: when one link dies, a whole slice reports errors."""

from collections.abc import Iterable, Sequence

from launcher.core.control.fencing import proof
from launcher.core.control.liveness import GRACE, Silence, quiet
from launcher.core.control.state import Draft
from launcher.core.model.inventory import GpuDriver, RackName
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.observation import Sign, Symptom, Unseen
from launcher.core.model.record import Verdict
from launcher.core.model.run import GangName

# How long the nodes of a gang may take to say how they are, before it is judged without them (s).
EVIDENCE_S = 5.0
# How long a gang waits for word of a node that has fallen silent (s): to be proven dead takes 18.
SILENCE_S = 30.0
# So many nodes that look equally guilty are not replaced: the fault is behind them.
TIE = 3


def opened(name: GangName) -> str:
    """Return under which key it is kept since when evidence about a gang is gathered."""
    return f"evidence:{name}"


def gathered(draft: Draft, name: GangName) -> bool:
    """Whether there is word of every node of a gang that is newer than its trouble, or no more to wait for."""
    lasted, since = draft.lasted(opened(name)), draft.since[opened(name)]
    asked = [draft.slots[member.name].node for member in draft.of_gang(name)]
    stale = {node for node in asked if draft.sees(node) and not _fresh(draft, node, since)}
    draft.doubted |= stale
    if lasted < EVIDENCE_S and any(draft.index.nodes[node].gpu_driver is GpuDriver.NVIDIA for node in stale):
        draft.wake(since + EVIDENCE_S)
        return False
    if lasted < SILENCE_S and any(_unsettled(draft, node) for node in asked):
        draft.wake(since + SILENCE_S)
        return False
    return True


def _fresh(draft: Draft, node: NodeName, since: float) -> bool:
    health = draft.seen.health.get(node)
    return health is not None and health.at >= since


def _unsettled(draft: Draft, node: NodeName) -> bool:
    """Whether a node has fallen silent, and it is not known yet whether it is dead."""
    if draft.sees(node) or node not in draft.requested:
        return False
    recent = quiet(draft.seen, draft.since, node) < GRACE
    return recent or (draft.silence(node) is Silence.DOWN and proof(draft, node) is None)


def guilty(draft: Draft, nodes: Sequence[NodeName], began: NodeName | None) -> dict[NodeName, tuple[Sign, ...]]:
    """Return the nodes of a gang that show the worst symptom, in rank order, the one with the most signs first.

    What was excused counts again for the node on which the failure `began`.
    """
    shown = {node: found for node in nodes if (found := _shown(draft, node, began))}
    worst = min((sign.symptom for found in shown.values() for sign in found), default=None)
    if worst is None:
        return {}
    tops = [node for node in nodes if node in shown and worst in {sign.symptom for sign in shown[node]}]
    tops.sort(key=lambda node: -len(shown[node]))
    return {node: shown[node] for node in tops}


def _shown(draft: Draft, node: NodeName, began: NodeName | None) -> tuple[Sign, ...]:
    health = draft.seen.health.get(node)
    if node != began or health is None:
        return draft.signs(node)
    return tuple(sign for sign in health.signs if sign.symptom.fails_node)


def excuse(draft: Draft, nodes: Iterable[NodeName]) -> None:
    """Hold nothing against nodes that can come from the node that was found guilty: a dead link has two ends."""
    for node in nodes:
        words = [sign.message for sign in draft.signs(node) if sign.symptom is Symptom.FATAL_LINK]
        if words and node not in draft.resumed:
            draft.excused[node] = (*draft.excused.get(node, ()), *words)


def tied(draft: Draft, tops: Sequence[NodeName]) -> Verdict | None:
    """Return the verdict that it is none of the nodes that look equally guilty; None where they are few."""
    if len(tops) < TIE or set(tops) <= draft.resumed:
        return None
    words = f"{fold(tops)} show the same fault at once: it is rather behind them than in one of them"
    return Verdict(message=words, nodes=tuple(tops))


def rack_verdict(draft: Draft) -> Verdict | None:
    """Return the verdict on a rack of which half the run's nodes are sick at once; None where there is none.

    A rack that is silent as a whole is lost, which is no riddle.
    """
    racks: dict[RackName, list[NodeName]] = {}
    for name in draft.run.placement.nodes:
        if name not in draft.failed_nodes and _moving(draft, name) is False:
            racks.setdefault(draft.index.nodes[name].rack, []).append(name)
    for rack, nodes in sorted(racks.items()):
        silent = [name for name in nodes if _down(draft, name)]
        sick = [name for name in nodes if name in silent or draft.signs(name)]
        unseen = [name for name in nodes if isinstance(draft.seen.nodes.get(name), Unseen)]
        news = [name for name in sick if name not in draft.resumed]
        if len(sick) >= TIE and len(sick) * 2 >= len(nodes) and len(unseen) < len(nodes) and news:
            words = f"{len(sick)} of the {len(nodes)} nodes of the run in {rack} are sick at once: {fold(sick)}"
            return Verdict(message=words, nodes=tuple(sick))
    return None


def unclear(draft: Draft, node: NodeName) -> bool:
    """Whether another node in a rack has only just fallen silent: then wait, and judge them together."""
    rack = draft.index.nodes[node].rack
    return any(
        _unsettled(draft, other) and not _down(draft, other)
        for other in draft.run.placement.nodes
        if other != node and draft.index.nodes[other].rack == rack
    )


def _moving(draft: Draft, node: NodeName) -> bool:
    part = draft.index.kept.get(node)
    return part is not None and part.key in draft.moving


def _down(draft: Draft, node: NodeName) -> bool:
    return not draft.sees(node) and node in draft.requested and draft.silence(node) is Silence.DOWN
