"""The nodes of a simulated fleet: what counts as free, and where a task goes."""

from random import Random

from launcher.core.queue.timeline import fit
from launcher.simulate.experiment import imaginary_fleet
from launcher.simulate.fleet_state import FleetState, NodeStatus, Trouble
from launcher.simulate.policy import Policy
from launcher.simulate.workload import Job


def test_statuses_add_up_through_troubles_that_overlap() -> None:
    fleet = FleetState(imaginary_fleet(2, 3))
    first, second, *_ = fleet.racks["r1"]
    fleet.take([first], "a")
    fleet.begin(Trouble.FAULT, [first, second])
    fleet.begin(Trouble.FAULT, [first])
    fleet.begin(Trouble.DRAIN, [second])
    assert fleet.counts[NodeStatus.DOWN] == 2
    fleet.end(Trouble.FAULT, [first, second])
    assert (fleet.status(first), fleet.status(second)) == (NodeStatus.DOWN, NodeStatus.MAINTENANCE)
    fleet.end(Trouble.FAULT, [first])
    fleet.end(Trouble.DRAIN, [second])
    assert (fleet.status(first), fleet.status(second)) == (NodeStatus.HELD, NodeStatus.FREE)
    assert sum(fleet.counts.values()) == fleet.size == 6
    assert fleet.free == {"r1": 2, "r2": 3}


def test_a_drained_node_that_a_run_has_still_works_for_it() -> None:
    fleet = FleetState(imaginary_fleet(1, 2))
    name = fleet.racks["r1"][0]
    fleet.take([name], "a")
    fleet.begin(Trouble.DRAIN, [name])
    assert fleet.up(name)
    assert fleet.status(name) is NodeStatus.HELD
    fleet.begin(Trouble.WORK, [name])
    assert not fleet.up(name)


def test_tasks_go_where_placement_on_the_whole_fleet_puts_them() -> None:
    rnd, policy = Random(1), Policy(spares_from=4)
    fleet = FleetState(imaginary_fleet(12, 18))
    placed: dict[str, tuple[str, ...]] = {}
    for number in range(120):
        if placed and rnd.random() < 0.4:
            fleet.release(placed.pop(rnd.choice(sorted(placed))))  # type: ignore[arg-type]
        job = Job(name=f"job-{number}", arrives_s=0.0, gpus=4 * rnd.choice((1, 2, 5, 16, 40)), work_s=1.0)
        task = policy.task(job, 4)
        found = fleet.place(task)
        assert found == fit(task, fleet.inventory, fleet.unavailable)
        if found is not None:
            assert fleet.room(task.groups[0].topology)
            fleet.take(found.nodes, task.name)
            placed[task.name] = found.nodes


def test_fragments_are_free_nodes_that_slices_cannot_use() -> None:
    fleet = FleetState(imaginary_fleet(1, 18))
    shares = {16: 0.5, 8: 0.3, 4: 0.2}
    assert fleet.fragments(shares) == 2.0
    for taken, lost in ((3, 10.2), (6, 7.2), (10, 4.0), (14, 3.2)):
        one = FleetState(imaginary_fleet(1, 18))
        one.take(one.racks["r1"][:taken], "a")
        assert round(one.fragments(shares), 6) == lost
