"""Advice for a job: the best of the slices that are large enough, and the task's own."""

from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.planner.faults import FaultModel, rate_of
from launcher.core.planner.size_advice import OwnSize, advise, main_group, own_size
from launcher.core.planner.sizing import FleetShape, JobShape

FLEET, JOB, MODEL = FleetShape(racks=9), JobShape(nodes=128), FaultModel()


def test_without_a_limit_slices_have_at_least_32_gpus() -> None:
    found = advise(JOB, FLEET, MODEL)
    assert found.least_nodes == 8
    assert found.best is not None
    assert found.best.line.slice_nodes == 16
    assert found.own is None


def test_the_limit_can_be_set() -> None:
    found = advise(JOB, FLEET, MODEL, least_gpus=6)
    assert found.least_nodes == 2
    assert found.best is not None
    assert found.best.line.slice_nodes == 2


def test_a_task_of_small_slices_is_not_told_to_take_large_ones() -> None:
    found = advise(JOB, FLEET, MODEL, own=OwnSize(group="main", slice_nodes=2, spares=0))
    assert found.least_nodes == 2
    assert found.own is not None
    assert (found.own.slice_nodes, found.own.spares) == (2, 0)


def test_the_spares_of_the_task_have_a_line() -> None:
    found = advise(JobShape(nodes=32), FLEET, MODEL, own=OwnSize(group="main", slice_nodes=8, spares=5))
    assert found.own is not None
    assert found.own.spares == 5


def test_small_racks_allow_small_slices() -> None:
    found = advise(JobShape(nodes=6), FleetShape(racks=2, nodes_per_rack=3), MODEL)
    assert found.least_nodes == 3
    assert found.best is not None


def test_the_reason_says_why_nothing_is_best() -> None:
    full = advise(JobShape(nodes=160), FLEET, MODEL, least_gpus=32)
    assert full.best is None
    assert full.reason == (
        "No choice fits: the job needs 160 nodes, "
        "and the fleet is expected to have room for 144 in slices of at least 8."
    )
    large = advise(JOB, FLEET, MODEL, least_gpus=72)
    assert large.best is None
    assert large.reason == "No slice has 18 nodes: the largest that divides the job has 16 nodes."


def test_a_job_that_fills_every_rack_fits_while_few_nodes_are_down() -> None:
    """9 slices of 16 on 9 racks: 8.9999 of them are expected to have room."""
    found = advise(JobShape(nodes=144), FLEET, MODEL)
    whole = next(line for line in found.lines if (line.slice_nodes, line.spares) == (16, 0))
    assert whole.room < 9
    assert whole.fits
    rough = advise(JobShape(nodes=144), FLEET, FaultModel(rate=rate_of("10d", 4)))
    assert not next(line for line in rough.lines if (line.slice_nodes, line.spares) == (16, 0)).fits


def test_a_fleet_that_is_always_down_is_no_error() -> None:
    found = advise(JobShape(nodes=400), FleetShape(racks=2, nodes_per_rack=900), FaultModel(rate=rate_of("1h", 4)))
    assert found.best is None


def task(*groups: Group) -> Task:
    return Task(name="job", groups=groups)


def group(name: str, gpus: int = 4, **rule: object) -> Group:
    return Group(name=name, topology=TopologyRule(**rule), gpus=gpus)  # type: ignore[arg-type]


def test_the_main_group_has_the_most_gpus_of_its_own() -> None:
    roles = task(
        group("driver", gpus=0),
        group("actor", slices=2, nodes_per_slice=4, spares=1),
        group("critic", gpus=4, slices=4, nodes_per_slice=4, nodes_of="actor"),
    )
    assert main_group(roles).name == "actor"
    assert own_size(roles) == OwnSize(group="actor", slice_nodes=4, spares=1)


def test_slices_that_may_span_racks_have_no_size() -> None:
    assert own_size(task(group("main", nodes_per_slice=64, within="any"))) is None
