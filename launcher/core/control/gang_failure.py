"""Gangs whose ranks have ended or hang."""

from launcher.core.control.blame.first_cause import RankFailure, by_cause, exit_text, followers_text
from launcher.core.control.blame.straggler import stragglers
from launcher.core.control.fault_attribution import Failure, attribute, gathered, leave_suspects
from launcher.core.control.state import Tick
from launcher.core.control.timing import FOLLOWERS_S
from launcher.core.model.observation import RankStep, Seen
from launcher.core.model.record import Outcome, SlowRank
from launcher.core.model.run import Cause, GangName, Member, MemberName
from launcher.core.model.task import OnStraggler


def judge_gangs(tick: Tick) -> None:
    """Decide for each gang what exits and health reports mean.

    Nothing, another attempt, or the end of the run.

    Reads `record.exits`, `seen`, the timers of drains. Writes `record.gangs` and `kills` (an attempt ends),
    `failed_nodes`, `program_failures`, `slow_ranks`, `excused`, `shared_fault`, the timers of evidence, the outcome;
    `doubted`, `tail`.
    """
    _note_stragglers(tick)
    record, draining = tick.record, tick.record.since.draining
    for name in record.gangs:
        if record.shared_fault is None and record.outcome is None and name not in draining:
            _judge(tick, name)
    if draining.keys().isdisjoint(record.gangs) and all(tick.over(name) for name in record.gangs):
        count = len(tick.index.members)
        message = "the only rank exited with 0" if count == 1 else f"all {count} ranks exited with 0"
        tick.end(Outcome(cause=Cause.SUCCESS, message=message))


def _note_stragglers(tick: Tick) -> None:
    """Note ranks that are slower than their peers of the same group. Nothing is done to a running rank."""
    groups: dict[str, dict[MemberName, RankStep]] = {}
    for node, view in tick.seen.nodes.items():
        for rank in view.agent.ranks if isinstance(view, Seen) and view.agent else ():
            member = tick.index.by_name.get(rank.member) if rank.step is not None and rank.running else None
            if member and rank.step and rank.attempt == tick.gang_of(member).attempt and tick.node_of(member) == node:
                groups.setdefault(member.group, {})[member.name] = rank.step
    before = tick.record.slow_ranks
    if not groups and not before:
        return
    found: dict[MemberName, SlowRank] = {}
    for steps in groups.values():
        policy = tick.index.policy(tick.index.by_name[next(iter(steps))])
        for one in stragglers(steps, factor=policy.straggler_factor, known=before):
            node, check = tick.node_of(tick.index.by_name[one.member]), policy.on_straggler is not OnStraggler.REPORT
            known = before.get(one.member)
            same = known is not None and known.node == node
            found[one.member] = known if known and same else SlowRank(node=node, message=one.message, check=check)
    tick.record.slow_ranks = found


def _judge(tick: Tick, name: GangName) -> None:
    gang, failed = tick.record.gangs[name], tick.record.failed_nodes
    if gang.broken:
        leave_suspects(tick, name)
    nodes = [node for member in tick.index.by_gang[name] if (node := tick.node_of(member)) not in failed]
    failure = None if gang.broken or gang.attempt == 0 else _first_failure(tick, name) or _hang(tick, name)
    accused = not tick.over(name) and any(tick.signs(node) for node in nodes)
    if failure is None and not accused and not gang.broken:
        tick.record.since.evidence.pop(name, None)
    elif gathered(tick, name) and (failure is None or failure.settled):
        attribute(tick, name, failure, nodes)


def _first_failure(tick: Tick, name: GangName) -> Failure | None:
    """Return the rank that failed first, and those that followed.

    It is settled once no rank can turn out to be the cause: when all have ended, when it was killed, or `FOLLOWERS_S`
    after its end.
    """
    members, exits = tick.index.by_gang[name], tick.record.exits
    ended = {member: exits[member.name] for member in members if member.name in exits}
    failures = by_cause(RankFailure(member=member, exit=found) for member, found in ended.items() if not found.ok)
    if not failures:
        return None
    first, *followers = failures
    due = first.exit.at + FOLLOWERS_S
    settled = first.abrupt or len(ended) == len(members) or tick.seen.at >= due
    if not settled:
        tick.wake(due)
    ranks = sum(1 for member in members if tick.index.driver(member) in (None, member))
    return Failure(
        member=first.member,
        node=tick.node_of(first.member),
        how=exit_text(first.exit.code) + (followers_text(followers) if ranks > 1 else ""),
        code=first.exit.code,
        tail=first.exit.tail,
        ranks=ranks,
        alike=min(ranks, sum(1 for one in failures if one.exit.code == first.exit.code)),
        settled=settled,
    )


def _hang(tick: Tick, name: GangName) -> Failure | None:
    """Return the rank without output for longest, or not ready any more, if for longer than `hang_after`."""
    worst: tuple[float, Member, str] | None = None
    for member in tick.index.by_gang[name]:
        limit = tick.index.policy(member).hang_after
        agent = tick.agent(tick.node_of(member)) if limit is not None else None
        for rank in agent.ranks if agent else ():
            ours = rank.member == member.name and rank.attempt == tick.record.gangs[name].attempt
            quiet = max(rank.quiet, rank.unready)
            if ours and rank.running and limit is not None and quiet > max(limit, worst[0] if worst else 0.0):
                worst = quiet, member, "no output" if quiet == rank.quiet else "its server is not ready"
    if worst is None:
        return None
    quiet, member, what = worst
    # Ranks wait for each other: that all are silent says nothing about the one that is silent for longest.
    ranks = len(tick.index.by_gang[name])
    how = f"hangs: {what} for {quiet:.0f} s"
    return Failure(member=member, node=tick.node_of(member), how=how, ranks=ranks, alike=ranks)
