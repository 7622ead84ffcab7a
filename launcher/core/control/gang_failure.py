"""Gangs: have their ranks ended, whose fault is it, and may they start again."""

from dataclasses import dataclass

from launcher.core.control import fault_attribution
from launcher.core.control.drain import draining
from launcher.core.control.fencing import proof
from launcher.core.control.liveness import Silence
from launcher.core.control.spares import free
from launcher.core.control.state import Draft
from launcher.core.model.actions import Reason, Why
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.observation import Phase, Seen, Sign, Unseen
from launcher.core.model.placement import Slice
from launcher.core.model.record import Evidence, Outcome
from launcher.core.model.run import Cause, GangName, Member

# So often may a program fail on one node first, before the node is blamed for it.
FIRST_FAILURES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """A rank that failed, where, and in words how."""

    member: Member
    node: NodeName
    how: str
    code: int | None = None
    tail: tuple[str, ...] = ()


def judge(draft: Draft) -> None:
    """Decide for each gang what exits and node health mean: nothing, another attempt, or the end of the run."""
    if _troubled(draft) and draft.verdict is None and draft.started:
        draft.verdict = fault_attribution.rack_verdict(draft)
    for name in draft.gangs:
        if draft.verdict is None and draft.outcome is None and draining(name) not in draft.since:
            _gang(draft, name)
    drained = any(draining(name) in draft.since for name in draft.gangs)
    if not drained and all(draft.over(name) for name in draft.gangs):
        count = len(draft.members)
        message = "its one rank ended with 0" if count == 1 else f"all {count} ranks ended with 0"
        draft.end(Outcome(cause=Cause.SUCCESS, message=message))


def _troubled(draft: Draft) -> bool:
    unseen = any(isinstance(view, Unseen) for view in draft.seen.nodes.values())
    return unseen or any(draft.signs(name) for name in draft.seen.health)


def _gang(draft: Draft, name: GangName) -> None:
    gang, nodes = draft.gangs[name], [draft.slots[member.name].node for member in draft.of_gang(name)]
    failure = None if gang.broken or gang.attempt == 0 else _first_failure(draft, name) or _hang(draft, name)
    accused = not draft.over(name) and any(draft.signs(node) for node in nodes if node not in draft.failed_nodes)
    if failure is None and not accused and not gang.broken:
        draft.since.pop(fault_attribution.opened(name), None)
    elif fault_attribution.gathered(draft, name):
        _decide(draft, name, failure, [node for node in nodes if node not in draft.failed_nodes])


def _decide(draft: Draft, name: GangName, failure: _Failure | None, nodes: list[NodeName]) -> None:
    gone = [node for node in nodes if _gone(draft, node)]
    tops = {} if gone else fault_attribution.guilty(draft, nodes, failure.node if failure else None)
    if tops and all(draft.index.kept.get(node) in _moving(draft) for node in tops):
        draft.break_gang(name, Reason(why=Why.RELOCATE, message=f"an operator wants {fold(tops)} left"))
    elif gone or tops:
        draft.verdict = fault_attribution.tied(draft, tuple(tops))
        if draft.verdict is None:
            _accuse(draft, name, gone[0] if gone else next(iter(tops)), tops, nodes)
    elif failure and _node_failed(draft, failure.member):
        draft.break_gang(name, Reason(why=Why.REJOIN, message=f"`{failure.node}` failed under {failure.member.name}"))
    elif failure:
        _program(draft, name, failure)


def _moving(draft: Draft) -> list[Slice | None]:
    return [draft.index.parts[key] for key in draft.moving]


def _accuse(
    draft: Draft, name: GangName, node: NodeName, tops: dict[NodeName, tuple[Sign, ...]], nodes: list[NodeName]
) -> None:
    """Blame one node for what a gang suffers, and hold against the others nothing that may come from it."""
    if node in tops:
        signs = tops[node]
        message = min(signs, key=lambda sign: sign.symptom).message
        tail = tuple(sign.message for sign in signs)
        draft.fail_node(node, Evidence(cause=Cause.NODE, message=message, tail=tail, mends=True))
    else:
        message = proof(draft, node) or "it is gone"
    fault_attribution.excuse(draft, (other for other in nodes if other != node))
    draft.break_gang(name, Reason(why=Why.REPLACE, message=f"{node}: {message}"))


def _gone(draft: Draft, node: NodeName) -> bool:
    if draft.sees(node) or node not in draft.requested or proof(draft, node) is None:
        return False
    return node in draft.stopped or draft.silence(node) is Silence.DOWN


def _first_failure(draft: Draft, name: GangName) -> _Failure | None:
    """Return the rank that failed first: by node time, then rank; clocks of nodes may differ by a little."""
    failures = [
        (draft.exits[member.name].at, at, member)
        for at, member in enumerate(draft.of_gang(name))
        if member.name in draft.exits and not draft.exits[member.name].ok
    ]
    if not failures:
        return None
    member = min(failures)[2]
    ended = draft.exits[member.name]
    how = "was killed" if ended.code is None else f"exited with {ended.code}"
    node = draft.slots[member.name].node
    return _Failure(member=member, node=node, how=how, code=ended.code, tail=ended.tail)


def _hang(draft: Draft, name: GangName) -> _Failure | None:
    """Return the rank that has given no sign of life for longest, where that is too long."""
    worst: tuple[float, Member] | None = None
    for member in draft.of_gang(name):
        limit = draft.index.policy(member).hang_after
        agent = draft.agent(draft.slots[member.name].node) if limit is not None else None
        for rank in agent.ranks if agent else ():
            ours = rank.member == member.name and rank.attempt == draft.gangs[name].attempt
            if ours and rank.running and limit is not None and rank.quiet > max(limit, worst[0] if worst else 0.0):
                worst = rank.quiet, member
    if worst is None:
        return None
    quiet, member = worst
    node = draft.slots[member.name].node
    return _Failure(member=member, node=node, how=f"hangs: it has written nothing for {quiet:.0f} s")


def _program(draft: Draft, name: GangName, failure: _Failure) -> None:
    """Start the gang again for a restart, or end the run; a node on which it always begins gives up its slot."""
    member, node = failure.member, failure.node
    draft.failures[node] = draft.failures.get(node, 0) + 1
    budget, spent = draft.index.policy(member).max_restarts, draft.gangs[name].restarts
    message = f"{member.name} on {node} {failure.how}"
    if spent >= budget:
        after = f" after {spent} restart{'s' * (spent != 1)}" if spent else ""
        draft.end(
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
    times = draft.failures[node] + draft.seen.history.get(node, 0)
    if times >= FIRST_FAILURES and free(draft, member):
        evidence = f"{times} failures of programs began on it"
        draft.fail_node(node, Evidence(cause=Cause.NODE, message=evidence, tail=failure.tail))
    draft.break_gang(name, Reason(why=Why.RESTART, message=f"{message}: restart {spent + 1} of {budget}"), spend=True)


def _node_failed(draft: Draft, member: Member) -> bool:
    """Whether the raylet under a rank ended too: then the exit says nothing about the program."""
    view = draft.seen.nodes.get(draft.slots[member.name].node)
    return isinstance(view, Seen) and (view.agent is None or view.agent.ray.phase is Phase.FAILED)
