"""Gangs whose ranks have ended or hang: who is at fault, and do they start again."""

from collections.abc import Sequence
from dataclasses import dataclass

from launcher.core.control import fault_attribution, fencing, spares
from launcher.core.control.liveness import Silence
from launcher.core.control.state import Tick
from launcher.core.control.timing import FIRST_FAILURES
from launcher.core.model.actions import Reason, Why
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.observation import Phase, Seen, Sign
from launcher.core.model.record import Evidence, Outcome
from launcher.core.model.run import Cause, GangName, Member


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """A rank that failed first, its node, and how."""

    member: Member
    node: NodeName
    how: str
    code: int | None = None
    tail: tuple[str, ...] = ()


def judge_gangs(tick: Tick) -> None:
    """Decide for each gang what exits and health reports mean.

    Nothing, another attempt, or the end of the run.

    Reads `record.exits`, `seen`, the timers of drains. Writes `record.gangs` and `kills` (an attempt ends),
    `failed_nodes`, `first_failures`, `excused`, `shared_fault`, the timers of evidence, the outcome; `doubted`.
    """
    record, draining = tick.record, tick.record.since.draining
    for name in record.gangs:
        if record.shared_fault is None and record.outcome is None and name not in draining:
            _judge(tick, name)
    if draining.keys().isdisjoint(record.gangs) and all(tick.over(name) for name in record.gangs):
        count = len(tick.index.members)
        message = "the only rank exited with 0" if count == 1 else f"all {count} ranks exited with 0"
        tick.end(Outcome(cause=Cause.SUCCESS, message=message))


def _judge(tick: Tick, name: GangName) -> None:
    gang, failed = tick.record.gangs[name], tick.record.failed_nodes
    nodes = [node for member in tick.index.by_gang[name] if (node := tick.node_of(member)) not in failed]
    failure = None if gang.broken or gang.attempt == 0 else _first_failure(tick, name) or _hang(tick, name)
    accused = not tick.over(name) and any(tick.signs(node) for node in nodes)
    if failure is None and not accused and not gang.broken:
        tick.record.since.evidence.pop(name, None)
    elif fault_attribution.gathered(tick, name):
        _decide(tick, name, failure, nodes)


def _decide(tick: Tick, name: GangName, failure: _Failure | None, nodes: Sequence[NodeName]) -> None:
    gone = next((node for node in nodes if _gone(tick, node)), None)
    tops = {} if gone else fault_attribution.guilty(tick, nodes, failure.node if failure else None)
    leaving = [tick.index.slices[key] for key in tick.record.relocating]
    if tops and all(tick.index.slice_of.get(node) in leaving for node in tops):
        tick.break_gang(name, Reason(why=Why.RELOCATE, message=f"operator relocates {fold(tops)}"))
    elif gone or tops:
        tick.record.shared_fault = fault_attribution.shared(tick, tuple(tops))
        if tick.record.shared_fault is None:
            _blame_node(tick, name, gone or next(iter(tops)), tops, nodes)
    elif failure and _raylet_ended(tick, failure.node):
        tick.break_gang(
            name, Reason(why=Why.REJOIN, message=f"node {failure.node} failed (rank {failure.member.name})")
        )
    elif failure:
        _blame_program(tick, name, failure)


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
        tick.fail_node(node, Evidence(cause=Cause.NODE, message=message, tail=tail, mends=True))
    else:
        message = fencing.proof(tick, node) or "unreachable"
    fault_attribution.excuse(tick, (other for other in nodes if other != node))
    tick.break_gang(name, Reason(why=Why.REPLACE, message=f"{node}: {message}"))


def _blame_program(tick: Tick, name: GangName, failure: _Failure) -> None:
    """Start the gang again for a restart, or end the run.

    A node on which it keeps failing first loses its slot.
    """
    member, node, counts = failure.member, failure.node, tick.record.first_failures
    counts[node] = counts.get(node, 0) + 1
    budget, spent = tick.index.policy(member).max_restarts, tick.record.gangs[name].restarts
    message = f"{member.name} on {node} {failure.how}"
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
    times = counts[node] + tick.seen.history.get(node, 0)
    if times >= FIRST_FAILURES and spares.free(tick, member):
        evidence = f"{times} job failures on this node"
        tick.fail_node(node, Evidence(cause=Cause.NODE, message=evidence, tail=failure.tail))
    tick.break_gang(name, Reason(why=Why.RESTART, message=f"{message}; restart {spent + 1} of {budget}"), spend=True)


def _first_failure(tick: Tick, name: GangName) -> _Failure | None:
    """Return the rank that failed first, by node time, then by rank.

    Clocks of nodes may differ by a little.
    """
    exits = tick.record.exits
    failures = [
        (ended.at, at, member)
        for at, member in enumerate(tick.index.by_gang[name])
        if (ended := exits.get(member.name)) is not None and not ended.ok
    ]
    if not failures:
        return None
    member = min(failures)[2]
    ended = exits[member.name]
    how = "was killed" if ended.code is None else f"exited with {ended.code}"
    return _Failure(member=member, node=tick.node_of(member), how=how, code=ended.code, tail=ended.tail)


def _hang(tick: Tick, name: GangName) -> _Failure | None:
    """Return the rank without output for longest, if for longer than `hang_after`."""
    worst: tuple[float, Member] | None = None
    for member in tick.index.by_gang[name]:
        limit = tick.index.policy(member).hang_after
        agent = tick.agent(tick.node_of(member)) if limit is not None else None
        for rank in agent.ranks if agent else ():
            ours = rank.member == member.name and rank.attempt == tick.record.gangs[name].attempt
            if ours and rank.running and limit is not None and rank.quiet > max(limit, worst[0] if worst else 0.0):
                worst = rank.quiet, member
    if worst is None:
        return None
    quiet, member = worst
    return _Failure(member=member, node=tick.node_of(member), how=f"hangs: no output for {quiet:.0f} s")
