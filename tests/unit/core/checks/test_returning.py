"""When a failed node comes back."""

import itertools

import pytest

from launcher.core.checks.results import CheckedNode, NodeVerdict
from launcher.core.checks.returning import (
    FIRST_S,
    LONGEST_S,
    UNCLEAR_S,
    after_check,
    count_relapses,
    retry_after,
    time_out,
    until_allowed,
)
from launcher.core.model.nodeset import NodeName

DAY = 86400.0


@pytest.mark.parametrize(
    ("failures", "returns", "relapses"),
    [
        ([], [], 0),
        ([0.0], [], 0),
        ([0.0, 100.0], [50.0], 1),
        ([0.0, 100.0, 9000.0], [50.0, 8000.0], 2),
        ([0.0, 2 * DAY], [50.0], 0),  # a day of good work
        ([0.0, 100.0, 3 * DAY], [50.0, DAY], 0),
        ([0.0, 100.0, 110.0], [50.0], 1),  # reported twice while it was out
        ([0.0, 100.0, 9 * DAY], [50.0], 0),
    ],
)
def test_a_failure_within_a_day_of_a_return_is_a_relapse(
    failures: list[float], returns: list[float], relapses: int
) -> None:
    assert count_relapses(failures, returns) == relapses


def test_a_time_out_begins_with_the_first_relapse_and_doubles_up_to_a_week() -> None:
    assert [time_out(count) for count in range(5)] == [0.0, FIRST_S, 2 * FIRST_S, 4 * FIRST_S, 8 * FIRST_S]
    assert time_out(10_000) == LONGEST_S
    bad = NodeVerdict.BAD
    assert [retry_after(count, bad) for count in range(1, 4)] == [600.0, 1200.0, 2400.0]
    assert retry_after(10_000, bad) == LONGEST_S
    assert retry_after(5, NodeVerdict.CANNOT_TELL) == UNCLEAR_S


def test_a_node_waits_for_the_end_of_its_time_out() -> None:
    waiting = until_allowed(1000.0, 500.0, 2)
    assert (waiting.now, waiting.again) == (False, 500.0 + 2 * FIRST_S)
    assert waiting.reason == "2 relapses within a day of a return: out for 2h"
    assert until_allowed(500.0 + 2 * FIRST_S, 500.0, 2).now
    assert until_allowed(500.0, 500.0, 0).now
    assert until_allowed(500.0, 500.0 + DAY, 2).now  # the clock was a day ahead: nothing is kept out until then


@pytest.mark.parametrize("verdict", list(NodeVerdict))
def test_only_a_good_check_brings_a_node_back(verdict: NodeVerdict) -> None:
    found = after_check(CheckedNode(node=NodeName("a"), verdict=verdict, message="why"), 1000.0, 1)
    assert found.now is (verdict is NodeVerdict.GOOD)
    wait = UNCLEAR_S if verdict is NodeVerdict.CANNOT_TELL else 1200.0
    assert found.again == (None if found.now else 1000.0 + wait)


def test_a_node_that_breaks_under_load_takes_down_one_run_in_an_hour_and_ever_fewer() -> None:
    """Its passive signs are good a minute after each failure; it is used again at once, and fails 20 s later."""
    failures: list[float] = []
    returns: list[float] = []
    now = 0.0
    while now < 2 * DAY:
        failures.append(now + 20.0)
        now = failures[-1]
        while not until_allowed(now, failures[-1], count_relapses(failures, returns)).now:
            now += 30.0
        now += 60.0
        returns.append(now)
    per_hour = [sum(low <= at < low + 3600.0 for at in failures) for low in range(0, 4 * 3600, 3600)]
    assert per_hour == [2, 1, 0, 1]  # with a check before its return that shows the fault, 1 and then none
    gaps = [round((after - before) / 3600.0) for before, after in itertools.pairwise(failures[1:])]
    assert gaps == [1, 2, 4, 8, 16]
