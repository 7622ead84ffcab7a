"""The imaginary fleet: the suite of its port, what each fault does, and what several processes see of it."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.core.model.actions import Acquire, Level, PowerOff, Signal, StartHead
from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import (
    AgentReport,
    GroupState,
    HeadSeen,
    Health,
    Phase,
    Seen,
    Sighting,
    Symptom,
    Unseen,
)
from launcher.core.model.placement import Placement, Slice
from launcher.core.model.receipt import Result
from launcher.core.model.run import MemberName, Run, RunId, RunName
from launcher.core.model.simulation import Fault, FaultKind, SimSettings
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.ports import LogName
from launcher.sim.clock import SimClock
from launcher.sim.nodes import SimNodes
from launcher.store.store import Store
from tests.contracts import ports_suite as suite
from tests.contracts.ports_suite import REASON, NodesSuite, Program

AMPLE_S = 300.0
STEP_S = 0.5


def make_run(run_id: str, *, slices: int = 1, ranks: int = 2, spares: int = 1, sim: SimSettings | None = None) -> Run:
    """A run of one group: slice k in rack rk, on its nodes n0.. in rank order, its spares after them."""
    parts = []
    nodes: list[Node] = []
    for at in range(slices):
        rack = RackName(f"r{at}")
        names = tuple(NodeName(f"{rack}-n{n}") for n in range(ranks + spares))
        nodes += [Node(name=name, rack=rack, domain=rack, access=Access(address=f"10.0.{name}")) for name in names]
        part = Slice(
            group="main", index=at, place=rack, rack=rack, domain=rack, nodes=names[:ranks], spares=names[ranks:]
        )
        parts.append(part)
    topology = TopologyRule(slices=slices, nodes_per_slice=ranks, spares=spares)
    task = Task(name="job", groups=(Group(name="main", topology=topology, gpus=4, run="true"),))
    fleet = Inventory(name="hall", transport=Transport.SIM, nodes=tuple(nodes), sim=sim or SimSettings())
    return Run(id=RunId(run_id), name=RunName("job"), task=task, placement=Placement(slices=tuple(parts)), fleet=fleet)


class SimHarness:
    """A fleet of one rack of three nodes, kept in a real store, each run with a virtual clock of its own."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.nodes = SimNodes(store.worlds)
        self._placed = 0

    has_gpus = True

    def place(self, program: Program, *faults: Fault, crowded: bool = False) -> Run:
        failing = tuple(
            Fault(at=0.0, node=node, fault=FaultKind.RANK_FAILS, duration=float("inf"))
            for node in (FIRST, SECOND)
            if program is Program.FAILS
        )
        strange = (Fault(at=0.0, node=FIRST, fault=FaultKind.GPU_TAKEN),) if crowded else ()
        run_s = 5.0 if program is Program.SUCCEEDS else 600.0
        self._placed += 1
        return make_run(f"job-{self._placed}", sim=SimSettings(run_s=run_s, faults=(*failing, *strange, *faults)))

    def until(self, run: Run, holds: Callable[[Sighting], bool]) -> Sighting:
        clock = SimClock(self.store.worlds, run)
        deadline = clock.now() + AMPLE_S
        while not holds(seen := self.nodes.look(run)):
            assert clock.now() < deadline, seen
            clock.wait(clock.now() + STEP_S, lambda: False)
        return seen

    def at(self, run: Run, moment: float) -> Sighting:
        """Look at a moment after the run's first action, which all tests do at 0."""
        SimClock(self.store.worlds, run).wait(moment, lambda: False)
        return self.nodes.look(run)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SimHarness]:
    store = Store(tmp_path)
    yield SimHarness(store)
    store.close()


class TestSimNodes(NodesSuite):
    """The imaginary fleet keeps the contract of the port."""


FIRST, SECOND, SPARE = NodeName("r0-n0"), NodeName("r0-n1"), NodeName("r0-n2")


def started(harness: SimHarness, *faults: Fault) -> Run:
    """A run whose ranks run from some seconds after 0 on, well before 20."""
    run = harness.place(Program.LASTS, *faults)
    slots = suite.bring_up(harness, run)
    suite.start(harness, run, slots, 1)
    assert SimClock(harness.store.worlds, run).now() < 20.0
    return run


def test_a_killed_raylet_takes_its_rank_and_ray_notices_later(harness: SimHarness) -> None:
    run = started(harness, Fault(at=30.0, node=SECOND, fault=FaultKind.RAYLET_KILLED))
    assert agent(harness.at(run, 29.0), SECOND).ray.phase is Phase.RUNNING
    seen = harness.at(run, 31.0)
    assert agent(seen, SECOND).ray.phase is Phase.FAILED
    assert [(report.running, report.exit_code) for report in agent(seen, SECOND).ranks] == [(False, None)]
    assert suite.group_state(seen) is GroupState.CREATED
    later = harness.at(run, 34.0)
    assert suite.group_state(later) is GroupState.RESCHEDULING
    assert [bundle.slot for bundle in suite.head(later).groups[0].bundles] == ["main-0", None]
    assert [report.running for report in agent(later, FIRST).ranks] == [True]


@pytest.mark.parametrize("reserve", [False, True])
def test_a_group_with_a_driver_has_a_rank_on_its_first_node_alone(harness: SimHarness, reserve: bool) -> None:
    run = harness.place(Program.LASTS)
    group = replace(run.task.groups[0], run="", driver="true", reserve=reserve)
    run = replace(run, task=replace(run.task, groups=(group,)))
    slots = suite.bring_up(harness, run)
    suite.start(harness, run, slots, 1)
    seen = harness.nodes.look(run)
    assert [(one.member, one.running) for one in agent(seen, FIRST).ranks] == [("main/0", True)]
    assert agent(seen, SECOND).ranks == ()


@pytest.mark.parametrize(
    ("kind", "code"), [(FaultKind.RANK_FAILS, 9), (FaultKind.RANK_KILLED, None)], ids=["fails", "killed"]
)
def test_a_rank_ends_and_its_raylet_stays(harness: SimHarness, kind: FaultKind, code: int | None) -> None:
    run = started(harness, Fault(at=30.0, node=SECOND, fault=kind, code=9))
    found = agent(harness.at(run, 31.0), SECOND)
    assert found.ray.phase is Phase.RUNNING
    assert [(report.running, report.exit_code, report.ended_ago) for report in found.ranks] == [(False, code, 1.0)]


def test_what_a_killed_agent_had_started_is_left_over_until_it_is_killed(harness: SimHarness) -> None:
    run = started(harness, Fault(at=30.0, node=SECOND, fault=FaultKind.AGENT_KILLED))
    assert harness.at(run, 31.0).nodes[SECOND] == Seen(leftovers=2)
    assert suite.claim(harness, run, SECOND).result is Result.DONE
    assert harness.nodes.look(run).nodes[SECOND] == Seen(agent=AgentReport(head_silent=0.0), leftovers=2)
    assert suite.kill(harness, run, SECOND, Level.NODE).result is Result.KILLED
    view = harness.nodes.look(run).nodes[SECOND]
    assert isinstance(view, Seen)
    assert view.leftovers == 0


def test_a_power_cut_hides_a_node_and_leaves_nothing_on_it(harness: SimHarness) -> None:
    run = started(harness, Fault(at=30.0, node=SECOND, fault=FaultKind.POWER_CUT, duration=60.0))
    seen = harness.at(run, 31.0)
    assert isinstance(seen.nodes[SECOND], Unseen)
    assert suite.group_state(seen) is GroupState.CREATED
    assert suite.kill(harness, run, SECOND, Level.NODE).result is Result.CANNOT_TELL
    assert suite.release(harness, run, SECOND).result is Result.CANNOT_TELL
    assert suite.claim(harness, run, SECOND).result is Result.FAILED
    assert suite.group_state(harness.at(run, 49.0)) is GroupState.RESCHEDULING
    assert harness.at(run, 91.0).nodes[SECOND] == Seen()
    assert suite.claim(harness, run, SECOND).result is Result.DONE


@pytest.mark.parametrize("kind", [FaultKind.POWER_CUT, FaultKind.AGENT_KILLED, FaultKind.LINK_DOWN])
def test_a_lease_dies_with_its_agent_and_only_then(harness: SimHarness, kind: FaultKind) -> None:
    run = started(harness, Fault(at=30.0, node=SECOND, fault=kind))
    harness.at(run, 29.0)
    assert suite.claim(harness, harness.place(Program.LASTS), SECOND).result is Result.HELD
    harness.at(run, 31.0)
    next_run = harness.place(Program.LASTS)
    held = kind is FaultKind.LINK_DOWN
    assert suite.claim(harness, next_run, SECOND).result is (Result.HELD if held else Result.DONE)
    assert harness.nodes.look(next_run).nodes[SECOND] == Seen(agent=None if held else AgentReport())
    assert suite.claim(harness, harness.place(Program.LASTS), SECOND).result is Result.HELD


def test_power_that_an_ended_run_had_cut_is_on_for_the_next(harness: SimHarness) -> None:
    run = started(harness)
    harness.at(run, 30.0)
    fenced = replace(run, fleet=replace(run.fleet, fence_command="true"))
    assert harness.nodes.perform(fenced, PowerOff(reason=REASON, node=SECOND)).result is Result.POWERED_OFF
    next_run = harness.place(Program.LASTS)
    assert suite.claim(harness, next_run, SECOND).result is Result.DONE
    assert harness.at(next_run, 40.0).nodes[SECOND] == Seen(agent=AgentReport())


def test_a_short_silence_harms_nothing(harness: SimHarness) -> None:
    run = started(harness, Fault(at=30.0, node=SECOND, fault=FaultKind.LINK_DOWN, duration=10.0))
    before = harness.at(run, 29.0)
    assert isinstance(harness.at(run, 35.0).nodes[SECOND], Unseen)
    assert harness.at(run, 60.0) == before


def test_a_long_silence_ends_in_the_agents_self_stop(harness: SimHarness) -> None:
    run = started(harness, Fault(at=30.0, node=SECOND, fault=FaultKind.LINK_DOWN, duration=20.0))
    found = agent(harness.at(run, 51.0), SECOND)
    assert found.ray.phase is Phase.FAILED
    assert [(report.running, report.ended_ago) for report in found.ranks] == [(False, 9.0)]


def test_a_silent_head_host_stops_the_other_nodes(harness: SimHarness) -> None:
    run = started(harness, Fault(at=30.0, node=FIRST, fault=FaultKind.POWER_CUT))
    seen = harness.at(run, 46.0)
    assert isinstance(seen.head, Unseen)
    assert agent(seen, SECOND).ray.phase is Phase.FAILED


def test_a_killed_head_comes_back_with_its_tables(harness: SimHarness) -> None:
    run = started(harness, Fault(at=30.0, node=FIRST, fault=FaultKind.HEAD_KILLED))
    seen = harness.at(run, 31.0)
    assert isinstance(seen.head, HeadSeen)
    assert seen.head.head is not None
    assert seen.head.head.ray.phase is Phase.FAILED
    assert [report.running for report in agent(seen, SECOND).ranks] == [True]
    assert harness.nodes.perform(run, StartHead(reason=REASON)).result is Result.DONE
    healed = harness.until(run, lambda seen: suite.head(seen).ready)
    assert suite.group_state(healed) is GroupState.CREATED


def test_a_failing_setup_is_seen_and_may_be_tried_again(harness: SimHarness) -> None:
    run = harness.place(Program.LASTS, Fault(at=0.0, node=FIRST, fault=FaultKind.SETUP_FAILS, duration=5.0, code=7))
    suite.claim(harness, run, FIRST)
    suite.prepare(harness, run, FIRST, 0)
    step = agent(harness.at(run, 6.0), FIRST).setup
    assert (step.phase, step.exit_code) == (Phase.FAILED, 7)
    suite.prepare(harness, run, FIRST, 0)
    assert agent(harness.at(run, 12.0), FIRST).setup.phase is Phase.DONE


def test_a_slow_node_takes_longer(harness: SimHarness) -> None:
    run = harness.place(Program.LASTS, Fault(at=0.0, node=FIRST, fault=FaultKind.SLOW_START))
    for node in (FIRST, SECOND):
        suite.claim(harness, run, node)
        suite.prepare(harness, run, node, 0)
    seen = harness.at(run, 3.0)
    assert agent(seen, FIRST).setup.phase is Phase.RUNNING
    assert agent(seen, SECOND).setup.phase is Phase.DONE


def test_a_stranger_holds_the_lease_for_a_while(harness: SimHarness) -> None:
    run = harness.place(Program.LASTS, Fault(at=0.0, node=FIRST, fault=FaultKind.LEASE_HELD, duration=5.0))
    answer = suite.claim(harness, run, FIRST)
    assert (answer.result, "somebody@elsewhere" in answer.message) == (Result.HELD, True)
    harness.at(run, 6.0)
    assert suite.claim(harness, run, FIRST).result is Result.DONE


def test_a_signal_ends_the_ranks_of_a_node(harness: SimHarness) -> None:
    run = started(harness)
    now = SimClock(harness.store.worlds, run).now()
    action = Signal(reason=REASON, node=SECOND, signal="TERM")
    assert harness.nodes.perform(run, action).result is Result.DONE
    harness.at(run, now + 0.9)
    assert harness.nodes.perform(run, action).result is Result.DONE
    seen = harness.at(run, now + 1.1)
    assert [report.exit_code for report in agent(seen, SECOND).ranks] == [143]
    assert [report.running for report in agent(seen, FIRST).ranks] == [True]


def test_a_slot_in_another_domain_never_heals_its_group(harness: SimHarness) -> None:
    run = harness.place(Program.LASTS)
    moved = tuple(replace(node, domain="far") if node.name == SPARE else node for node in run.fleet.nodes)
    run = replace(run, fleet=replace(run.fleet, nodes=moved))
    slots = suite.bring_up(harness, run)
    lost = slots[1]
    suite.kill(harness, run, lost.node, Level.GENERATION, lost.member, generation=1)
    suite.claim(harness, run, SPARE)
    suite.prepare(harness, run, SPARE, 1)
    harness.until(run, lambda seen: suite.setup(seen, SPARE) is Phase.DONE)
    swapped = replace(lost, node=SPARE, generation=2)
    suite.join(harness, run, swapped)
    seen = harness.until(run, lambda seen: suite.alive(seen, run, swapped))
    assert suite.group_state(harness.at(run, 60.0)) is GroupState.RESCHEDULING
    assert [node.domain for node in suite.head(seen).nodes if node.generation == 2] == ["far"]


def test_another_process_sees_the_same_fleet_at_the_same_time(harness: SimHarness) -> None:
    run = started(harness)
    seen = harness.nodes.look(run)
    store = Store(harness.store.home)
    others = SimNodes(store.worlds)
    assert others.look(run) == seen
    assert SimClock(store.worlds, run).now() == SimClock(harness.store.worlds, run).now()
    harness.at(run, 601.0)
    tail = others.read_log(run, SECOND, LogName(member=MemberName("main/1")), -30).data
    assert tail.splitlines()[-1] == b"step 9 of 10"
    other = replace(run, id=RunId("job-9"))
    assert others.perform(other, Acquire(reason=REASON, node=FIRST)).result is Result.HELD
    store.close()


def test_a_clock_with_a_speed_really_waits_and_can_be_woken(harness: SimHarness) -> None:
    run = make_run("job-s", sim=SimSettings(speed=100.0))
    clock = SimClock(harness.store.worlds, run)
    began, real = clock.now(), time.monotonic()
    clock.wait(began + 10.0, lambda: False)
    assert clock.now() >= began + 10.0
    assert time.monotonic() - real >= 0.05
    before = clock.now()
    clock.wait(before + 1e6, lambda: True)
    assert clock.now() < before + 1e5
    assert SimClock(harness.store.worlds, run).now() >= before


def agent(seen: Sighting, node: NodeName) -> AgentReport:
    found = suite.agent(seen, node)
    assert found is not None
    return found


def test_a_stopped_raylet_lives_until_it_learns_that_ray_gave_it_up(harness: SimHarness) -> None:
    run = started(harness, Fault(at=30.0, node=SECOND, fault=FaultKind.RAYLET_STOPPED, duration=40.0))
    seen = harness.at(run, 49.0)
    assert agent(seen, SECOND).ray.phase is Phase.RUNNING
    assert [node.alive for node in suite.head(seen).nodes] == [True, False]
    assert agent(harness.at(run, 71.0), SECOND).ray.phase is Phase.FAILED


def test_ten_seconds_of_a_stopped_raylet_harm_nothing(harness: SimHarness) -> None:
    run = started(harness, Fault(at=30.0, node=SECOND, fault=FaultKind.RAYLET_STOPPED, duration=10.0))
    before = harness.at(run, 29.0)
    assert harness.at(run, 60.0) == before


@pytest.mark.parametrize(
    ("kind", "answers"), [(FaultKind.SSH_DOWN, True), (FaultKind.LINK_DOWN, False)], ids=["ours", "all"]
)
def test_others_say_whether_they_reach_what_we_do_not(harness: SimHarness, kind: FaultKind, answers: bool) -> None:
    run = started(harness, Fault(at=30.0, node=SECOND, fault=kind, duration=12.0))
    seen = harness.at(run, 40.0)
    assert isinstance(seen.nodes[SECOND], Unseen)
    assert seen.reached[SECOND].answers is answers
    assert suite.head(seen).heard[SECOND] == (0.0 if answers else 10.0)


def test_a_head_that_is_cut_off_from_most_ends_itself_and_its_own_node(harness: SimHarness) -> None:
    run = make_run("job-cut", ranks=3, sim=SimSettings(faults=(Fault(at=40.0, node=FIRST, fault=FaultKind.LINK_DOWN),)))
    slots = suite.bring_up(harness, run)
    suite.claim(harness, run, run.placement.nodes[3])
    suite.start(harness, run, slots, 1)
    fleet, _ = harness.nodes._open(run)
    assert any(one.alive(51.0) for one in fleet.life(FIRST).ranks)
    seen = harness.at(run, 53.0)
    assert not any(one.alive(53.0) for node in run.placement.nodes for one in fleet.life(node).ranks)
    assert agent(seen, SECOND).head_silent == 13.0


def test_what_befalls_a_node_is_what_it_says_of_itself(harness: SimHarness) -> None:
    faults = (
        Fault(at=30.0, node=SECOND, fault=FaultKind.GPU_LOST, duration=10.0),
        Fault(at=30.0, node=SECOND, fault=FaultKind.PROBE_HANGS, duration=10.0),
        Fault(at=30.0, node=FIRST, fault=FaultKind.SSH_DOWN, duration=10.0),
    )
    run = started(harness, *faults)
    harness.at(run, 31.0)
    found = harness.nodes.inspect(run, SECOND)
    assert isinstance(found, Health)
    assert (found.worst, found.hung) == (Symptom.GPU_LOST, ("nvidia-smi",))
    assert isinstance(harness.nodes.inspect(run, FIRST), Unseen)
    harness.at(run, 41.0)
    assert harness.nodes.inspect(run, SECOND) == Health(at=0.0)


def test_power_that_is_cut_by_order_ends_what_nobody_can_see(harness: SimHarness) -> None:
    run = started(harness, Fault(at=30.0, node=SECOND, fault=FaultKind.LINK_DOWN))
    off = PowerOff(reason=REASON, node=SECOND)
    assert harness.nodes.perform(run, off).result is Result.FAILED
    run = replace(run, fleet=replace(run.fleet, fence_command="off {node}"))
    harness.at(run, 35.0)
    assert harness.nodes.perform(run, off).result is Result.POWERED_OFF
    fleet, _ = harness.nodes._open(run)
    assert not any(one.alive(35.1) for one in (*fleet.life(SECOND).ranks, *fleet.life(SECOND).raylets))
