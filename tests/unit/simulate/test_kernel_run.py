"""Runs under the real kernel: what it decides about faults, and for how long a run does not compute."""

from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Unavailable
from launcher.core.model.run import RunState
from launcher.core.model.simulation import Fault, FaultKind
from launcher.core.model.task import OnNoSpare
from launcher.core.placement.place import place
from launcher.simulate.experiment import imaginary_fleet
from launcher.simulate.kernel_run import KernelRun
from launcher.simulate.policy import Policy
from launcher.simulate.workload import Job

DAY = 86_400.0


def run_on(fleet: Inventory, nodes: int, policy: Policy) -> KernelRun:
    task = policy.task(Job(name="job", arrives_s=0.0, gpus=4 * nodes, work_s=DAY), 4)
    placement = place(task, fleet, {})
    assert isinstance(placement, Placement)
    run = KernelRun(task, placement, fleet)
    run.advance(1000.0)
    return run


def breaks(run: KernelRun, node: NodeName, lasts: float = DAY) -> None:
    run.strike(
        [
            Fault(at=run.now, node=node, fault=FaultKind.GPU_LOST, duration=lasts),
            Fault(at=run.now, node=node, fault=FaultKind.RANK_FAILS),
        ]
    )


def full(fleet: Inventory) -> dict[NodeName, Unavailable]:
    return {node.name: Unavailable(used_by="others") for node in fleet.nodes}


def test_recoveries_take_as_long_as_on_the_rig_within_a_fifth() -> None:
    for kind, measured in ((FaultKind.RAYLET_KILLED, 3.9), (FaultKind.POWER_CUT, 21.6)):
        run = run_on(imaginary_fleet(3, 5), 3, Policy(spares_from=1))
        run.strike([Fault(at=run.now, node=run.placement.slices[0].nodes[1], fault=kind)])
        settled = run.settle(dict)
        assert settled.runs
        assert abs(settled.took_s / measured - 1) < 0.2


def test_a_spare_takes_the_place_of_a_broken_node() -> None:
    run = run_on(imaginary_fleet(1, 5), 4, Policy(spares_from=1))
    node, spare = run.placement.slices[0].nodes[0], run.placement.slices[0].spares[0]
    breaks(run, node)
    assert run.settle(dict).runs
    assert spare in run.working
    assert node not in run.working


def test_without_a_spare_a_free_node_of_the_rack_is_used() -> None:
    run = run_on(imaginary_fleet(1, 5), 4, Policy(spares=0))
    breaks(run, run.placement.slices[0].nodes[0])
    assert run.settle(dict).runs
    assert len(run.held) == 5


def test_a_run_that_finds_no_node_waits_and_goes_on_after_the_repair() -> None:
    fleet = imaginary_fleet(1, 4)
    run = run_on(fleet, 4, Policy(spares=0))
    breaks(run, run.placement.slices[0].nodes[0])
    assert run.settle(lambda: full(fleet)).state is RunState.ON_HOLD
    run.advance(run.now + DAY)
    assert run.settle(lambda: full(fleet)).runs


def test_a_run_that_may_not_wait_fails() -> None:
    fleet = imaginary_fleet(1, 4)
    run = run_on(fleet, 4, Policy(spares=0, on_no_spare=OnNoSpare.FAIL))
    breaks(run, run.placement.slices[0].nodes[0])
    assert run.settle(lambda: full(fleet)).state is RunState.FAILED


def test_a_lost_rack_is_left_for_another() -> None:
    run = run_on(imaginary_fleet(4, 4), 12, Policy(slice_nodes=4, spares=0, on_no_spare=OnNoSpare.RELOCATE))
    first = run.placement.slices[0]
    run.strike(Fault(at=run.now, node=name, fault=FaultKind.POWER_CUT, duration=DAY) for name in first.nodes)
    settled = run.settle(lambda: {name: Unavailable(unhealthy="off") for name in first.nodes})
    assert settled.runs
    assert not set(first.nodes) & run.working


def test_a_drained_rack_is_left_before_the_work_on_it() -> None:
    run = run_on(imaginary_fleet(2, 4), 4, Policy(spares=0, on_no_spare=OnNoSpare.RELOCATE))
    left = run.placement.slices[0].nodes
    run.drain(left, "maintenance")
    assert run.settle(lambda: {name: Unavailable(drained="maintenance") for name in left}).runs
    assert not set(left) & run.working


def test_an_operator_confirms_that_machines_out_of_sight_are_off() -> None:
    fleet = imaginary_fleet(2, 2)
    run = run_on(fleet, 2, Policy(spares=0, on_no_spare=OnNoSpare.RELOCATE))
    lost = run.placement.slices[0].nodes
    off = {name: Unavailable(unhealthy="off") for name in lost}
    run.strike(Fault(at=run.now, node=name, fault=FaultKind.POWER_CUT, duration=DAY) for name in lost)
    assert not run.settle(lambda: off).runs  # nobody is left who could tell a dead rack from a cut link
    run.confirm_dead(lost)
    run.advance(run.now + 60)
    settled = run.settle(lambda: off)
    run.advance(run.now + 61)
    assert settled.runs or run.settle(lambda: off).runs
