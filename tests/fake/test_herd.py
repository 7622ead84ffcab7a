"""One process that drives all runs: it takes in what nobody drives, and leaves nothing behind that cannot go on."""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.core.fleet import Fault, FaultKind, NodeName, SimSettings
from launcher.core.run import RunId, RunName, RunState
from launcher.drive.control import spawn
from launcher.drive.metrics import serve
from launcher.errors import LaunchError
from launcher.store.store import Store
from tests.situations import make_run

DEADLINE_S = 40.0


class Hall:
    """A home with imaginary fleets, one a run, and the process that watches all of them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = Store(home)
        self.watchers: list[subprocess.Popen[str]] = []

    def launch(self, name: str, *, sim: SimSettings, on_event: str | None = None) -> RunId:
        run = make_run(slices=2, nodes=2, spares=1)
        fleet = replace(run.fleet, name=f"hall-{name}", sim=sim)
        made = self.store.launch(
            name=RunName(name),
            task=replace(run.task, on_event=on_event),
            fleet=fleet,
            decide=lambda _: run.placement,
            source=str(self.home / "task.yaml"),
            at=time.time(),
        )
        return made.id

    def watch(self, *more: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "launcher.cli", "watch", "--all", *more],
            env={**os.environ, "NVLAUNCH_HOME": str(self.home)},
            text=True,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self.watchers.append(process)
        return process

    def driver(self, run: RunId) -> int | None:
        owner = self.store.find(run).owner
        return owner.pid if owner and owner.alive() else None

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline, [(row.name, row.state, row.headline) for row in self.store.runs()]
            time.sleep(0.05)


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[Hall]:
    made = Hall(tmp_path / "home")
    yield made
    for process in made.watchers:
        process.kill()
        process.communicate()
    for row in made.store.runs():
        if row.owner and row.owner.alive() and row.owner.pid != os.getpid():
            os.kill(row.owner.pid, signal.SIGKILL)


def test_every_run_is_driven_also_new_ones_and_those_whose_driver_was_killed(hall: Hall) -> None:
    steady = SimSettings(run_s=1e6, speed=20.0)
    first = hall.launch("first", sim=steady)
    spawn(hall.home, first)
    own = hall.driver(first)
    second = hall.launch("second", sim=steady)
    herd = hall.watch()
    hall.until(lambda: hall.store.find(second).state is RunState.RUNNING)
    third = hall.launch("third", sim=steady)
    hall.until(lambda: hall.store.find(third).state is RunState.RUNNING)
    assert (hall.driver(first), hall.driver(second), hall.driver(third)) == (own, herd.pid, herd.pid)
    assert own is not None
    os.kill(own, signal.SIGKILL)
    hall.until(lambda: hall.driver(first) == herd.pid)
    herd.kill()
    herd.wait()
    other = hall.watch()
    hall.until(lambda: {hall.driver(run) for run in (first, second, third)} == {other.pid})
    assert {json.loads(row.snapshot)["epoch"] for row in hall.store.runs()} == {1}


def test_it_ends_when_it_is_told_to_and_the_runs_go_on_undriven(hall: Hall) -> None:
    run = hall.launch("job", sim=SimSettings(run_s=1e6, speed=20.0))
    herd = hall.watch()
    hall.until(lambda: hall.store.find(run).state is RunState.RUNNING)
    herd.send_signal(signal.SIGTERM)
    _, said = herd.communicate(timeout=DEADLINE_S)
    assert herd.returncode == 0
    assert "the runs go on, undriven" in said
    row = hall.store.find(run)
    assert (row.ended, row.owner) == (None, None)


def test_a_run_that_cannot_be_driven_harms_no_other(hall: Hall) -> None:
    broken = hall.launch("broken", sim=SimSettings(run_s=60.0, speed=20.0))
    with hall.store._db.write() as db:
        db.execute("UPDATE runs SET record = ? WHERE id = ?", ('{"gangs": 7}', broken))
    good = hall.launch("good", sim=SimSettings(run_s=60.0, speed=20.0))
    herd = hall.watch()
    hall.until(lambda: hall.store.find(good).state is RunState.SUCCEEDED)
    herd.send_signal(signal.SIGTERM)
    _, said = herd.communicate(timeout=DEADLINE_S)
    assert f"`{broken}` is left alone for 30 s" in said
    assert "written by another version" in said


def test_the_hook_is_told_each_event_once_and_in_order_whatever_becomes_of_it(hall: Hall) -> None:
    told = hall.home / "told"
    command = f"cat >> {told}; echo >> {told}; echo no luck >&2; exit 3"
    faults = (Fault(at=10.0, node=NodeName("r1-n2"), fault=FaultKind.RAYLET_KILLED, duration=1e6),)
    run = hall.launch("job", sim=SimSettings(run_s=60.0, speed=20.0, faults=faults), on_event=command)
    hall.watch()
    hall.until(lambda: hall.store.find(run).state is RunState.SUCCEEDED)
    hall.until(lambda: '"kind": "ended"' in told.read_text())
    events = [json.loads(line) for line in told.read_text().splitlines()]
    assert [event["seq"] for event in events] == sorted({event["seq"] for event in events})
    assert (events[0]["kind"], events[-1]["kind"]) == ("launched", "ended")
    states = [event["subject"] for event in events if event["kind"] == "headline"]
    assert states == [state for state, _ in itertools.groupby(states)], "a state is told when it begins, once"
    assert (states[0], states[-1]) == ("starting", "stopping")
    warnings = [event.words for event in hall.store.events(run) if event.subject == "on_event"]
    assert [words.endswith("exit status 3: no luck") for words in warnings] == [True]


@pytest.mark.parametrize(("address", "port"), [("127.0.0.1", 65536), ("a" * 80, 9466)])
def test_where_no_scrape_can_be_answered_is_an_error_in_words(tmp_path: Path, address: str, port: int) -> None:
    with pytest.raises(LaunchError, match=f"cannot answer scrapes on {address}:{port}: "):
        serve(tmp_path, address, port)


def test_metrics_tell_recoveries_goodput_and_spares(hall: Hall) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    faults = (Fault(at=30.0, node=NodeName("r1-n2"), fault=FaultKind.RAYLET_KILLED, duration=1e6),)
    run = hall.launch("job", sim=SimSettings(run_s=1e6, speed=20.0, faults=faults))
    hall.watch("--metrics-port", str(port))
    hall.until(lambda: json.loads(hall.store.find(run).snapshot)["epoch"] == 2)
    hall.until(lambda: hall.store.find(run).state is RunState.RUNNING)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    labels = f'id="{run}",inventory="hall-job"'
    figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert figures[f'nvlaunch_run_state{{{labels},run="job",state="running"}}'] == "1.0"
    assert figures[f'nvlaunch_spares{{{labels},rack="r1",run="job"}}'] == "0.0"
    assert figures[f'nvlaunch_spares{{{labels},rack="r2",run="job"}}'] == "1.0"
    assert float(figures[f'nvlaunch_gang_restarts_total{{{labels},reason="swap",run="job"}}']) == 1.0
    assert float(figures[f'nvlaunch_recovery_seconds_count{{{labels},kind="swap",run="job"}}']) == 1.0
    assert 0 < float(figures[f'nvlaunch_goodput_ratio{{{labels},run="job"}}']) < 1
