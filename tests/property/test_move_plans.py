"""Plans of moves carried out by the kernel on imaginary racks, whatever is killed or fails at any moment of them."""

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from launcher.admission.moves.execution import PlanExecution
from launcher.admission.moves.planning import RoomRequest, plan_moves, reserve
from launcher.admission.reallocate import StoreAllotter
from launcher.admission.store_retry import StoreRetry
from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Slice
from launcher.core.model.record import Record
from launcher.core.model.run import GangName, Run, RunId, RunName, RunState
from launcher.core.model.simulation import Fault, FaultKind, SimSettings
from launcher.core.model.task import Group, RecoveryPolicy, RestartWith, Task, TopologyRule
from launcher.core.planner.defragment import MovePlan, nodes_of
from launcher.drive.adapters import open_prober
from launcher.drive.execute import Executor, Inline
from launcher.drive.loop import Loop
from launcher.errors import LaunchError
from launcher.sim.clock import SimClock
from launcher.sim.nodes import SimNodes
from launcher.store.rows import RunRow
from launcher.store.store import Store
from launcher.store.stored_plan import PlanState, StoredPlan
from launcher.store.user import User
from tests.effort import drawn, moments

NODES = 4
RACKS = 3
USER = User(name="ann", host="desk")
SETTLE = 80
"""So many turns after a plan has ended, whatever it began has shown."""
REST = 800
"""So many turns after that, every run has come to rest."""

_UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
few, more = settings(drawn(3), phases=_UNSHRUNK), settings(drawn(3), phases=_UNSHRUNK)
"""A case takes a second: shrinking one would take minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A run of the hall: the racks of its slices, and their size."""

    racks: tuple[int, ...]
    size: int
    spares: int = 0
    restart: RestartWith = RestartWith.RUN
    movable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """What is killed in a turn: the controller of the run of a number, or the process that carries out the plan.

    `alone`: no other controller takes the run over by itself.
    """

    turn: int
    run: int | None
    alone: bool = False


class KilledError(BaseException):
    """The process that carries out the plan is gone."""


class Turns:
    """The clock of an execution: while it waits, every run has a turn."""

    def __init__(self, hall: "Hall", deaths: Sequence[Death]) -> None:
        self._hall, self._deaths, self._at = hall, deaths, 0.0
        self.turn = 0

    def now(self) -> float:
        return self._at

    def wall(self) -> float:
        return time.time()

    def wait(self, until: float, wake: Callable[[], bool]) -> None:
        del wake
        self._at = until
        for death in self._deaths:
            if death.turn == self.turn:
                self._hall.kill(death.run, alone=death.alone)
        self.turn += 1
        self._hall.turn()


class Hall:
    """Racks of 4 nodes with runs on them, each driven one tick in a turn."""

    def __init__(self, home: Path, runs: Sequence[Placed], faults: tuple[Fault, ...] = ()) -> None:
        self.store, self.planner = Store(home), Store(home)
        sim = SimSettings(seed=1, start_s=3.0, run_s=1e6, faults=faults)
        self.fleet = Inventory(name="hall", transport=Transport.SIM, nodes=tuple(_nodes()), sim=sim)
        free = {rack: [node.name for node in self.fleet.nodes if node.rack == f"r{rack}"] for rack in range(RACKS)}
        self.ids: list[RunId] = []
        self.seen: list[set[str]] = []  # the racks of the first run after each turn
        for number, placed in enumerate(runs):
            self._launch(f"run{number}", placed, free)
        self.loops: dict[RunId, Loop] = {}
        self.clocks: dict[RunId, SimClock] = {}
        for run in self.ids:
            self.drive(run)

    def _launch(self, name: str, placed: Placed, free: Mapping[int, list[NodeName]]) -> None:
        parts: list[Slice] = []
        for index, rack in enumerate(placed.racks):
            names = tuple(free[rack].pop() for _ in range(placed.size + placed.spares))
            place = RackName(f"r{rack}")
            nodes, spares = names[: placed.size], names[placed.size :]
            parts.append(
                Slice(group="main", index=index, place=place, rack=place, domain=place, nodes=nodes, spares=spares)
            )
        rule = TopologyRule(slices=len(parts), nodes_per_slice=placed.size, spares=placed.spares)
        group = Group(
            name="main", topology=rule, gpus=4, run="true", recovery=RecoveryPolicy(restart_with=placed.restart)
        )
        task = Task(name=name, groups=(group,), movable=placed.movable, stop_grace=2.0)
        placement = Placement(slices=tuple(parts))
        run = self.store.launch(
            name=RunName(name), task=task, fleet=self.fleet, decide=lambda _: placement, source="task.yaml", at=1.0
        )
        self.ids.append(run.id)

    def drive(self, run_id: RunId) -> None:
        """Give a run a controller that knows what is stored."""
        run, _ = self.store.load(run_id)
        nodes, clock = SimNodes(self.store.worlds), SimClock(self.store.worlds, run)
        allotter = StoreAllotter(self.store, partial(open_prober, self.store.home))
        executor = Executor(nodes, Inline(), allotter)
        self.loops[run_id] = Loop(self.store, nodes, clock, executor, run_id, StoreRetry(lambda _: None))
        self.clocks[run_id] = clock

    def kill(self, number: int | None, *, alone: bool = False) -> None:
        if number is not None and alone:
            del self.loops[self.ids[number]]
            return
        if number is not None:
            self.drive(self.ids[number % len(self.ids)])
            return
        self.planner.close()  # nothing more of what it would have stored
        raise KilledError

    def turn(self) -> None:
        """Let each run decide and act once, then hold all to the rules."""
        for run, loop in self.loops.items():
            decision = loop.tick()
            clock = self.clocks[run]
            clock.wait(min(decision.wake_at, clock.now() + 1.0), lambda: False)
        _, record = self.check()[0]
        self.seen.append({slot.node[:2] for slot in record.slots.values()})

    def until_running(self) -> None:
        for _ in range(60):
            self.turn()
            if all(row.state is RunState.RUNNING for row in self.store.live()[0]):
                return
        raise AssertionError("the runs did not start")

    def check(self) -> list[tuple[Run, Record]]:
        """No node is given twice, no slice is split, no run is lost. Return the runs, as they are stored."""
        domains = {node.name: node.domain for node in self.fleet.nodes}
        holders = self.store.holders("hall")
        users: dict[NodeName, RunId] = {}
        stored = [self.store.load(run_id) for run_id in self.ids]
        for run_id, (run, record) in zip(self.ids, stored, strict=True):
            assert record.outcome is None, record.outcome
            for part in run.placement.slices:
                names = (*part.nodes, *part.spares)
                assert {domains[name] for name in names} == {part.domain}, "a slice is split"
                assert all(holders[name] == run_id for name in names), "a node of a slice is not the run's"
            parts = {member.name: member.slice_key for member in run.members()}
            racks: dict[str, set[str | None]] = {}
            for name, member in self.alive(run):
                assert users.setdefault(name, run_id) == run_id, f"{name} runs ranks of two runs"
                assert holders.get(name) == run_id, f"{name} runs ranks of a run that has not got it"
                racks.setdefault(parts[member], set()).add(domains[name])
            assert all(len(found) == 1 for found in racks.values()), "the ranks of a slice are in two racks"
        return stored

    def alive(self, run: Run) -> Iterator[tuple[NodeName, str]]:
        """The truth: the nodes where ranks of a run live, and which."""
        fleet, clock = SimNodes(self.store.worlds)._open(run)
        for node in run.fleet.nodes:
            for life in fleet.life(node.name).ranks:
                if life.alive(clock.now()):
                    yield node.name, life.rank.member

    def room(self, size: int = NODES) -> RoomRequest:
        group = Group(name="main", topology=TopologyRule(nodes_per_slice=size), gpus=4, run="true")
        return RoomRequest(task=Task(name="big", groups=(group,)), fleet=self.fleet)

    def plan(self, size: int = NODES) -> MovePlan | None:
        found = plan_moves(self.store, self.room(size))
        return found if isinstance(found, MovePlan) and found.steps else None

    def ensure(self, row: RunRow) -> None:
        """Give a run a controller if it has none."""
        if row.id not in self.loops:
            self.drive(row.id)

    def carry_out(self, plan: MovePlan, deaths: Sequence[Death] = ()) -> StoredPlan:
        """Carry a plan out; return it as it is stored in the end."""
        stored = reserve(self.planner, self.room(), plan, USER)
        clock = Turns(self, deaths)
        execution = PlanExecution(
            self.planner, stored, clock, ensure=self.ensure, tell=lambda _: None, stopped=lambda: False
        )
        try:
            execution.run()
        except (KilledError, sqlite3.ProgrammingError):
            self.planner = Store(self.store.home)
        return self.store.move_plans.load(stored.id)

    def settle(self) -> None:
        """Go on until every run is at rest: it runs, or waits for a person or a node."""
        for turn in range(SETTLE + REST):
            self.turn()
            states = {row.state for row in self.store.live()[0]}
            if turn > SETTLE and states <= {RunState.RUNNING, RunState.ON_HOLD}:
                return


def _nodes() -> Iterator[Node]:
    for rack in range(RACKS):
        for tray in range(NODES):
            name = NodeName(f"r{rack}-n{tray}")
            yield Node(name=name, rack=RackName(f"r{rack}"), domain=f"r{rack}", access=Access(address=name))


@contextmanager
def hall(runs: Sequence[Placed], faults: tuple[Fault, ...] = ()) -> Iterator[Hall]:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        found = Hall(Path(folder), runs, faults)
        found.until_running()
        yield found


@st.composite
def halls(draw: st.DrawFn) -> list[Placed]:
    """Runs of 1 or 2 slices of 1 or 2 nodes, on random racks with room for them; a rack is free only after moves."""
    free = dict.fromkeys(range(RACKS), NODES)
    found: list[Placed] = []
    for _ in range(draw(st.integers(2, 4))):
        size, spares = draw(st.integers(1, 2)), draw(st.sampled_from((0, 0, 1)))
        racks: list[int] = []
        for _ in range(draw(st.integers(1, 2))):
            rack = draw(st.integers(0, RACKS - 1))
            if free[rack] >= size + spares:
                free[rack] -= size + spares
                racks.append(rack)
        if racks:
            restart = draw(st.sampled_from((RestartWith.RUN, RestartWith.RUN, RestartWith.MEMBER)))
            movable = draw(st.sampled_from((True, True, True, False)))
            found.append(Placed(racks=tuple(racks), size=size, spares=spares, restart=restart, movable=movable))
    # Nothing else has a plan, and each case costs what it takes to start its runs.
    assume(all(left < NODES for left in free.values()) and sum(free.values()) >= NODES)
    assume(any(placed.movable for placed in found))
    return found


deaths = st.lists(
    st.builds(Death, turn=st.integers(0, 40), run=st.none() | st.integers(0, 3)), max_size=3, unique_by=lambda d: d.turn
)
faults = st.lists(
    st.builds(
        Fault,
        at=st.integers(8, 60).map(float),
        node=st.builds("r{}-n{}".format, st.integers(0, RACKS - 1), st.integers(0, NODES - 1)).map(NodeName),
        fault=st.sampled_from(
            (
                FaultKind.POWER_CUT,
                FaultKind.LINK_DOWN,
                FaultKind.RAYLET_KILLED,
                FaultKind.AGENT_KILLED,
                FaultKind.GPU_LOST,
            )
        ),
        duration=st.sampled_from((20.0, 60.0)),
    ),
    max_size=3,
).map(tuple)


@few
@given(runs=halls(), deaths=deaths)
def test_a_plan_is_carried_out_whatever_is_killed_or_leaves_each_run_whole(
    runs: list[Placed], deaths: list[Death]
) -> None:
    with hall(runs) as here:
        plan = here.plan()
        assume(plan is not None)
        assert plan is not None
        ended = here.carry_out(plan, deaths)
        here.settle()
        assert all(row.state is RunState.RUNNING for row in here.store.live()[0])
        if ended.state is PlanState.KEPT:
            assert not set(here.store.holders("hall")) & set(plan.placement.nodes), "the room is not free"
        restarted_once(here, ended)


def restarted_once(here: Hall, ended: StoredPlan) -> None:
    """Each gang that moved has restarted once, and no other has."""
    moved = {step.run for step in ended.steps}
    for run_id in here.ids:
        run, record = here.store.load(run_id)
        attempts = {gang.attempt for gang in record.gangs.values()}
        assert attempts <= ({1, 2} if run.name in moved else {1}), f"{run.name}: attempts {attempts}"


@more
@given(runs=halls(), deaths=deaths, faults=faults)
def test_a_plan_goes_on_or_stops_with_each_run_whole_whatever_fails(
    runs: list[Placed], deaths: list[Death], faults: tuple[Fault, ...]
) -> None:
    with hall(runs, faults) as here:
        try:
            plan = here.plan()
            assume(plan is not None)
            assert plan is not None
            here.carry_out(plan, deaths)
        except LaunchError:  # the fleet has changed since it was planned
            pass
        here.settle()
        for row in here.store.live()[0]:
            assert row.state in (RunState.RUNNING, RunState.ON_HOLD), row.status_message


TWO = (Placed(racks=(0,), size=2), Placed(racks=(1, 2), size=2), Placed(racks=(2,), size=1))
"""A rack is freed by one move."""


@pytest.mark.parametrize("run", [None, 0, 1], ids=["plan", "run0", "run1"])
@pytest.mark.parametrize("turn", moments(24, 8))
def test_one_death_at_each_moment_of_a_plan(turn: int, run: int | None) -> None:
    with hall(TWO) as here:
        plan = here.plan()
        assert plan is not None
        ended = here.carry_out(plan, [Death(turn=turn, run=run)])
        here.settle()
        assert all(row.state is RunState.RUNNING for row in here.store.live()[0])
        restarted_once(here, ended)
        if run is not None:
            assert ended.state is PlanState.KEPT
            return
        again = here.plan()  # the freed room fits now, or is freed by a plan that takes over
        if again is not None:
            assert here.carry_out(again).state is PlanState.KEPT
            here.settle()
        free = here.store.unavailable(here.fleet)
        assert [name for name in plan.placement.nodes if name not in free or free[name].used_by == "big"]


@pytest.mark.parametrize("turn", moments(24, 4))
def test_a_run_that_moves_gets_another_controller_when_its_own_is_killed(turn: int) -> None:
    with hall(TWO) as here:
        plan = here.plan()
        assert plan is not None
        ended = here.carry_out(plan, [Death(turn=turn, run=0, alone=True)])
        assert ended.state is PlanState.KEPT, ended.message
        restarted_once(here, ended)


PAIR = (
    Placed(racks=(0, 0), size=1),
    Placed(racks=(1,), size=3, movable=False),
    Placed(racks=(2,), size=3, movable=False),
)
"""A rack is freed by moving both slices of a run, to racks with room for one each."""


@pytest.mark.parametrize("late", [False, True], ids=["at once", "one node late"])
def test_slices_of_a_gang_that_move_together_restart_it_once(late: bool) -> None:
    faults: tuple[Fault, ...] = ()
    if late:
        with hall(PAIR) as here:
            plan = here.plan()
            assert plan is not None
            begun, node = here.clocks[here.ids[0]].now(), plan.moves[1].new.nodes[0]
        faults = (Fault(at=begun + 0.1, node=node, fault=FaultKind.LINK_DOWN, duration=6.0),)
    with hall(PAIR, faults) as here:
        plan = here.plan()
        assert plan is not None
        assert [len(step.moves) for step in plan.steps] == [2]
        assert here.carry_out(plan).state is PlanState.KEPT
        _, record = here.store.load(here.ids[0])
        assert record.gangs[GangName("run")].attempt == 2
        assert [racks for at, racks in enumerate(here.seen) if racks != here.seen[at - 1]] == [{"r0"}, {"r1", "r2"}]


def test_a_new_place_that_falls_silent_sends_its_slice_back() -> None:
    """A node to move to is cut off before its lease is had: the run goes on where it is, in its first attempt."""
    with hall(TWO) as here:
        plan = here.plan()
        assert plan is not None
        (step,) = plan.steps
        moving = next(run for run in here.ids if run.startswith(step.moves[0].run))
        begun = here.clocks[moving].now()
    dead = step.moves[0].new.nodes[0]
    fault = Fault(at=begun + 0.1, node=dead, fault=FaultKind.LINK_DOWN, duration=1e6)
    with hall(TWO, (fault,)) as here:
        again = here.plan()
        assert again is not None
        ended = here.carry_out(again)
        assert ended.state is PlanState.CANCELLED
        assert f"`run0` stays: {dead} did not get ready" in ended.message
        assert ended.spent == 0.0
        other = here.plan()
        assert other is None or dead not in {name for move in other.moves for name in nodes_of(move.new)}
        here.settle()
        run, record = here.store.load(next(one for one in here.ids if one.startswith(step.moves[0].run)))
        assert step.moves[0].old in run.placement.slices
        assert {gang.attempt for gang in record.gangs.values()} == {1}
        left = {name for name, holder in here.store.holders("hall").items() if holder == run.id}
        assert left - {dead} == {*run.placement.nodes}
        assert not here.store.move_plans.reserved("hall")
