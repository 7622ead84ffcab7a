"""Whose fault the failure of a gang is: a node's, a rack's or the program's."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from launcher.core.control import fencing, spares
from launcher.core.control.blame import node_evidence
from launcher.core.control.liveness import Silence
from launcher.core.control.shared_fault import shared
from launcher.core.control.state import Tick
from launcher.core.control.timing import EVIDENCE_S, FAILURES_KEPT, FIRST_FAILURES, SILENCE_S, WITNESS_S
from launcher.core.model.actions import Reason, Why
from launcher.core.model.inventory import GpuDriver
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.observation import Phase, Seen, Sign, Symptom
from launcher.core.model.record import Evidence, Outcome, ProgramFailure
from launcher.core.model.run import Cause, GangName, Member


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A rank that failed first, its node, and how.

    Of the gang's `ranks`, `alike` failed in the same way. Until it is `settled`, another rank may turn out to be the
    cause.
    """

    member: Member
    node: NodeName
    how: str
    ranks: int
    alike: int
    code: int | None = None
    tail: tuple[str, ...] = ()
    settled: bool = True


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
    return recent or (tick.silence(node) is Silence.DOWN and fencing.proof(tick, node) is None)


def guilty(tick: Tick, nodes: Sequence[NodeName], began: NodeName | None) -> dict[NodeName, tuple[Sign, ...]]:
    """Return the nodes that show the worst symptom, those with the most signs first.

    Otherwise they are in the order of `nodes`. What was excused counts again for the node on which the failure `began`.
    """
    shown = {node: found for node in nodes if (found := _shown(tick, node, began))}
    worst = min((sign.symptom for found in shown.values() for sign in found), default=None)
    tops = [node for node, found in shown.items() if worst in {sign.symptom for sign in found}]
    return {node: shown[node] for node in sorted(tops, key=lambda node: -len(shown[node]))}


def _shown(tick: Tick, node: NodeName, began: NodeName | None) -> tuple[Sign, ...]:
    health, agent = tick.seen.health.get(node), tick.agent(node)
    own = (Sign(symptom=Symptom.NODE, message=agent.fault),) if agent is not None and agent.fault else ()
    if node != began or health is None:
        return (*tick.signs(node), *own)
    return (*(sign for sign in health.signs if sign.symptom.fails_node), *own)


def excuse(tick: Tick, nodes: Iterable[NodeName]) -> None:
    """Ignore on these nodes the signs that the guilty node can cause.

    A dead link has two ends.
    """
    for node in nodes:
        signs = [sign.message for sign in tick.signs(node) if sign.symptom is Symptom.FATAL_LINK]
        if signs and node not in tick.record.resumed:
            tick.record.excused[node] = (*tick.record.excused.get(node, ()), *signs)


def attribute(tick: Tick, name: GangName, failure: Failure | None, nodes: Sequence[NodeName]) -> None:
    """Blame a node, many nodes at once, an operator or the program, and end the attempt of the gang.

    Nodes come first: a node that is proven dead, then those with the worst symptom. A program is blamed only where no
    node of its gang is.
    """
    gone = next((node for node in nodes if _gone(tick, node)), None)
    tops = {} if gone else guilty(tick, nodes, failure.node if failure else None)
    leaving = [tick.index.slices[key] for key in tick.record.relocating]
    if tops and all(tick.index.slice_of.get(node) in leaving for node in tops):
        tick.break_gang(name, Reason(why=Why.RELOCATE, message=f"operator relocates {fold(tops)}"))
    elif gone or tops:
        tick.record.shared_fault = shared(tick, tuple(tops))
        if tick.record.shared_fault is None:
            _blame_node(tick, name, gone or next(iter(tops)), tops, nodes)
    elif failure and _raylet_ended(tick, failure.node):
        tick.break_gang(
            name, Reason(why=Why.REJOIN, message=f"node {failure.node} failed (rank {failure.member.name})")
        )
    elif failure:
        _blame_program(tick, name, failure)


def _blame_node(
    tick: Tick, name: GangName, node: NodeName, tops: dict[NodeName, tuple[Sign, ...]], nodes: Sequence[NodeName]
) -> None:
    """Blame one node for the failure of a gang.

    The others are excused for what that node may have caused.
    """
    if node in tops:
        signs = tops[node]
        message = min(signs, key=lambda sign: sign.symptom).message
        tail = tuple(sign.message for sign in signs)
        agent = tick.agent(node)
        # What a program met there may be of its own making: no reason to keep others off the node.
        cause = Cause.PROVISION if agent is not None and agent.fault == message else Cause.NODE
        tick.fail_node(node, Evidence(cause=cause, message=message, tail=tail, mends=True, unfit=True))
    else:
        message = fencing.proof(tick, node) or "unreachable"
    excuse(tick, (other for other in nodes if other != node))
    tick.break_gang(name, Reason(why=Why.REPLACE, message=f"{node}: {message}"))


def _blame_program(tick: Tick, name: GangName, failure: Failure) -> None:
    """Start the gang again for a restart, or end the run.

    If it keeps failing first on one node, another node is tried.
    """
    member, node = failure.member, failure.node
    nodes = fold({tick.node_of(one) for one in tick.index.by_gang[name]})
    seen = ProgramFailure(
        node=node,
        member=member.name,
        attempt=tick.record.gangs[name].attempt,
        code=failure.code,
        ranks=failure.ranks,
        alike=failure.alike,
        nodes=nodes,
    )
    tick.record.program_failures = [*tick.record.program_failures, seen][-FAILURES_KEPT:]
    budget, spent = tick.index.policy(member).max_restarts, tick.record.gangs[name].restarts
    message = f"{member.name} on {node} {failure.how}"
    tick.tail = failure.tail
    if spent >= budget:
        after = f" after {spent} restart{'s' * (spent != 1)}" if spent else ""
        tick.end(
            Outcome(
                cause=Cause.PROGRAM,
                message=message + after,
                member=member.name,
                node=node,
                exit_code=failure.code,
                tail=failure.tail,
            )
        )
        return
    _try_another_node(tick, seen, failure.tail)
    tick.break_gang(name, Reason(why=Why.RESTART, message=f"{message}; restart {spent + 1} of {budget}"), spend=True)


def _try_another_node(tick: Tick, seen: ProgramFailure, tail: tuple[str, ...]) -> None:
    """Leave a node on which a program keeps failing first, if a spare is free; the run alone does, for now.

    If the program then fails in the same way on the spare, the node it left is as good as any.
    """
    failed, before = tick.record.failed_nodes, tick.record.program_failures[:-1]
    elsewhere = {one.node for one in before if one.node != seen.node and _alike(one, seen)}
    for node in elsewhere & failed.keys():
        if failed[node].cause is Cause.PROGRAM:
            failed[node] = replace(failed[node], mends=True)
    if elsewhere:
        return
    times = 1 + sum(1 for one in before if one.node == seen.node and node_evidence.excuse(one) is None)
    if (
        times >= FIRST_FAILURES
        and node_evidence.excuse(seen) is None
        and spares.free(tick, tick.index.by_name[seen.member])
    ):
        message = f"the program failed {times} times on this node"
        tick.fail_node(seen.node, Evidence(cause=Cause.PROGRAM, message=message, tail=tail))


def _alike(one: ProgramFailure, other: ProgramFailure) -> bool:
    return (one.member, one.code) == (other.member, other.code)


def leave_suspects(tick: Tick, name: GangName) -> None:
    """Leave the nodes that failures of programs speak against, of a gang that starts again anyway and has spares."""
    for member in tick.index.by_gang[name]:
        node = tick.node_of(member)
        if node in tick.seen.suspects and node not in tick.record.failed_nodes and spares.free(tick, member):
            tick.fail_node(node, Evidence(cause=Cause.NODE, message=tick.seen.suspects[node]))


def _gone(tick: Tick, node: NodeName) -> bool:
    if tick.sees(node) or node not in tick.record.requested or fencing.proof(tick, node) is None:
        return False
    return node in tick.record.stopped or tick.silence(node) is Silence.DOWN


def _raylet_ended(tick: Tick, node: NodeName) -> bool:
    """Whether the raylet under a rank ended too.

    Then the exit of the rank says nothing about the program.
    """
    view = tick.seen.nodes.get(node)
    return isinstance(view, Seen) and (view.agent is None or view.agent.ray.phase is Phase.FAILED)
