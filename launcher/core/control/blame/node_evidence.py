"""Whether failures of programs speak against a node: evidence, not counts.

A program fails on some node each time, and best fit begins with the same nodes each time: counting failures takes
healthy nodes from everybody. Each failure is weighed instead: how much likelier is it that its first failing rank was
on this node if the node is bad than if the program is? The product of these weights exceeds a limit L on a healthy
node with a chance of 1/L at most, however many programs fail (Ville's inequality, for ranks that fail at random). What
repeats itself without a node is counted once or not at all.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from launcher.core.model.nodeset import NodeName, expand
from launcher.core.model.record import ProgramFailure
from launcher.core.model.text import count

LIMIT = 3000.0
"""The weight that quarantines a node. On a fleet of 54 healthy nodes the chance of any quarantine is below 2 %."""

PROGRAM_LIMIT = 100.0
"""The most that the failures of one program of one user weigh, so that debugging it takes no node from others."""

USERS, PROGRAMS = 2, 3
"""Programs of so many users have to fail first on a node, or so many programs."""

FAILS = 0.9
"""The chance that a run with a bad node fails first there; else its program was faster."""

RANK_0 = 0.5
"""The chance that a program which fails by itself does so in rank 0: it reads, writes and reports for all."""

NOT_FOUND = (126, 127)
"""Exit codes of a shell for a command that cannot be run, or is not there."""

_NUMBER_AT_END = re.compile(r"(?<=.)[-_.]?\d+$")


def program_of(run: str) -> str:
    """Return the name of a run without a number at its end: the runs of a sweep are one program."""
    return _NUMBER_AT_END.sub("", run)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastFailure:
    """A failure of a program of some user, and the name of its run."""

    user: str
    run: str
    failure: ProgramFailure

    @property
    def program(self) -> str:
        """Return the name of the program."""
        return program_of(self.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceVerdict:
    """Whether a node is to be quarantined, the weight against it, and why."""

    suspect: bool
    weight: float
    reason: str


_Kind: TypeAlias = tuple[str, str, str, int | None]
"""User, program, rank and exit code: failures that are equal in these are the same one again."""


def judge(node: NodeName, failures: Sequence[PastFailure]) -> EvidenceVerdict:
    """Return the verdict on a node by the failures of a day, in any order."""
    weights: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
    here: set[_Kind] = set()
    excuses: list[str] = []
    for kind, alike in _kinds(failures).items():
        why_not = _excuse(alike)
        first = next((one for one in alike if one.failure.node == node), None)
        if why_not and first:
            excuses.append(why_not)
        elif why_not is None and first:
            weights[kind[:2]] *= FAILS / _chance(first, failures)
            here.add(kind)
        elif why_not is None and any(node in _nodes(one.failure.nodes) for one in alike):
            weights[kind[:2]] *= (1 - FAILS) / (1 - 1 / alike[0].failure.ranks)
    total = 1.0
    for weight in weights.values():
        total *= min(weight, PROGRAM_LIMIT)
    users, programs = len({kind[0] for kind in here}), len({kind[:2] for kind in here})
    if total >= LIMIT and (users >= USERS or programs >= PROGRAMS):
        reason = (
            f"{count(programs, 'program')} of {count(users, 'user')} failed first here, and others beside it went on"
        )
        return EvidenceVerdict(suspect=True, weight=total, reason=reason)
    if here:
        reason = (
            f"{count(programs, 'program')} of {count(users, 'user')} failed first here: too little to blame the node"
        )
    else:
        reason = excuses[0] if excuses else "no program failed first here"
    return EvidenceVerdict(suspect=False, weight=total, reason=reason)


def excuse(failure: ProgramFailure) -> str | None:
    """Return why a failure by itself says nothing about its node; None if it may."""
    if failure.code in NOT_FOUND:
        return f"exit code {failure.code}: the command cannot be run"
    if failure.ranks == 1:
        return "the only rank failed"
    if failure.alike * 2 > failure.ranks:
        return f"{failure.alike} of {failure.ranks} ranks failed in the same way"
    return None


def _excuse(alike: Sequence[PastFailure]) -> str | None:
    """Return why failures of one kind say nothing about any node."""
    elsewhere = {one.failure.node for one in alike}
    if len(elsewhere) > 1:
        return f"the program fails in the same way on {count(len(elsewhere), 'node')}"
    return next((why for one in alike if (why := excuse(one.failure))), None)


def _chance(one: PastFailure, failures: Sequence[PastFailure]) -> float:
    """Return the chance of a failure in this rank if the program is at fault.

    Rank 0 is the likeliest, unless the program has failed in another rank where it had other nodes.
    """
    failure = one.failure
    cleared = any(
        failure.node not in _nodes(other.failure.nodes) and other.failure.member != failure.member
        for other in failures
        if (other.user, other.program) == (one.user, one.program) and excuse(other.failure) is None
    )
    return 1 / failure.ranks if cleared or not failure.member.endswith("/0") else max(1 / failure.ranks, RANK_0)


def avoided(failures: Sequence[PastFailure], user: str, run: str) -> NodeName | None:
    """Return the node that the next run of a program should not have, if it fits without; failures are oldest first.

    Best fit would give it the same nodes again. Elsewhere it fails in the same way, or the node is the likelier cause.
    """
    program = program_of(run)
    last = next((one.failure for one in reversed(failures) if (one.user, one.program) == (user, program)), None)
    return last.node if last is not None and excuse(last) is None else None


def _kinds(failures: Iterable[PastFailure]) -> dict[_Kind, list[PastFailure]]:
    found: dict[_Kind, list[PastFailure]] = {}
    for one in failures:
        found.setdefault((one.user, one.program, one.failure.member, one.failure.code), []).append(one)
    return found


@lru_cache(maxsize=1024)
def _nodes(folded: str) -> frozenset[str]:
    return frozenset(expand(folded))
