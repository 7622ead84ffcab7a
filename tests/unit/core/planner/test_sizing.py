"""Sizes of slices and numbers of spares, against tables of binomials and published figures."""

from dataclasses import replace

import pytest

from launcher.core.planner.faults import PUBLISHED, FaultModel
from launcher.core.planner.goodput import JobCycle, goodput
from launcher.core.planner.sizing import (
    FleetShape,
    JobShape,
    SizeLine,
    best_size,
    covered,
    holds,
    size_table,
    slice_sizes,
    spares_needed,
    usable_share,
)

RACK = 18
SHARES = (0.005, 0.01, 0.02, 0.03, 0.05, 0.10)

USABLE = [
    (1, (99.5, 99.0, 98.0, 97.0, 95.0, 90.0)),
    (4, (88.9, 88.9, 88.8, 88.5, 87.6, 82.9)),
    (6, (97.1, 94.5, 89.8, 85.9, 79.9, 71.6)),
    (8, (88.9, 88.9, 88.7, 88.2, 86.3, 77.1)),
    (9, (95.7, 91.7, 84.8, 78.9, 69.9, 57.5)),
    (12, (66.7, 66.7, 66.7, 66.7, 66.7, 66.6)),
    (16, (88.9, 88.8, 88.4, 87.5, 83.7, 65.2)),
    (18, (91.4, 83.5, 69.5, 57.8, 39.7, 15.0)),
]
"""Percent of a rack of 18 that segments of so many nodes can use, with nodes down independently with each share."""


@pytest.mark.parametrize(("segment", "percent"), USABLE)
def test_usable_share_of_a_rack(segment: int, percent: tuple[float, ...]) -> None:
    found = [f"{usable_share(segment, RACK, down) * 100:.1f}" for down in SHARES]
    assert found == [f"{figure:.1f}" for figure in percent]


@pytest.mark.parametrize(
    ("down", "expected"),
    [
        (0.01, (".9993", ".9862", ".8345")),
        (0.02, (".9948", ".9505", ".6951")),
        (0.05, (".9419", ".7735", ".3972")),
    ],
)
def test_probability_that_a_rack_has_enough_nodes(down: float, expected: tuple[str, ...]) -> None:
    """At least 16, 17 and 18 nodes of 18, binomial."""
    assert [f"{holds(nodes, RACK, down):.4f}" for nodes in (16, 17, 18)] == [f"0{figure}" for figure in expected]


@pytest.mark.parametrize(("segment", "percent"), [(18, 0.66), (9, 1.42), (6, 2.43)])
def test_crossovers_with_slices_of_16(segment: int, percent: float) -> None:
    """In steps of 0.01 %: the first share of nodes down at which slices of 16 are as good."""
    steps = (step / 10_000 for step in range(1, 1_000))
    first = next(down for down in steps if usable_share(segment, RACK, down) <= usable_share(16, RACK, down))
    assert first * 100 == pytest.approx(percent)


def test_slices_of_8_are_never_worse_than_16() -> None:
    for permille in range(0, 500, 5):
        down = permille / 1000
        assert usable_share(8, RACK, down) >= usable_share(16, RACK, down) - 1e-12


@pytest.mark.parametrize(("machines", "spares"), [(128, 2), (256, 2), (512, 3), (1_024, 4)])
def test_spares_of_byterobust(machines: int, spares: int) -> None:
    """99th percentile at 0.12 % a machine and recovery window, arXiv 2509.16293."""
    assert spares_needed(machines, 0.0012) == spares


@pytest.mark.parametrize(("down", "spares"), [(0.001, 1), (0.005, 1), (0.01, 2), (0.02, 2)])
def test_spares_within_one_rack(down: float, spares: int) -> None:
    """99th percentile of 18 nodes: 1 up to 0.5 %, 2 at 1 to 2 %; binomial, in the form of arXiv 2509.16293."""
    assert spares_needed(RACK, down) == spares


def test_no_spare_is_needed_where_nothing_fails() -> None:
    assert spares_needed(RACK, 0.0) == 0
    assert spares_needed(RACK, 1.0) == RACK


def test_covered_share_of_faults() -> None:
    assert covered(16, 0, 0.01) == 0
    assert covered(16, 1, 0.0) == 1
    up, one_down = 0.99**16, 16 * 0.01 * 0.99**15
    assert covered(16, 1, 0.01) == pytest.approx(up / (up + one_down))
    assert covered(16, 2, 0.01) > covered(16, 1, 0.01)


FLEET = FleetShape(racks=9)
JOB = JobShape(nodes=64)
MODEL = FaultModel()


def line(size: int, spares: int, **changes: float) -> SizeLine:
    return size_table(JOB, FLEET, MODEL, sizes=(size,), spares=(spares,), **changes)[0]


def test_lines_have_the_figures_of_the_models() -> None:
    found = line(16, 1, down=0.01)
    assert (found.slices, found.spare_gpus, found.name) == (4, 16, "16 nodes + 1 spare")
    assert found.usable == pytest.approx(usable_share(17, RACK, 0.01) * 16 / 17)
    assert found.holds == pytest.approx(holds(17, RACK, 0.01))
    assert found.room == pytest.approx(9 * holds(17, RACK, 0.01))
    faults = MODEL.rate.per_day(256) + 0.075 * MODEL.rate.per_day(4 * 72 - 256)
    assert found.restarts_per_week == pytest.approx(7 * faults, rel=0.001)
    requeue = JobCycle(faults_per_day=faults, restart_s=300, interval_s=found.interval_s, write_s=10)
    assert found.goodput_requeue == pytest.approx(goodput(requeue))
    assert found.goodput_in_place > found.goodput_requeue
    assert found.progress == pytest.approx(found.usable * found.goodput_in_place)


def test_without_spares_recovery_goes_through_the_queue() -> None:
    found = line(16, 0)
    assert found.goodput_in_place == pytest.approx(found.goodput_requeue)
    assert found.name == "16 nodes"


def test_the_share_down_follows_from_faults_and_repairs() -> None:
    assert line(16, 0).usable == pytest.approx(usable_share(16, RACK, 0.0037), abs=0.0005)


def test_tables_have_every_size_that_divides_the_job_and_fits() -> None:
    assert slice_sizes(JOB, FLEET) == (1, 2, 4, 8, 16)
    found = size_table(JOB, FLEET, MODEL)
    assert [(one.slice_nodes, one.spares) for one in found] == [
        (size, spares) for size in (1, 2, 4, 8, 16) for spares in (0, 1, 2)
    ]
    whole = size_table(JobShape(nodes=36), FLEET, MODEL, sizes=(18,), spares=(0, 1))
    assert [(one.slice_nodes, one.spares, one.slices) for one in whole] == [(18, 0, 2)]


def test_a_job_that_a_size_does_not_divide_gets_whole_slices() -> None:
    assert size_table(JOB, FLEET, MODEL, sizes=(12,), spares=(0,))[0].slices == 6


def test_smaller_slices_share_racks_and_their_faults() -> None:
    fine, coarse = line(8, 0), line(16, 0)
    assert fine.restarts_per_week == pytest.approx(coarse.restarts_per_week)
    assert line(6, 0).restarts_per_week > coarse.restarts_per_week * 0.99


def test_the_best_size_is_the_larger_of_two_that_are_alike() -> None:
    found = best_size(size_table(JOB, FLEET, MODEL, down=0.01), least_nodes=8)
    assert found is not None
    assert (found.line.slice_nodes, found.line.spares) == (16, 0)
    assert found.reason == (
        "88.3% of the fleet's GPU time becomes progress with 16 nodes a slice, "
        "which keeps more traffic on NVLink than 8 nodes with 88.3%."
    )


def test_many_failed_nodes_make_smaller_slices_better() -> None:
    found = best_size(size_table(JOB, FLEET, MODEL, down=0.10), least_nodes=8)
    assert found is not None
    assert found.line.slice_nodes == 8
    assert found.reason.endswith("a slice, the most of all choices of at least 8 nodes.")


def test_faults_and_slow_queues_make_spares_worth_their_nodes() -> None:
    model = FaultModel(rate=replace(PUBLISHED["rsc-1"], per_gpu_day=0.02))
    job = JobShape(nodes=64, requeue_s=4 * 3600)
    found = best_size(size_table(job, FLEET, model, sizes=(16,), down=0.01))
    assert found is not None
    assert found.line.spares == 1


def test_slices_may_be_small_where_the_program_allows_it() -> None:
    found = best_size(size_table(JOB, FLEET, MODEL, down=0.01))
    assert found is not None
    assert found.line.slice_nodes == 1
    assert found.reason.endswith("the most of all choices.")


def test_no_choice_is_best_where_none_fits() -> None:
    assert best_size(size_table(JobShape(nodes=180), FLEET, MODEL)) is None
    assert best_size(()) is None


def test_a_fleet_without_faults_needs_no_checkpoints() -> None:
    quiet = FaultModel(rate=replace(PUBLISHED["rsc-1"], per_gpu_day=0.0))
    found = size_table(JOB, FLEET, quiet, sizes=(16,), spares=(0,))[0]
    assert found.restarts_per_week == 0
    assert found.interval_s == float("inf")
