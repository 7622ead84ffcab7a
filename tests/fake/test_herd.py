"""One process that drives all runs: it takes in what nobody drives, and leaves nothing behind that cannot go on."""

import itertools
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from launcher.admission import store_retry
from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import RunId, RunName, RunState
from launcher.core.model.simulation import Fault, FaultKind, SimSettings
from launcher.drive.control import drive
from launcher.drive.metrics import RunCollector, serve
from launcher.drive.replay import replay
from launcher.drive.service import RunService
from launcher.drive.spawn import spawn
from launcher.errors import LaunchError
from launcher.store import database
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
            assert time.monotonic() < deadline, [(row.name, row.state, row.status_message) for row in self.store.runs()]
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
    assert {json.loads(row.snapshot)["attempt"] for row in hall.store.runs()} == {1}


def test_it_ends_when_it_is_told_to_and_the_runs_go_on_undriven(hall: Hall) -> None:
    run = hall.launch("job", sim=SimSettings(run_s=1e6, speed=20.0))
    herd = hall.watch()
    hall.until(lambda: hall.store.find(run).state is RunState.RUNNING)
    herd.send_signal(signal.SIGTERM)
    _, said = herd.communicate(timeout=DEADLINE_S)
    assert herd.returncode == 0
    assert "the runs continue without a controller" in said
    row = hall.store.find(run)
    assert (row.ended, row.owner) == (None, None)


def test_a_run_that_cannot_be_driven_harms_no_other(hall: Hall) -> None:
    broken = hall.launch("broken", sim=SimSettings(run_s=60.0, speed=20.0))
    strange = hall.launch("strange", sim=SimSettings(run_s=60.0, speed=20.0))
    with hall.store._db.write() as db:
        db.execute("UPDATE runs SET record = ? WHERE id = ?", ('{"gangs": 7}', broken))
        db.execute("UPDATE runs SET state = 'paused' WHERE id = ?", (strange,))
    good = hall.launch("good", sim=SimSettings(run_s=60.0, speed=20.0))
    herd = hall.watch()
    hall.until(lambda: hall.store.find(good).state is RunState.SUCCEEDED)
    herd.send_signal(signal.SIGTERM)
    _, said = herd.communicate(timeout=DEADLINE_S)
    assert herd.returncode == 0
    assert f"`{broken}`: run `{broken}` was written by another version" in said
    assert said.count(f"skipped `{strange}`: run `{strange}` was written by another version") == 1


class Lock:
    """Another process that holds the one write lock of a home."""

    def __init__(self, home: Path) -> None:
        self._db = sqlite3.connect(home / "state.db", isolation_level=None, timeout=10.0)

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, *_: object) -> None:
        self._db.execute("ROLLBACK")
        self._db.close()


class Driven:
    """A run that is driven in this process, and all that was said of it."""

    def __init__(self, hall: Hall, run: RunId, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(database, "BUSY_S", 0.05)
        monkeypatch.setattr(store_retry, "AGAIN_S", 0.05)
        self.said: list[str] = []
        self.store = Store(hall.home)
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._state = self._pool.submit(drive, self.store, run, self._stop.is_set, self.said.append)

    def stop(self) -> RunState:
        """Ask it to stop, and answer the state that it last knew."""
        self._stop.set()
        return self.end()

    def end(self) -> RunState:
        return self._state.result(DEADLINE_S)


def test_a_locked_store_is_told_once_and_waited_for_and_the_run_goes_on(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = hall.home / "told"
    sim = SimSettings(run_s=60.0, speed=30.0)
    run = hall.launch("job", sim=sim, on_event=f"cat >> {told}; echo >> {told}")
    driven = Driven(hall, run, monkeypatch)
    hall.until(lambda: hall.store.find(run).state is RunState.RUNNING)
    with Lock(hall.home):
        hall.until(lambda: bool(driven.said))
        locked_at = hall.store.journal.last(run)
        begun = time.monotonic()
        hall.until(lambda: time.monotonic() - begun > 1.0)  # many tries, in which its ranks come to their end
        assert hall.store.journal.last(run) == locked_at
    assert driven.end() is RunState.SUCCEEDED
    words, again = driven.said
    assert "state.db`: database is locked" in words
    assert again == "the store works again"
    row = hall.store.find(run)
    assert (row.state, json.loads(row.snapshot)["attempt"]) == (RunState.SUCCEEDED, 1)
    events = [json.loads(line) for line in told.read_text().splitlines()]
    assert (events[0]["kind"], events[-1]["kind"]) == ("launched", "ended")


@pytest.mark.parametrize("moment", range(0, 40, 8))
def test_a_store_that_is_locked_at_any_moment_of_a_launch_changes_nothing(
    hall: Hall, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    run = hall.launch("job", sim=SimSettings(run_s=60.0, speed=60.0))
    driven = Driven(hall, run, monkeypatch)
    hall.until(lambda: hall.store.journal.last(run) > moment)
    with Lock(hall.home):
        hall.until(lambda: bool(driven.said))
    assert driven.end() is RunState.SUCCEEDED
    assert json.loads(hall.store.find(run).snapshot)["attempt"] == 1
    assert replay(driven.store.decisions.of(run)).difference is None


def test_who_waits_for_a_store_ends_when_it_is_told_to(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    run = hall.launch("job", sim=SimSettings(run_s=1e6, speed=20.0))
    driven = Driven(hall, run, monkeypatch)
    hall.until(lambda: hall.store.find(run).state is RunState.RUNNING)
    with Lock(hall.home):
        hall.until(lambda: bool(driven.said))
        assert driven.stop() is RunState.RUNNING


def test_a_disk_that_is_full_is_waited_for(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    run = hall.launch("job", sim=SimSettings(run_s=60.0, speed=30.0))
    driven = Driven(hall, run, monkeypatch)
    hall.until(lambda: hall.store.find(run).state is RunState.RUNNING)
    pages = driven.store._db.read("PRAGMA page_count")[0][0]
    driven.store._db.read(f"PRAGMA max_page_count = {pages}")  # no file of this connection grows: SQLITE_FULL
    hall.until(lambda: bool(driven.said))
    driven.store._db.read("PRAGMA max_page_count = 1000000")
    assert driven.end() is RunState.SUCCEEDED
    assert "database or disk is full" in driven.said[0]


def test_a_herd_with_a_locked_store_takes_its_runs_in_when_it_is_free(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_S", 0.05)
    run = hall.launch("job", sim=SimSettings(run_s=60.0, speed=30.0))
    said: list[str] = []
    stop = threading.Event()
    herd = threading.Thread(target=RunService(hall.home, said.append).drive, args=(stop.is_set,))
    with Lock(hall.home):
        herd.start()
        hall.until(lambda: any("database is locked" in line for line in said))
    hall.until(lambda: hall.store.find(run).state is RunState.SUCCEEDED)
    stop.set()
    herd.join(DEADLINE_S)
    assert "the store works again" in said


def test_the_hook_is_told_each_event_once_and_in_order_whatever_becomes_of_it(hall: Hall) -> None:
    told = hall.home / "told"
    command = f"cat >> {told}; echo >> {told}; echo no $((40 + 2)) >&2; exit 3"
    faults = (Fault(at=10.0, node=NodeName("r1-n2"), fault=FaultKind.RAYLET_KILLED, duration=1e6),)
    run = hall.launch("job", sim=SimSettings(run_s=60.0, speed=20.0, faults=faults), on_event=command)
    hall.watch()
    hall.until(lambda: hall.store.find(run).state is RunState.SUCCEEDED)
    hall.until(lambda: '"kind": "ended"' in told.read_text())
    events = [json.loads(line) for line in told.read_text().splitlines()]
    assert [event["seq"] for event in events] == sorted({event["seq"] for event in events})
    assert (events[0]["kind"], events[-1]["kind"]) == ("launched", "ended")
    states = [event["subject"] for event in events if event["kind"] == "status"]
    assert states == [state for state, _ in itertools.groupby(states)], "a state is told when it begins, once"
    assert (states[0], states[-1]) == ("starting", "stopping")
    warnings = [event.message for event in hall.store.journal.events(run) if event.subject == "on_event"]
    assert [words.endswith("exit status 3: no 42") for words in warnings] == [True]


@pytest.mark.parametrize(("address", "port"), [("127.0.0.1", 65536), ("a" * 80, 9466)])
def test_where_no_scrape_can_be_answered_is_an_error_in_words(tmp_path: Path, address: str, port: int) -> None:
    with pytest.raises(LaunchError, match=f"cannot serve metrics on {address}:{port}: "):
        serve(tmp_path, address, port)


def scraped(store: Store) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(RunCollector(store))
    lines = generate_latest(registry).decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def test_what_cannot_be_read_of_one_run_hides_no_figure_of_another(hall: Hall) -> None:
    strange = hall.launch("strange", sim=SimSettings())
    dark = hall.launch("dark", sim=SimSettings())
    good = hall.launch("good", sim=SimSettings())
    with hall.store._db.write() as db:
        db.execute("UPDATE journal SET kind = 'paused', reason = 'whim' WHERE run = ?", (good,))
        db.execute("UPDATE runs SET state = 'paused' WHERE id = ?", (strange,))
        db.execute("UPDATE runs SET snapshot = '{}' WHERE id = ?", (dark,))
    figures = scraped(hall.store)
    labels = f'id="{good}",inventory="hall-good"'
    assert figures[f'nvlaunch_ranks{{{labels},run="good",state="waiting"}}'] == 4.0
    assert figures[f'nvlaunch_run_state{{id="{dark}",inventory="hall-dark",run="dark",state="starting"}}'] == 1.0
    assert (figures["nvlaunch_runs_unreadable"], figures["nvlaunch_store_readable"]) == (2.0, 1.0)


def test_a_store_that_fails_leaves_a_figure_of_that(hall: Hall) -> None:
    hall.store._db._db.set_progress_handler(lambda: 1, 1)  # SQLite ends every query with SQLITE_INTERRUPT
    assert scraped(hall.store) == {"nvlaunch_store_readable": 0.0}
    hall.store._db._db.set_progress_handler(None, 0)
    assert scraped(hall.store)["nvlaunch_store_readable"] == 1.0


def test_metrics_tell_recoveries_goodput_and_spares(hall: Hall) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    faults = (Fault(at=30.0, node=NodeName("r1-n2"), fault=FaultKind.RAYLET_KILLED, duration=1e6),)
    run = hall.launch("job", sim=SimSettings(run_s=1e6, speed=20.0, faults=faults))
    hall.watch("--metrics-port", str(port))
    hall.until(lambda: json.loads(hall.store.find(run).snapshot)["attempt"] == 2)
    hall.until(lambda: hall.store.find(run).state is RunState.RUNNING)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    labels = f'id="{run}",inventory="hall-job"'
    figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert figures[f'nvlaunch_run_state{{{labels},run="job",state="running"}}'] == "1.0"
    assert figures[f'nvlaunch_spares{{{labels},rack="r1",run="job"}}'] == "0.0"
    assert figures[f'nvlaunch_spares{{{labels},rack="r2",run="job"}}'] == "1.0"
    assert float(figures[f'nvlaunch_gang_restarts_total{{{labels},reason="replace",run="job"}}']) == 1.0
    assert float(figures[f'nvlaunch_recovery_seconds_count{{{labels},kind="replace",run="job"}}']) == 1.0
    assert 0 < float(figures[f'nvlaunch_goodput_ratio{{{labels},run="job"}}']) < 1
