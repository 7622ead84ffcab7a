"""What a journal adds up to."""

import pytest

from launcher.core.model.actions import Why
from launcher.drive.run_stats import RunStats
from launcher.store.journal import Event, EventKind


def tally(*entries: tuple[float, str, str, str]) -> RunStats:
    found = RunStats()
    for seq, (at, kind, subject, reason) in enumerate(entries, start=1):
        found.add(Event(seq=seq, at=at, kind=EventKind(kind), subject=subject, message="", reason=reason))
    return found


START = (
    (0.0, "launched", "job", ""),
    (0.0, "status", "starting", ""),
    (1.0, "intent", "join:n1#0", "start"),
    (1.0, "intent", "join:n2#0", "start"),
    (5.0, "intent", "start:run@1", "start"),
    (10.0, "status", "running", ""),
)
SWAP = (
    (100.0, "status", "recovering", ""),
    (101.0, "intent", "kill:n2:generation:main/1@0#0", "rejoin"),
    (102.0, "intent", "join:n2#1", "rejoin"),
    (103.0, "intent", "join:n2#1", "rejoin"),
    (110.0, "intent", "join:n3#2", "rejoin"),
    (115.0, "intent", "start:run@2", "rejoin"),
    (116.0, "status", "recovering", ""),
    (120.0, "status", "running", ""),
)


def test_a_start_is_no_recovery() -> None:
    found = tally(*START)
    assert (found.attempts, found.joins, found.recoveries) == ({}, {}, [])


def test_a_recovery_is_named_by_what_it_came_to_and_lasts_until_all_run_again() -> None:
    found = tally(*START, *SWAP)
    assert found.attempts == {Why.REPLACE: 1}
    assert found.joins == {Why.REJOIN: 1, Why.REPLACE: 1}
    assert found.recoveries == [(Why.REPLACE, 20.0)]


def test_what_nobody_did_anything_about_is_no_recovery() -> None:
    found = tally(*START, (50.0, "status", "on-hold", ""), (60.0, "status", "running", ""), *SWAP)
    assert found.recoveries == [(Why.REPLACE, 20.0)]


def test_what_is_done_beside_ranks_that_run_begins_no_recovery() -> None:
    aside = ((60.0, "intent", "release:slot:n3", "replace"), (61.0, "intent", "relocate:main.s0", "relocate"))
    restart = (
        (100.0, "status", "recovering", ""),
        (101.0, "intent", "start:run@2", "restart"),
        (104.0, "status", "running", ""),
    )
    found = tally(*START, *aside, *restart)
    assert (found.attempts, found.recoveries) == ({Why.RESTART: 1}, [(Why.RESTART, 4.0)])


def test_goodput_is_the_share_of_its_time_in_which_ranks_ran() -> None:
    found = tally(*START, *SWAP)
    assert found.spent_by(220.0) == {"starting": 10.0, "running": 190.0, "recovering": 20.0}
    assert found.goodput(220.0) == pytest.approx(190 / 220)
    over = tally(*START, (30.0, "status", "stopping", ""), (40.0, "ended", "succeeded", ""))
    assert over.goodput(1000.0) == pytest.approx(20 / 40)
