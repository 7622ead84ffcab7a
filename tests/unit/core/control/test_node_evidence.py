"""The evidence rule: which failures of programs speak against a node."""

from dataclasses import replace

import pytest

from launcher.core.control.blame.node_evidence import LIMIT, PastFailure, avoided, judge
from launcher.core.model.nodeset import NodeName
from launcher.core.model.record import ProgramFailure
from launcher.core.model.run import MemberName

BAD = NodeName("r1-n3")
OTHER = NodeName("r1-n5")


def failure(
    user: str, run: str, rank: int = 3, *, node: NodeName = BAD, code: int | None = 1, ranks: int = 8, alike: int = 1
) -> PastFailure:
    """A run of eight ranks on r1-n[1-8], of which this one failed first on a node."""
    found = ProgramFailure(
        node=node,
        member=MemberName(f"main/{rank}"),
        attempt=1,
        code=code,
        ranks=ranks,
        alike=alike,
        nodes="r1-n[1-8]",
    )
    return PastFailure(user=user, run=run, failure=found)


def of_users(*users: str, each: int = 3, **how: int) -> list[PastFailure]:
    return [failure(user, f"{user}-{'abcdef'[at]}", rank=at + 1, **how) for user in users for at in range(each)]


ONE_OF_MANY = of_users("ann", "bob")
TABLE = {
    "programs of two users, one rank among many": (ONE_OF_MANY, True, "6 programs of 2 users failed first here"),
    "three programs of one user": ([*of_users("ann", each=5)], True, "5 programs of 1 user"),
    "nothing": ([], False, "no program failed first here"),
    "one failure": (ONE_OF_MANY[:1], False, "too little to blame the node"),
    "one program again and again, in the same rank": ([failure("ann", "a")] * 50, False, "1 program of 1 user"),
    "one program again and again, in any rank": (
        [failure("ann", "a", rank) for rank in range(1, 8)],
        False,
        "1 program of 1 user",
    ),
    "a sweep is one program": ([failure("ann", f"sweep-{at}") for at in range(50)], False, "1 program of 1 user"),
    "two programs of one user": (
        [failure("ann", name, rank) for name in "ab" for rank in (1, 2, 3)],
        False,
        "2 programs",
    ),
    "the command is not found": (of_users("ann", "bob", "cem", code=127), False, "exit code 127"),
    "the command cannot be run": (of_users("ann", "bob", "cem", code=126), False, "exit code 126"),
    "the only rank": (of_users("ann", "bob", "cem", ranks=1), False, "the only rank failed"),
    "all ranks": (of_users("ann", "bob", "cem", alike=8), False, "8 of 8 ranks failed in the same way"),
    "most ranks": (of_users("ann", "bob", "cem", alike=5), False, "5 of 8 ranks failed in the same way"),
    "the replacement fails in the same way": (
        [*ONE_OF_MANY, *(replace(one, failure=replace(one.failure, node=OTHER)) for one in ONE_OF_MANY)],
        False,
        "the program fails in the same way on 2 nodes",
    ),
    "rank 0 of everybody": ([failure(user, f"{user}-x", 0) for user in "abcdefgh"], False, "too little"),
    "rank 0 of everybody, which failed in other ranks elsewhere": (
        [
            *(failure(user, f"{user}-x", 0) for user in "abcdef"),
            *(
                replace(one, failure=replace(one.failure, nodes="r2-n[1-8]"))
                for one in (failure(user, f"{user}-x", 5, node=NodeName("r2-n6"), code=9) for user in "abcdef")
            ),
        ],
        True,
        "6 programs of 6 users",
    ),
    "the same nodes fail first elsewhere as often": (
        [*ONE_OF_MANY, *of_users("cem", "dan", "eve", node=OTHER)],  # type: ignore[arg-type]
        False,
        "too little",
    ),
    "a killed rank is evidence as any": (of_users("ann", "bob", code=137), True, "6 programs"),
}


@pytest.mark.parametrize(("failures", "suspect", "reason"), TABLE.values(), ids=TABLE)
def test_verdict(failures: list[PastFailure], suspect: bool, reason: str) -> None:
    verdict = judge(BAD, failures)
    assert verdict.suspect == suspect
    assert verdict.weight >= LIMIT or not suspect
    assert reason in verdict.reason


def test_the_order_of_failures_does_not_matter() -> None:
    failures = [*ONE_OF_MANY, *of_users("cem", each=1, code=127)]
    assert judge(BAD, failures[::-1]).weight == pytest.approx(judge(BAD, failures).weight)


def test_the_next_run_of_a_program_avoids_the_node_where_it_failed_first_last() -> None:
    failures = [failure("ann", "sweep-1"), failure("bob", "b", node=OTHER), failure("cem", "c", code=127)]
    assert avoided(failures, "ann", "sweep-2") == BAD
    assert avoided(failures, "bob", "b") == OTHER
    assert avoided(failures, "cem", "c") is None, "a command that is not found is found nowhere"
    assert avoided(failures, "dan", "b") is None
    assert avoided([*failures, failure("ann", "sweep-2", node=OTHER)], "ann", "sweep-3") == OTHER
    assert avoided([], "ann", "a") is None
