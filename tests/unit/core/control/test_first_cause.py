"""Which rank failed first."""

import pytest

from launcher.core.control.blame.first_cause import RankFailure, by_cause, exit_text, followers_text
from launcher.core.model.record import Exit
from tests.situations import make_run

MEMBERS = list(make_run(slices=1, nodes=6).members())


def failures(*ends: tuple[int | None, float]) -> list[RankFailure]:
    return [
        RankFailure(member=MEMBERS[rank], exit=Exit(attempt=1, code=code, at=at))
        for rank, (code, at) in enumerate(ends)
    ]


@pytest.mark.parametrize(
    ("ends", "first"),
    [
        pytest.param([(1, 3.0), (1, 2.0)], 1, id="the earliest"),
        pytest.param([(1, 3.0), (1, 3.0)], 0, id="of equal ones the lowest rank"),
        pytest.param([(1, 2.8), (137, 3.0)], 1, id="SIGKILL before an exit code"),
        pytest.param([(1, 2.8), (139, 6.0)], 1, id="SIGSEGV before an exit code"),
        pytest.param([(1, 2.8), (135, 3.0)], 1, id="SIGBUS before an exit code"),
        pytest.param([(1, 2.8), (None, 3.0)], 1, id="vanished: its parent was killed too"),
        pytest.param([(134, 3.0), (1, 2.8)], 1, id="SIGABRT is a watchdog's answer"),
        pytest.param([(143, 3.0), (1, 2.8)], 1, id="SIGTERM"),
        pytest.param([(141, 3.0), (1, 2.8)], 1, id="SIGPIPE"),
        pytest.param([(134, 2.8), (1, 3.0)], 0, id="SIGABRT that was first"),
        pytest.param([(137, 9.0), (1, 2.0), (139, 6.9)], 2, id="only what was killed soon after"),
        pytest.param([(137, 9.0), (1, 2.0)], 1, id="killed much later"),
        pytest.param([(137, 3.0), (139, 2.9), (1, 2.0)], 1, id="of killed ones the earliest"),
    ],
)
def test_first(ends: list[tuple[int | None, float]], first: int) -> None:
    assert by_cause(failures(*ends))[0].member.rank == first


def test_followers_are_named_up_to_three() -> None:
    first, *rest = by_cause(failures((137, 3.0), (1, 2.8), (134, 3.1), (1, 3.2), (1, 3.3), (1, 3.4)))
    assert exit_text(first.exit.code) == "exited with 137 (SIGKILL)"
    said = "; then main/1 exited with 1, main/2 exited with 134 (SIGABRT), main/3 exited with 1 and 2 other ranks"
    assert followers_text(rest) == said
    assert followers_text(()) == ""


def test_no_failures_have_no_cause() -> None:
    assert by_cause(()) == ()
