"""Failing programs on an imaginary fleet take no healthy node from anybody, and show the bad one."""

import pytest

from tests.bench.bench_blame import RUNS, play


@pytest.mark.parametrize("seed", range(4))
def test_the_bad_node_alone_is_quarantined_within_ten_failures(seed: int) -> None:
    result = play(seed, busy=0.4)
    assert result.quarantined == (result.bad,)
    assert result.found_after is not None
    assert result.found_after <= 10
    assert len(result.counted) > 10, "counting failures would have taken many nodes"


@pytest.mark.parametrize("busy", [0.0, 0.5])
def test_programs_alone_cost_no_node(busy: float) -> None:
    assert play(1, busy=busy, bad=False).quarantined == ()


def test_an_empty_fleet_where_each_run_begins_on_the_same_nodes_costs_no_healthy_node() -> None:
    result = play(2, busy=0.0)
    assert RUNS >= 300
    assert set(result.quarantined) <= {result.bad}
