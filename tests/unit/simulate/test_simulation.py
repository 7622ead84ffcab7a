"""Whole simulations: every second of every node is accounted for, and policies differ where they should."""

from dataclasses import replace

import pytest

from launcher.core.model.nodeset import NodeName
from launcher.core.model.task import OnNoSpare
from launcher.core.planner.faults import DAY_S, FaultModel, Outage, OutageScope
from launcher.simulate.experiment import Experiment, estimate, imaginary_fleet, play
from launcher.simulate.measures import Spent
from launcher.simulate.policy import Policy, QueueOrder
from launcher.simulate.simulation import Measured, Scenario, simulate
from launcher.simulate.workload import Job

HOUR = 3600.0


def job(name: str, nodes: int, hours: float, at: float = 0.0) -> Job:
    return Job(name=name, arrives_s=at * HOUR, gpus=4 * nodes, work_s=hours * HOUR)


def outage(at: float, node: str | None, lasts: float, scope: OutageScope = OutageScope.NODE) -> Outage:
    detection = 0.0 if scope in (OutageScope.RACK, OutageScope.MAINTENANCE) else 60.0
    return Outage(
        at_s=at * HOUR,
        rack="r1",  # type: ignore[arg-type]
        node=None if node is None else NodeName(node),
        scope=scope,
        detection_s=detection,
        repair_s=lasts * HOUR,
    )


def played(jobs: list[Job], outages: list[Outage], policy: Policy, *, racks: int = 1, nodes: int = 4) -> Measured:
    fleet = imaginary_fleet(racks, nodes)
    scenario = Scenario(inventory=fleet, jobs=jobs, outages=outages, days=1.0, warm_s=0.0)
    found = simulate(scenario, policy)
    assert sum(found.shares.values()) == pytest.approx(1)
    return found


def hours(found: Measured, cause: Spent, nodes: int = 4) -> float:
    """Node-hours of a cause."""
    return found.shares[cause] * 24 * nodes


def test_a_job_without_faults_is_productive_for_its_duration() -> None:
    policy = Policy(checkpoint_s=HOUR, write_s=36.0, program_start_s=360.0)
    found = played([job("a", 2, 5)], [], policy)
    assert hours(found, Spent.PRODUCTIVE) == pytest.approx(10)
    assert hours(found, Spent.CHECKPOINT) == pytest.approx(2 * 4 * 0.01)
    assert hours(found, Spent.START) == pytest.approx(2 * 0.1, abs=0.01)


def test_a_fault_costs_the_work_since_the_checkpoint_detection_and_restart() -> None:
    policy = Policy(checkpoint_s=HOUR, write_s=0.0, program_start_s=360.0, spares_from=1)
    found = played([job("a", 3, 5)], [outage(2.5, "r1-n1", 10)], policy)
    assert hours(found, Spent.PRODUCTIVE) == pytest.approx(15)
    assert hours(found, Spent.LOST) == pytest.approx(3 * 0.4, abs=0.02)  # it computes from 0.1 h on
    assert hours(found, Spent.UNDETECTED) == pytest.approx(3 / 60, abs=0.001)  # the broken node is in repair
    assert hours(found, Spent.DOWN) == pytest.approx(10 + 1 / 60)
    assert (found.incidents.hits, found.incidents.recovered, found.incidents.waited) == (1, 1, 0)
    assert found.incidents.recovery_s[0] < 10


def test_what_a_run_does_without_a_spare_is_its_policy() -> None:
    jobs, outages = [job("a", 4, 5)], [outage(2, "r1-n1", 3)]
    waits = played(jobs, outages, Policy(spares=0))
    assert waits.incidents.waited == 1
    assert hours(waits, Spent.WAITING) == pytest.approx(3 * 3, abs=0.2)
    fails = played(jobs, outages, Policy(spares=0, on_no_spare=OnNoSpare.FAIL))
    assert fails.incidents.requeued == 1
    assert hours(fails, Spent.FRAGMENTED) == pytest.approx(3 * 3, abs=0.2)
    moves = played(jobs, outages, Policy(spares=0, on_no_spare=OnNoSpare.RELOCATE), racks=2)
    assert moves.incidents.recovered == 1
    assert hours(moves, Spent.WAITING, 8) < 0.3


def test_a_fault_of_the_domain_interrupts_every_run_in_it() -> None:
    jobs = [job("a", 2, 5), job("b", 2, 5)]
    found = played(jobs, [outage(2, "r1-n1", 0.5, OutageScope.DOMAIN)], Policy())
    assert found.incidents.hits == 2


def test_a_rack_without_power_interrupts_its_runs_until_it_is_back() -> None:
    found = played([job("a", 4, 5)], [outage(2, None, 3, OutageScope.RACK)], Policy(spares=0))
    assert hours(found, Spent.DOWN) == pytest.approx(12)
    assert hours(found, Spent.PRODUCTIVE) == pytest.approx(20, abs=0.1)


def test_maintenance_drains_a_rack_first() -> None:
    jobs = [job("a", 2, 2), job("b", 2, 2, at=5)]
    found = played(jobs, [outage(8, None, 1, OutageScope.MAINTENANCE)], Policy(drain_notice_s=4 * HOUR))
    assert found.incidents.hits == 0
    assert hours(found, Spent.MAINTENANCE) == pytest.approx(4 * 5)
    (line,) = found.waits
    assert line.p95_s == pytest.approx(4 * HOUR)  # the second job waits for the end of the work


def test_backfill_starts_what_delays_no_earlier_run_and_fifo_does_not() -> None:
    jobs = [job("long", 3, 10), job("wide", 4, 1, at=0.1), job("short", 1, 1, at=0.2), job("slow", 1, 15, at=0.3)]
    backfill = played(jobs, [], Policy(spares=0))
    waits = {line.gpus: line for line in backfill.waits}
    assert waits[4].median_s > 5 * HOUR  # `slow` may take longer than the nodes are free
    assert waits[4].mean_s == pytest.approx(waits[4].median_s / 2, rel=0.01)  # `short` did not wait
    fifo = played(jobs, [], Policy(spares=0, queue=QueueOrder.FIFO))
    assert min(line.mean_s for line in fifo.waits if line.gpus == 4) > 5 * HOUR


def test_large_jobs_preempt_small_ones_that_come_back() -> None:
    jobs = [job("a", 2, 5), job("b", 2, 5), job("large", 4, 2, at=1)]
    found = played(jobs, [], Policy(spares=0, preempt_from_gpus=16))
    assert found.incidents.preempted == 2
    assert hours(found, Spent.PRODUCTIVE) == pytest.approx(28)
    assert max(line.mean_s for line in found.waits if line.gpus == 16) < 120


def test_moves_make_room_within_their_budget() -> None:
    # Two racks, each half full with a run that stays: a slice of a whole rack fits after one move.
    jobs = [job("a", 2, 20), job("fill", 2, 1), job("b", 2, 20), job("wide", 4, 2, at=2)]
    moved = played(jobs, [], Policy(spares=0, defragment_gpu_hours=100.0), racks=2)
    stay = played(jobs, [], Policy(spares=0), racks=2)
    assert (moved.incidents.moved, stay.incidents.moved) == (1, 0)
    assert 0 < moved.incidents.move_gpu_hours < 1
    assert {line.gpus: line.mean_s for line in moved.waits}[16] < 0.5 * HOUR
    assert {line.gpus: line.mean_s for line in stay.waits}[16] > 10 * HOUR


def test_the_same_seed_gives_every_policy_the_same_jobs_and_faults() -> None:
    experiment = Experiment(
        inventory=imaginary_fleet(2, 18),
        model=FaultModel(),
        days=3.0,
        seeds=2,
        jobs=(job("a", 4, 6), job("b", 16, 12)),
        repeat=True,
        load=0.7,
    )
    one, other = play(experiment, (Policy(), replace(Policy(), name="other", spares=0)))
    again = play(experiment, (Policy(),))[0]
    assert again.outcomes == one.outcomes
    assert [found.incidents.faults for found in one.outcomes] == [found.incidents.faults for found in other.outcomes]
    assert [found.jobs for found in one.outcomes] == [found.jobs for found in other.outcomes]
    assert one.outcomes[0] != one.outcomes[1]
    assert one.against(one).mean == 0
    for found in (*one.outcomes, *other.outcomes):
        assert sum(found.shares.values()) == pytest.approx(1)


def test_the_margin_is_students() -> None:
    found = estimate([1.0, 2.0, 3.0])
    assert found.mean == 2
    assert found.margin == pytest.approx(4.30 / 3**0.5)
    assert estimate([1.0]).margin is None


def test_jobs_of_a_file_arrive_after_the_fleet_is_warm() -> None:
    experiment = Experiment(inventory=imaginary_fleet(1, 4), model=FaultModel(), days=5.0, jobs=(job("a", 1, 1),))
    scenario = experiment.scenario(1)
    assert scenario.jobs[0].arrives_s == scenario.warm_s == DAY_S
