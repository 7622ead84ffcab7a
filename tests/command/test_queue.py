"""`up --queue` and `queue` as processes, over the imaginary fleet: who waits, who begins, who gives way."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.core.model.run import Cause, RunState
from launcher.setup.environ import task_id
from launcher.store.journal import EventKind
from launcher.store.rows import RunRow
from launcher.store.store import Store
from launcher.store.user import User
from tests.desk import Desk

FLEET = """
name: hall
transport: sim
defaults: {accelerator: GB300}
racks: {r1: {nodes: "r1-n[1-2]"}, r2: {nodes: "r2-n[1-2]"}}
sim: {seed: 1, run_s: 1000000, speed: 20}
"""


def task(slices: int, nodes: int, more: str = "") -> str:
    return f"""
resources: {{accelerators: "GB300:4"}}
topology: {{slices: {slices}, nodes_per_slice: {nodes}}}
run: python train.py
stop_grace: 1
{more}
"""


class Hall(Desk):
    """A desk at which runs are started by name."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, FLEET)

    def up(self, name: str, text: str, *more: str) -> Any:
        return self.run("up", str(self.task(name, text)), "-i", str(self.inventory), "-y", *more)

    def accepted(self, name: str, text: str, *more: str) -> str:
        """The id of a run that was accepted."""
        done = self.up(name, text, *more)
        assert done.returncode == 0, done.stderr
        return str(done.stdout.strip())

    def row(self, run: str) -> RunRow:
        return Store(self.home).find(run)

    def queue(self) -> list[dict[str, Any]]:
        shown = self.run("queue", "-o", "json")
        assert shown.returncode == 0, shown.stderr
        return list(json.loads(shown.stdout))


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[Hall]:
    made = Hall(tmp_path)
    yield made
    for row in Store(made.home).live()[0]:
        if row.owner and row.owner.alive():
            os.kill(row.owner.pid, signal.SIGKILL)


def at(hall: Hall, run: str, kind: EventKind) -> float:
    return next(event.at for event in Store(hall.home).journal.events(hall.row(run).id) if event.kind is kind)


def test_a_run_begins_when_those_before_it_end_and_nobody_jumps_ahead(hall: Hall) -> None:
    hall.accepted("first", task(2, 2), "-d")
    told = hall.up("big", task(2, 2, "priority: 1"), "--queue")
    assert told.returncode == 0, told.stderr
    assert "Queued big: number 1 of 1 in the queue: `main` needs 2 slices of 2 nodes" in told.stderr
    hall.accepted("small", task(1, 1), "--queue")
    assert [(one["name"], one["position"], one["starts_by"]) for one in hall.queue()] == [
        ("big", 1, None),
        ("small", 2, None),
    ]
    assert {(one["user"], one["submit_host"]) for one in hall.queue()} == {(User.current().name, User.current().host)}
    assert f" {User.current()} " in hall.run("queue").stdout
    assert hall.status("big")["state"] == "queued"
    assert len(hall.run("status", "big").stdout.splitlines()) == 2, "no table of ranks that it does not have"
    refused = hall.run("exec", "big", "--", "true")
    assert refused.returncode == 2
    assert "`big` is queued: it has no ranks yet" in refused.stderr
    assert hall.run("down", "first", "-y").returncode == 0
    hall.until("big", lambda seen: seen["state"] == "running")
    # Far sooner than those that wait look by themselves.
    assert at(hall, "big", EventKind.LAUNCHED) - at(hall, "first", EventKind.ENDED) < 15.0
    assert hall.status("small")["state"] == "queued"


def test_what_does_not_wait_leaves_to_the_queue_what_the_queue_needs(hall: Hall) -> None:
    hall.accepted("first", task(1, 2), "-d")
    hall.accepted("big", task(2, 2), "--queue")
    refused = hall.up("late", task(1, 1))
    assert refused.returncode == 3
    assert "in use by `big (queued)`" in refused.stderr
    assert "`nvlaunch up --queue` waits until it fits" in refused.stderr
    # A plan for the task of a live run counts the nodes of that run as taken.
    again = hall.run("plan", str(hall.task("first", task(2, 2, "priority: 9"))), "-i", str(hall.inventory))
    assert (again.returncode, "in use by `first`" in again.stderr) == (3, True), again.stdout
    # One that matters more comes before the queue.
    assert hall.accepted("urgent", task(1, 1, "priority: 9"), "-d")


def test_what_can_never_fit_is_refused_and_who_waits_can_be_taken_down(hall: Hall) -> None:
    never = hall.up("never", task(3, 2), "--queue")
    assert never.returncode == 3
    hall.accepted("first", task(2, 2), "-d")
    hall.accepted("second", task(1, 1), "--queue", "--secret", "TOKEN=@" + str(hall.task("key", "hunter2")))
    down = hall.run("down", "second", "-y")
    assert down.returncode == 0, down.stderr
    assert down.stderr.endswith("second removed from the queue.\n")
    row = hall.row("second")
    assert (row.state, row.outcome and row.outcome.cause) == (RunState.STOPPED, Cause.STOPPED)
    assert hall.queue() == []
    assert not list(hall.home.glob("runs/*/secrets.json"))


def test_who_has_lost_its_controller_holds_nobody_up_and_waits_on_under_another(hall: Hall) -> None:
    hall.accepted("first", task(1, 2), "-d")
    hall.accepted("orphan", task(2, 2), "--queue")
    os.kill(hall.controller("orphan"), signal.SIGKILL)
    assert hall.accepted("next", task(1, 1), "--queue")
    hall.until("next", lambda seen: seen["state"] == "running")
    (left,) = hall.queue()
    assert (left["name"], left["position"]) == ("orphan", None)
    assert "`nvlaunch watch orphan` starts one" in left["reason"]
    with hall.begin("watch", "orphan") as watching:
        for name in ("first", "next"):
            assert hall.run("down", name, "-y").returncode == 0
        hall.until("orphan", lambda seen: seen["state"] == "running")
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=60)


def test_a_preempted_run_goes_back_to_the_queue_and_goes_on_with_its_secrets(hall: Hall) -> None:
    secret = "TOKEN=@" + str(hall.task("key", "hunter2"))
    text = task(1, 2, "preemptible: true\nsecrets: {TOKEN: null}")
    low = hall.accepted("low", text, "--queue", "--secret", secret)
    hall.accepted("other", task(1, 2), "-d")
    hall.until("low", lambda seen: seen["state"] == "running")
    hall.accepted("high", task(1, 2, "priority: 7"), "--queue")
    hall.until("high", lambda seen: seen["state"] == "running")
    row = hall.row(low)
    assert (row.state, row.outcome and row.outcome.cause) == (RunState.STOPPED, Cause.PREEMPTED)
    assert "preempted by `high` (priority 7); this run has priority 0" in row.status_message
    again = hall.row("low")
    assert (again.id, again.state) == (f"{low}-2", RunState.QUEUED)
    assert again.user == row.user
    assert hall.row("other").state is RunState.RUNNING
    assert hall.run("down", "high", "-y").returncode == 0
    hall.until("low", lambda seen: seen["state"] == "running")
    (kept,) = hall.home.glob("runs/*/secrets.json")
    assert kept.parent.name == f"{low}-2"
    # Where its checkpoints are named after.
    assert task_id(Store(hall.home).load(again.id)[0]) == f"nvlaunch-{low}"


def test_a_pipeline_goes_on_without_the_command_that_started_it(hall: Hall) -> None:
    """The command is killed while the first run goes on: the controller of that run starts the next one's."""
    hall.inventory.write_text(FLEET.replace("1000000", "40"))
    text = f"name: chain\n---\nname: a\n{task(1, 2)}\n---\nname: b\n{task(2, 2)}"
    with hall.begin("up", str(hall.task("chain", text)), "-i", str(hall.inventory), "-y") as command:
        hall.until("chain-a", lambda seen: seen["state"] == "running")
        command.kill()
        command.communicate()
    assert hall.row("chain-b").status_message == "waits until `chain-a` has succeeded"
    hall.until("chain-b", lambda seen: seen["state"] == "succeeded")
    assert at(hall, "chain-b", EventKind.LAUNCHED) > at(hall, "chain-a", EventKind.ENDED)


def test_a_controller_that_is_killed_before_it_starts_the_next_one_of_a_pipeline_loses_nothing(hall: Hall) -> None:
    text = f"name: chain\n---\nname: a\n{task(1, 2)}\n---\nname: b\n{task(2, 2)}"
    told = hall.run("up", str(hall.task("chain", text)), "-i", str(hall.inventory), "-y", "-d")
    assert told.returncode == 0, told.stderr
    hall.until("chain-a", lambda seen: seen["state"] == "running")
    os.kill(hall.controller("chain-a"), signal.SIGKILL)
    store = Store(hall.home)
    assert "chain-b" not in hall.run("status").stderr  # its turn has not come: it needs no controller
    store.finish(store.find("chain-a").id, RunState.SUCCEEDED, time.time())
    shown = hall.run("status")
    assert "started the controller of `chain-b`: the run before it has ended" in shown.stderr
    assert any(event.kind is EventKind.DRIVEN for event in store.journal.events(store.find("chain-b").id))


def test_a_run_after_another_ends_with_it_where_that_does_not_succeed(hall: Hall) -> None:
    hall.accepted("first", task(1, 2), "-d")
    told = hall.up("second", task(1, 2), "--after", "first")
    assert told.returncode == 0, told.stderr
    assert "Queued second: waits until `first` has succeeded" in told.stderr
    (waiting,) = hall.queue()
    assert (waiting["name"], waiting["position"]) == ("second", None)
    assert hall.run("down", "first", "-y").returncode == 0
    over = hall.until("second", lambda seen: seen["state"] == "stopped")
    assert over["status_message"] == "not started: `first` did not succeed (stopped)"


def test_a_task_is_read_from_stdin(hall: Hall) -> None:
    args = [sys.executable, "-m", "launcher.cli"]
    planned = [*args, "plan", "-", "-i", str(hall.inventory)]
    done = subprocess.run(planned, input=task(1, 2), env=hall.env, text=True, capture_output=True)
    assert "plan for `stdin`: 1 slice, 2 nodes" in done.stdout, done.stderr
    wrong = subprocess.run([*args, "validate", "-"], input="rnu: x", env=hall.env, text=True, capture_output=True)
    assert "<stdin>:1:1: unknown key `rnu`" in wrong.stderr
