"""Rates from a fleet's own incidents, and how far they can be trusted."""

import pytest

from launcher.core.planner.observed import FEW, FEWEST, ObservedFaults


def test_the_rate_is_incidents_by_gpu_days() -> None:
    found = ObservedFaults(incidents=20, gpu_days=40_000)
    assert found.rate(4).per_day(4) == pytest.approx(20 / 10_000)
    assert found.rate(4).source == "20 incidents in 10000.0 node-days of runs"
    assert found.node_days(8) == 5_000


@pytest.mark.parametrize(("incidents", "low", "high"), [(3, 0.619, 8.77), (10, 4.80, 18.4), (100, 81.4, 121.6)])
def test_the_interval_is_that_of_a_poisson_count(incidents: int, low: float, high: float) -> None:
    """Exact 95 % limits of a count (Garwood 1936); the approximation is within 3 % from 3 on."""
    soonest, latest = ObservedFaults(incidents=incidents, gpu_days=4_000).days_between(4)
    assert soonest == pytest.approx(1_000 / high, rel=0.03)
    assert latest == pytest.approx(1_000 / low, rel=0.03)


def test_few_incidents_are_doubtful_and_fewer_give_no_rate() -> None:
    assert ObservedFaults(incidents=FEW - 1, gpu_days=100).doubtful
    assert not ObservedFaults(incidents=FEW, gpu_days=100).doubtful
    with pytest.raises(ValueError, match=r"2 incidents in 25\.0 node-days of runs give no rate"):
        ObservedFaults(incidents=FEWEST - 1, gpu_days=100).rate(4)
    with pytest.raises(ValueError, match="give no rate"):
        ObservedFaults(incidents=5, gpu_days=0).rate(4)
