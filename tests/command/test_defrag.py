"""`defrag` and `watch --all --defrag` as processes, over imaginary racks: what moves, and who gets the room."""

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

from launcher.store.store import Store
from launcher.store.stored_plan import PlanState
from tests.desk import AMPLE_S, Desk

FLEET = """
name: hall
transport: sim
defaults: {accelerator: GB300}
racks: {r1: {nodes: "r1-n[1-2]"}, r2: {nodes: "r2-n[1-2]"}, r3: {nodes: "r3-n[1-2]"}}
sim: {seed: 1, run_s: 1000000, speed: 20}
defrag: {min_benefit: 0.01}
"""


def task(slices: int, nodes: int, more: str = "") -> str:
    return f"""
resources: {{accelerators: "GB300:4"}}
topology: {{slices: {slices}, nodes_per_slice: {nodes}{more}
run: python train.py
stop_grace: 1
"""


class Hall(Desk):
    """Racks of 2 nodes: `loose` has one node of r1 and may move, `tight` one of r2 and may not."""

    def __init__(self, folder: Path, *, movable: bool = True) -> None:
        super().__init__(folder, FLEET)
        self.loose = f"}}\nmovable: {str(movable).lower()}"
        self.up("loose", task(1, 1, self.loose))
        self.up("tight", task(1, 1, ", racks: [r2]}"))
        for name in ("loose", "tight"):
            self.until(name, lambda seen: seen["state"] == "running")

    def up(self, name: str, text: str, *more: str) -> None:
        done = self.run("up", str(self.task(name, text)), "-i", str(self.inventory), "-y", "-d", *more)
        assert done.returncode == 0, done.stderr

    def plan(self, *words: str) -> "tuple[int, dict[str, Any]]":
        done = self.run("defrag", "-o", "json", *words)
        return done.returncode, json.loads(done.stdout)

    def racks(self, name: str) -> set[str]:
        return {rank["rack"] for rank in self.status(name)["ranks"]}


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[Hall]:
    made = Hall(tmp_path)
    yield made
    made.run("down", "--all", "-y")


BIG = task(2, 2, "}")


def test_the_first_queued_run_gets_room_and_starts(hall: Hall) -> None:
    hall.up("big", BIG, "--queue")
    code, shown = hall.plan()
    assert (code, shown["for"], shown["plan"]["proven"]) == (0, "big", True)
    (step,) = shown["plan"]["steps"]
    assert step["moves"] == [
        {
            "run": "loose",
            "slice": "main.s0",
            "from": {"rack": "r1", "nodes": ["r1-n1"]},
            "to": {"rack": "r2", "nodes": ["r2-n2"]},
        }
    ]
    assert hall.racks("loose") == {"r1"}, "a plan as JSON moved something"
    done = hall.run("defrag", "-y")
    assert done.returncode == 0, done.stderr
    assert "1 move to make room for `big`: 0.1 GPU-hours, 1 restart; no plan costs less" in done.stdout
    assert "step 1 of 1: loose main.s0 -> r2-n2: has moved" in done.stderr
    hall.until("big", lambda seen: seen["state"] == "running")
    assert (hall.racks("loose"), hall.racks("big"), hall.racks("tight")) == ({"r2"}, {"r1", "r3"}, {"r2"})
    assert (hall.status("loose")["attempt"], hall.status("tight")["attempt"]) == (2, 1)


def test_the_room_for_a_task_file_is_kept_for_it(hall: Hall) -> None:
    big = hall.task("big", BIG)
    done = hall.run("defrag", "--for", str(big), "-i", str(hall.inventory), "-y")
    assert done.returncode == 0, done.stderr
    other = hall.run("up", str(hall.task("other", task(1, 1, "}"))), "-i", str(hall.inventory), "-y", "-d")
    assert other.returncode == 3, "another run got a node of the room"
    assert "reserved for `big`" in other.stderr
    assert "reserved for `big`" in hall.run("racks", "-i", str(hall.inventory)).stdout
    hall.up("big", BIG)
    assert hall.racks("big") == {"r1", "r3"}


def test_down_releases_the_room_that_is_kept_for_no_run_yet(hall: Hall) -> None:
    assert hall.run("defrag", "--for", str(hall.task("big", BIG)), "-i", str(hall.inventory), "-y").returncode == 0
    done = hall.run("down", "big")
    assert (done.returncode, "released the room kept for `big`" in done.stderr + done.stdout) == (0, True), done.stderr
    assert "reserved" not in hall.run("racks", "-i", str(hall.inventory)).stdout
    assert hall.run("down", "big").returncode == 2


def test_room_for_a_task_file_with_the_name_of_a_live_run_is_refused(hall: Hall) -> None:
    for name in ("loose", "tight"):
        done = hall.run("defrag", "--for", str(hall.task(name, BIG)), "-i", str(hall.inventory), "-y")
        assert (done.returncode, f"a run named `{name}` is running" in done.stderr) == (6, True), done.stderr


def test_room_for_slices_is_free_to_all_once_it_is_made(hall: Hall) -> None:
    words = ("--slices", "2", "--size", "2", "-i", str(hall.inventory))
    assert hall.run("defrag", *words, "-y").returncode == 0
    assert "no moves needed: 2 slices of 2 nodes fit now" in hall.run("defrag", *words).stdout
    hall.up("other", task(2, 2, "}"))


def test_nothing_moves_that_may_not_or_that_is_not_agreed_to(tmp_path: Path) -> None:
    hall = Hall(tmp_path, movable=False)
    try:
        hall.up("big", BIG, "--queue")
        done = hall.run("defrag", "-y")
        assert done.returncode == 3
        assert "2 slices may not move: not movable" in done.stdout
    finally:
        hall.run("down", "--all", "-y")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--max-cost", "0.05", "-y"), 3, "nothing was moved: the moves cost 0.1 GPU-hours, more than 0.05"),
        (("--max-moves", "0", "-y"), 3, "nothing was moved: the plan has 1 move, more than 0"),
        ((), 2, "`--yes`"),
        (("--max-cost", "little"), 2, "`little` is not a number"),
        (("--for", "tight"), 2, "`tight` is not queued (running)"),
        (("--slices", "2"), 2, "`--slices` and `--size` belong together"),
        (("--for", "big", "--slices", "2", "--size", "2"), 2, "`--for` and `--slices` exclude each other"),
    ],
)
def test_what_is_refused_moves_nothing(hall: Hall, words: tuple[str, ...], code: int, message: str) -> None:
    hall.up("big", BIG, "--queue")
    done = hall.run("defrag", *words)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr
    assert Store(hall.home).move_plans.of("hall") == ()


def begin_move(hall: Hall) -> "subprocess.Popen[str]":
    """Begin `defrag`, and return once it has asked `loose` to move."""
    process = hall.begin("defrag", "-y")
    store, deadline = Store(hall.home), time.monotonic() + AMPLE_S
    while not store.requests.after(store.find("loose").id, 0):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def test_a_killed_defrag_blocks_nobody(hall: Hall) -> None:
    """Its controller is stopped, so that the step does not go on; the next `defrag` takes over."""
    hall.up("big", BIG, "--queue")
    pid = hall.controller("loose")
    os.kill(pid, signal.SIGSTOP)
    process = begin_move(hall)
    process.kill()
    process.communicate()
    os.kill(pid, signal.SIGCONT)
    again = hall.run("defrag", "-y")
    assert again.returncode == 0 or "queued run" in again.stderr, again.stderr
    hall.until("big", lambda seen: seen["state"] == "running")
    assert hall.status("loose")["attempt"] == 2


def test_a_run_that_is_asked_to_move_gets_another_controller_when_its_own_is_killed(hall: Hall) -> None:
    hall.up("big", BIG, "--queue")
    pid = hall.controller("loose")
    os.kill(pid, signal.SIGSTOP)
    process = begin_move(hall)
    os.kill(pid, signal.SIGKILL)
    _, said = process.communicate(timeout=AMPLE_S)
    assert process.returncode == 0, said
    hall.until("big", lambda seen: seen["state"] == "running")
    assert hall.racks("loose") == {"r2"}


def test_a_second_defrag_is_refused_while_one_moves_slices(hall: Hall) -> None:
    hall.up("big", BIG, "--queue")
    pid = hall.controller("loose")
    os.kill(pid, signal.SIGSTOP)
    process = begin_move(hall)
    second = hall.run("defrag", "-y")
    os.kill(pid, signal.SIGCONT)
    process.communicate(timeout=AMPLE_S)
    assert second.returncode == 6, second.stderr
    assert "moves slices of `hall`" in second.stderr
    assert process.returncode == 0


def test_ctrl_c_sends_a_slice_back_that_has_not_left(hall: Hall) -> None:
    hall.up("big", BIG, "--queue")
    pid = hall.controller("loose")
    os.kill(pid, signal.SIGSTOP)
    process = begin_move(hall)
    store, deadline = Store(hall.home), time.monotonic() + AMPLE_S
    process.send_signal(signal.SIGINT)
    while store.requests.after(store.find("loose").id, 1) == ():
        assert time.monotonic() < deadline, "it did not ask to go back"
        time.sleep(0.02)
    os.kill(pid, signal.SIGCONT)
    _, said = process.communicate(timeout=AMPLE_S)
    assert process.returncode == 130
    assert "loose main.s0 -> r2-n2: stays where it is: interrupted" in said
    assert store.move_plans.of("hall")[0].state is PlanState.CANCELLED
    assert (hall.racks("loose"), hall.status("loose")["attempt"]) == ({"r1"}, 1)
    assert store.move_plans.reserved("hall") == {}


def test_the_service_moves_slices_for_a_run_that_waits(hall: Hall) -> None:
    service = subprocess.Popen(
        [sys.executable, "-m", "launcher.cli", "watch", "--all", "--defrag"],
        env=hall.env,
        text=True,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        hall.up("big", BIG, "--queue")
        hall.until("big", lambda seen: seen["state"] == "running")
        assert (hall.racks("loose"), hall.racks("big")) == ({"r2"}, {"r1", "r3"})
    finally:
        service.send_signal(signal.SIGTERM)
        _, said = service.communicate(timeout=AMPLE_S)
    assert "defrag: `big`: moving: moves cost 0.1 GPU-hours and save" in said
    assert "kept: 1 step done" in said or "done: " in said
