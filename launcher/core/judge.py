"""Gangs: have their ranks ended, why, and may they start again."""

from launcher.core.actions import Reason, Why
from launcher.core.draft import Draft
from launcher.core.observation import Phase, Seen
from launcher.core.run import Cause, Exit, Member, Outcome
from launcher.core.seat import GangName


def judge(draft: Draft) -> None:
    """Decide for each gang what its exits mean: nothing, the end of the epoch, or the end of the run."""
    for name in draft.gangs:
        failed = _first_failure(draft, name)
        if failed and not draft.gangs[name].broken:
            _failure(draft, name, *failed)
    if all(member.name in draft.exits and draft.exits[member.name].ok for member in draft.members):
        count = len(draft.members)
        words = "its one rank ended with 0" if count == 1 else f"all {count} ranks ended with 0"
        draft.end(Outcome(cause=Cause.SUCCESS, words=words))


def _first_failure(draft: Draft, name: GangName) -> tuple[Member, Exit] | None:
    """Answer the rank that failed first: by node time, then rank; clocks of nodes may differ by a little."""
    failures = [
        (draft.exits[member.name].at, at, member)
        for at, member in enumerate(draft.of_gang(name))
        if member.name in draft.exits and not draft.exits[member.name].ok
    ]
    if not failures:
        return None
    member = min(failures)[2]
    return member, draft.exits[member.name]


def _failure(draft: Draft, name: GangName, member: Member, ended: Exit) -> None:
    node = draft.seats[member.name].node
    how = "was killed" if ended.code is None else f"exited with {ended.code}"
    if _node_failed(draft, member):
        draft.break_gang(name, Reason(why=Why.REJOIN, words=f"`{node}` failed under {member.name}"))
        return
    budget = draft.run.group(member.group).recovery.max_restarts
    spent = draft.gangs[name].restarts
    if spent < budget:
        words = f"{member.name} on {node} {how}: restart {spent + 1} of {budget}"
        draft.break_gang(name, Reason(why=Why.RESTART, words=words), spend=True)
        return
    after = f" after {spent} restart{'s' * (spent != 1)}" if spent else ""
    draft.end(
        Outcome(
            cause=Cause.PROGRAM,
            words=f"{member.name} on {node} {how}{after}",
            member=member.name,
            node=node,
            exit_code=ended.code,
            tail=ended.tail,
        )
    )


def _node_failed(draft: Draft, member: Member) -> bool:
    """Answer whether the raylet under a rank ended too: then the exit says nothing about the program."""
    view = draft.seen.nodes.get(draft.seats[member.name].node)
    return isinstance(view, Seen) and (view.keeper is None or view.keeper.ray.phase is Phase.FAILED)
