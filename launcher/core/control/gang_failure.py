"""Gangs whose ranks have ended or hang."""

from launcher.core.control.fault_attribution import Failure, attribute, gathered
from launcher.core.control.state import Tick
from launcher.core.model.record import Outcome
from launcher.core.model.run import Cause, GangName, Member


def judge_gangs(tick: Tick) -> None:
    """Decide for each gang what exits and health reports mean.

    Nothing, another attempt, or the end of the run.

    Reads `record.exits`, `seen`, the timers of drains. Writes `record.gangs` and `kills` (an attempt ends),
    `failed_nodes`, `first_failures`, `excused`, `shared_fault`, the timers of evidence, the outcome; `doubted`, `tail`.
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
    elif gathered(tick, name):
        attribute(tick, name, failure, nodes)


def _first_failure(tick: Tick, name: GangName) -> Failure | None:
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
    return Failure(member=member, node=tick.node_of(member), how=how, code=ended.code, tail=ended.tail)


def _hang(tick: Tick, name: GangName) -> Failure | None:
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
    return Failure(member=member, node=tick.node_of(member), how=f"hangs: no output for {quiet:.0f} s")
