"""The real loop, store and controller processes over an imaginary fleet: kept promises when processes die."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest

from launcher.admission.store_retry import ControllerLog, StoreRetry
from launcher.core.control.conditions import Condition
from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import Cause, Run, RunId, RunName, RunState
from launcher.core.model.simulation import Fault, FaultKind, SimSettings
from launcher.drive.control import control
from launcher.drive.execute import Executor, Inline
from launcher.drive.leftovers import left_of, release_left
from launcher.drive.loop import Loop
from launcher.drive.spawn import spawn
from launcher.errors import ConflictError
from launcher.sim.clock import SimClock
from launcher.sim.nodes import SimNodes
from launcher.store.owner import Owner
from launcher.store.rows import RunRow
from launcher.store.store import Store
from tests.effort import moments
from tests.situations import make_run

DEADLINE = 30.0


class Hall:
    """A home with an imaginary fleet, and the controllers that a test started."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = Store(home)

    def launch(self, name: str = "job", *, sim: SimSettings, run: Run | None = None) -> RunId:
        """A run that nobody drives yet."""
        run = run or make_run(slices=2, nodes=2, spares=1)
        fleet = replace(run.fleet, name=f"hall-{name}", sim=sim)
        made = self.store.launch(
            name=RunName(name), task=run.task, fleet=fleet, decide=lambda _: run.placement, source="x", at=time.time()
        )
        return made.id

    def row(self, run: RunId) -> RunRow:
        return self.store.find(run)

    def owner(self, run: RunId) -> Owner:
        owner = self.row(run).owner
        assert owner is not None
        return owner

    def until(self, run: RunId, holds: Callable[[RunRow], bool]) -> RunRow:
        """The row of a run, as soon as it is as it should be."""
        deadline = time.monotonic() + DEADLINE
        while not holds(row := self.row(run)):
            assert time.monotonic() < deadline, f"{row.state.value}: {row.status_message}"
            time.sleep(0.02)
        return row

    def kill(self, run: RunId) -> None:
        """Kill the controller of a run, and see it gone."""
        owner = self.owner(run)
        os.kill(owner.pid, signal.SIGKILL)
        deadline = time.monotonic() + DEADLINE
        while owner.alive():
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[Hall]:
    made = Hall(tmp_path / "home")
    yield made
    for row in made.store.runs():
        if row.owner and row.owner.alive() and row.owner.pid != os.getpid():
            os.kill(row.owner.pid, signal.SIGKILL)


def snapshot(row: RunRow) -> dict[str, object]:
    assert row.snapshot is not None
    return dict(json.loads(row.snapshot))


def test_a_run_goes_from_launch_to_success_and_frees_its_nodes(hall: Hall) -> None:
    run = hall.launch(sim=SimSettings(run_s=60.0))
    assert control(hall.home, run) is RunState.SUCCEEDED
    row = hall.row(run)
    assert (row.state, row.outcome.cause if row.outcome else None) == (RunState.SUCCEEDED, Cause.SUCCESS)
    assert not hall.store.unavailable(replace(hall.store.load(run)[0].fleet))
    assert row.owner is None


def test_a_detached_controller_is_replaced_after_kill_9_and_no_rank_notices(hall: Hall) -> None:
    run = hall.launch(sim=SimSettings(run_s=400.0, speed=100.0))
    spawn(hall.home, run)
    hall.until(run, lambda row: row.state is RunState.RUNNING)
    hall.kill(run)
    assert hall.row(run).state is RunState.RUNNING
    spawn(hall.home, run)
    row = hall.until(run, lambda row: row.ended is not None)
    assert row.state is RunState.SUCCEEDED
    assert snapshot(row)["attempt"] == 1


@pytest.mark.parametrize("moment", moments(100, 24))
def test_kill_9_of_a_controller_at_any_moment_of_the_launch_changes_nothing(hall: Hall, moment: int) -> None:
    run = hall.launch(sim=SimSettings(run_s=60.0, speed=40.0))
    spawn(hall.home, run)
    seen = len(hall.store.journal.events(run))
    hall.until(run, lambda row: len(hall.store.journal.events(run)) >= seen + moment or row.ended is not None)
    if hall.row(run).owner:
        hall.kill(run)
    if hall.row(run).ended is None:
        spawn(hall.home, run)
    row = hall.until(run, lambda row: row.ended is not None)
    assert (row.state, snapshot(row)["attempt"]) == (RunState.SUCCEEDED, 1)


def test_a_new_controller_knows_since_when_a_run_is_as_it_is(hall: Hall) -> None:
    run = hall.launch(sim=SimSettings(run_s=4000.0, speed=10.0))
    spawn(hall.home, run)
    before = snapshot(hall.until(run, lambda row: snapshot(row)["state"] == "running"))
    hall.kill(run)
    killed = time.time()
    spawn(hall.home, run)
    after = snapshot(hall.until(run, lambda row: float(str(snapshot(row)["observed_at"])) > killed))
    assert (after["state"], after["since"]) == ("running", before["since"])


def test_exactly_one_process_drives_a_run(hall: Hall) -> None:
    run = hall.launch(sim=SimSettings(run_s=400.0, speed=20.0))
    spawn(hall.home, run)
    first = hall.owner(run)
    with pytest.raises(ConflictError, match=str(first.pid)):
        control(hall.home, run)
    assert hall.owner(run) == first


def test_two_controllers_that_start_at_once_leave_one(hall: Hall) -> None:
    run = hall.launch(sim=SimSettings(run_s=200.0, speed=50.0))
    command = [sys.executable, "-m", "launcher.drive", str(hall.home), run]
    rivals = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(3)]
    codes = sorted(rival.wait(DEADLINE) for rival in rivals)
    assert hall.row(run).state is RunState.SUCCEEDED
    assert codes.count(0) == 1


@pytest.mark.parametrize("state", [RunState.STARTING, RunState.RUNNING, RunState.RECOVERING])
def test_down_from_any_state_leaves_nothing(hall: Hall, state: RunState) -> None:
    node = NodeName("r1-n2")
    faults = (Fault(at=10.0, node=node, fault=FaultKind.RAYLET_KILLED),)
    run = hall.launch(sim=SimSettings(run_s=4000.0, speed=10.0, faults=faults))
    spawn(hall.home, run)
    hall.until(run, lambda row: row.state is state)
    hall.store.want_nothing(run)
    row = hall.until(run, lambda row: row.ended is not None)
    assert row.state is RunState.STOPPED
    ended = hall.store.load(run)[0]
    look = SimNodes(hall.store.worlds).look(ended)
    assert all(getattr(view, "agent", "unseen") is None for view in look.nodes.values())
    assert not hall.store.unavailable(ended.fleet)


def test_a_stopped_controller_lets_go_of_the_run_and_the_run_goes_on(hall: Hall) -> None:
    run = hall.launch(sim=SimSettings(run_s=400.0, speed=100.0))
    spawn(hall.home, run)
    hall.until(run, lambda row: row.state is RunState.RUNNING)
    os.kill(hall.owner(run).pid, signal.SIGTERM)
    assert hall.until(run, lambda row: row.owner is None).ended is None
    spawn(hall.home, run)
    assert hall.until(run, lambda row: row.ended is not None).state is RunState.SUCCEEDED


def test_a_node_that_dies_for_good_is_replaced_by_the_spare_of_its_slice(hall: Hall) -> None:
    node = NodeName("r1-n2")
    faults = (Fault(at=20.0, node=node, fault=FaultKind.RAYLET_KILLED, duration=1e6),)
    run = hall.launch(sim=SimSettings(run_s=60.0, faults=faults))
    assert control(hall.home, run) is RunState.SUCCEEDED
    record = hall.store.load(run)[1]
    holders = {member: slot.node for member, slot in record.slots.items()}
    assert holders == {"main/0": "r1-n1", "main/1": "r1-n3", "main/2": "r2-n1", "main/3": "r2-n2"}
    events = hall.store.journal.events(run)
    redone = {event.subject for event in events if event.kind.value == "intent" and event.subject.startswith("prepare")}
    assert redone == {f"prepare:{name}" for name in ("r1-n1", "r1-n2", "r1-n3", "r2-n1", "r2-n2", "r2-n3")}


def test_what_an_ended_run_could_not_release_is_released_on_request_and_told_until_then(hall: Hall) -> None:
    lost = Fault(at=30.0, node=NodeName("r1-n2"), fault=FaultKind.LINK_DOWN, duration=2000.0)
    run = hall.launch(sim=SimSettings(run_s=100.0, faults=(lost,)))
    assert control(hall.home, run) is RunState.SUCCEEDED
    row = hall.row(run)
    for told in (row.status_message, snapshot(row)["status_message"]):
        assert "not released: r1-n2" in str(told)
        assert f"nvlaunch down {run}" in str(told)
    released, failed = release_left(hall.store, row)
    assert (released, list(failed)) == ((), ["r1-n2"])
    SimClock(hall.store.worlds, hall.store.load(run)[0]).wait(3000.0, lambda: False)
    assert release_left(hall.store, row) == (("r1-n2",), {})
    assert left_of(hall.store, row) == ()
    assert "not released" not in str(snapshot(hall.row(run))["status_message"])


def test_a_rank_that_fails_restarts_its_gang_until_the_budget_is_gone(hall: Hall) -> None:
    # In turns, for the node on which a program always fails first is taken for the cause, and replaced.
    nodes = cycle((NodeName("r1-n1"), NodeName("r2-n1")))
    times = range(20, 400, 10)
    faults = tuple(Fault(at=at, node=next(nodes), fault=FaultKind.RANK_FAILS) for at in times)
    run = hall.launch(sim=SimSettings(run_s=600.0, faults=faults))
    assert control(hall.home, run) is RunState.FAILED
    outcome = hall.row(run).outcome
    assert outcome is not None
    assert (outcome.cause, outcome.member, outcome.node, outcome.exit_code) == (Cause.PROGRAM, "main/2", "r2-n1", 3)
    assert snapshot(hall.row(run))["restarts"] == 3


class Shifted:
    """The clock of a fleet whose time of day somebody sets an hour back, and later right again."""

    def __init__(self, clock: SimClock, back: float, forth: float) -> None:
        self._clock, self._back, self._forth = clock, back, forth

    def shift(self) -> float:
        return -3600.0 if self._back <= self._clock.now() < self._forth else 0.0

    def now(self) -> float:
        return self._clock.now()

    def wall(self) -> float:
        return self._clock.wall() + self.shift()

    def wait(self, until: float, wake: Callable[[], bool]) -> None:
        self._clock.wait(until, wake)


def test_a_wall_clock_an_hour_back_and_right_again_is_no_fault_and_moves_no_limit(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = hall.launch(sim=SimSettings(run_s=9000.0), run=limited(make_run(slices=2, nodes=2, spares=1), 600.0))
    clock = Shifted(SimClock(hall.store.worlds, hall.store.load(run)[0]), back=100.0, forth=700.0)
    true_time = time.time
    monkeypatch.setattr(time, "time", lambda: true_time() + clock.shift())
    nodes = SimNodes(hall.store.worlds)
    loop = Loop(hall.store, nodes, clock, Executor(nodes, Inline()), run, StoreRetry(ControllerLog()))
    began: float | None = None
    said, conditions = set(), set()
    while not (decision := loop.tick()).state.final:
        if decision.state is RunState.RUNNING:
            began = began if began is not None else clock.now()
            said.add(decision.status_message)
            conditions |= set(decision.conditions.values())
            assert all(action.kind in ("prepare", "join", "park") for action in decision.actions), "those of spares"
        outcome = decision.record.outcome
        if outcome is not None:
            assert began is not None
            assert abs(clock.now() - began - 600.0) < 30.0, "the stop signal and its grace come after the limit"
        clock.wait(decision.wake_at, lambda: False)
    assert outcome is not None
    assert (outcome.cause, said) == (Cause.TIME_LIMIT, {"4 of 4 ranks running"})
    assert conditions == {Condition.SERVING}
    states = [event.subject for event in hall.store.journal.events(run) if event.kind.value == "intent"]
    assert states.index("start:run@1") < states.index("signal:r1-n1"), (
        "the journal is in order, whatever the clock said"
    )


def limited(run: Run, seconds: float) -> Run:
    return replace(run, task=replace(run.task, time_limit=seconds))


def test_a_run_of_another_home_keeps_its_nodes(hall: Hall) -> None:
    faults = (Fault(at=0.0, node=NodeName("r1-n1"), fault=FaultKind.LEASE_HELD),)
    run = hall.launch(sim=SimSettings(faults=faults), run=make_run(slices=1, spares=0))
    assert control(hall.home, run) is RunState.FAILED
    outcome = hall.row(run).outcome
    assert outcome is not None
    assert outcome.cause is Cause.LEASE_HELD
