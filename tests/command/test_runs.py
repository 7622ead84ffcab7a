"""`up`, `status`, `logs`, `watch` and `down` as processes of their own, over the imaginary fleet."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher.store.status_reads import StatusReader
from launcher.store.user import User
from tests import forked

ROOT = Path(__file__).parents[2]
ESCAPE = "\x1b"

TASK = """
name: job
resources: {accelerators: GB300:4}
topology: {slices: 2, nodes_per_slice: 2}
envs: {STEPS: 10}
run: python train.py
recovery: {max_restarts: 1}
stop_grace: 1
"""

FLEET = """
name: hall
transport: sim
defaults: {accelerator: GB300}
racks: {r1: {nodes: "r1-n[1-3]"}, r2: {nodes: "r2-n[1-3]"}}
"""


class Desk:
    """A folder with a task, a fleet and a home, and the command run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.env = {**os.environ, "PYTHONPATH": str(ROOT), "NVLAUNCH_HOME": str(self.home)}
        self.env.pop("NVLAUNCH_INVENTORY", None)
        (folder / "task.yaml").write_text(TASK)
        self.fleet("{seed: 1}")

    def fleet(self, sim: str) -> None:
        """Write the fleet that behaves so."""
        (self.folder / "fleet.yaml").write_text(f"{FLEET}sim: {sim}\n")

    def begin(self, *words: str, **streams: object) -> "subprocess.Popen[str]":
        """Start a command."""
        everywhere = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            [sys.executable, "-m", "launcher.cli", *words],
            cwd=self.folder,
            env=self.env,
            text=True,
            **{**everywhere, **streams},
        )

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end."""
        code, out, err = forked.run(words, env=self.env, folder=self.folder, timeout=60)
        return subprocess.CompletedProcess(words, code, out, err)

    def up(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return self.run("up", "task.yaml", "-i", "fleet.yaml", "-y", *words)

    def status(self, run: str = "job") -> dict[str, object]:
        (snapshot,) = json.loads(self.run("status", run, "-o", "json").stdout)
        return snapshot

    def state(self, run: str = "job") -> str | None:
        """Return the state as `status` would show it, None before there is any; without a process, to poll."""
        shelf = StatusReader(self.home)
        return json.loads(shelf.find(run).snapshot)["state"] if run in shelf.names() else None

    def controllers(self) -> list[int]:
        """Return the processes that drive runs of this home."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"launcher.drive" in words and str(self.home).encode() in words:
                found.append(int(entry.name))
        return found


def until(answer: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not answer():
        assert time.monotonic() < deadline, f"never: {what}"
        select.select([], [], [], 0.05)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    for pid in desk.controllers():
        os.kill(pid, signal.SIGKILL)


class TestUp:
    def test_a_followed_run_ends_with_its_outcome(self, desk: Desk) -> None:
        done = desk.up()
        assert done.returncode == 0, done.stderr
        assert done.stdout == ""
        assert "running: 4 of 4 ranks running" in done.stderr
        assert "`job` succeeded" in done.stderr
        status = desk.status()
        assert status["state"] == "succeeded"
        user = User.current()
        assert (status["user"], status["submit_host"], status["driven"]) == (user.name, user.host, False)
        assert f"on `hall`, started by {user}\n" in desk.run("status", "job").stdout
        assert [(rank["rank"], rank["rack"], rank["exit_code"]) for rank in status["ranks"]] == [
            (0, "r1", 0),
            (1, "r1", 0),
            (2, "r2", 0),
            (3, "r2", 0),
        ]

    def test_a_failure_names_rank_node_and_code_and_shows_its_last_lines(self, desk: Desk) -> None:
        desk.fleet("{seed: 1, faults: [{at: 100, node: r2-n1, fault: rank_fails, code: 3, duration: 9999}]}")
        done = desk.up()
        assert done.returncode == 1, done.stderr
        assert "last lines of main/2 on r2-n1:\n  | " in done.stderr
        assert re.search(r"^error: `job` failed: .*main/2.*r2-n1.*3", done.stderr, re.MULTILINE)
        assert "hint: `nvlaunch logs job --rank main/2` shows its whole log" in done.stderr
        assert desk.run("watch", "job").returncode == 1

    def test_a_detached_run_prints_its_id_and_goes_on(self, desk: Desk) -> None:
        desk.fleet("{seed: 1, speed: 100, run_s: 100000}")
        done = desk.up("-d")
        assert done.returncode == 0, done.stderr
        assert re.fullmatch(r"job-[a-z2-7]{6}\n", done.stdout)
        until(lambda: desk.state() == "running", "running")
        assert re.search(r"r1 +AA\. +1/3", desk.run("racks", "-i", "fleet.yaml").stdout)
        second = desk.up()
        assert second.returncode == 6
        assert "a run named `job` is running" in second.stderr
        assert desk.up("-n", "other").returncode == 3
        assert "NVLAUNCH_NODE_RANK=3\n" in desk.run("logs", "job", "--rank", "3").stdout
        assert "[main/3] NVLAUNCH_NODE_RANK=3\n" in desk.run("logs", "job").stdout
        assert desk.run("logs", "job", "--provision", "--node", "r1-n2").stdout.startswith("setup on r1-n2 begun\n")

    def test_foreground_needs_no_second_process(self, desk: Desk) -> None:
        done = desk.up("--foreground")
        assert done.returncode == 0, done.stderr
        assert "running: 4 of 4 ranks running" in done.stderr
        assert not list(desk.home.glob("runs/*/controller.log")), "a process of its own would have its log there"

    def test_secrets_are_in_one_private_file_and_nowhere_else(self, desk: Desk) -> None:
        (desk.folder / "task.yaml").write_text(TASK + "secrets: {TOKEN: null, KEY: null}\n")
        (desk.folder / "key").write_text("hunter2-file\n")
        desk.env["TOKEN"] = "hunter2-env"
        desk.fleet("{seed: 1, speed: 100, run_s: 100000}")
        done = desk.up("-d", "--secret", "TOKEN", "--secret", "KEY=@key")
        assert done.returncode == 0, done.stderr
        (kept,) = desk.home.glob("runs/*/secrets.json")
        assert json.loads(kept.read_text()) == {"TOKEN": "hunter2-env", "KEY": "hunter2-file"}
        assert kept.stat().st_mode & 0o777 == 0o600
        others = [file for file in desk.home.rglob("*") if file.is_file() and file != kept]
        assert [file for file in others if b"hunter2" in file.read_bytes()] == []
        assert "hunter2" not in desk.run("events", "job", "-o", "json").stdout
        assert desk.run("down", "job", "-y").returncode == 0
        assert not kept.exists()


class TestFollow:
    def test_interrupting_the_follower_leaves_the_run(self, desk: Desk) -> None:
        desk.fleet("{seed: 1, speed: 100, run_s: 100000}")
        with desk.begin("up", "task.yaml", "-i", "fleet.yaml", "-y") as follower:
            until(lambda: desk.state() == "running", "running")
            follower.send_signal(signal.SIGINT)
            _, err = follower.communicate(timeout=30)
        assert follower.returncode == 130
        assert "run `job` continues; reattach with `nvlaunch watch job`, end it with `nvlaunch down job`" in err
        assert len(desk.controllers()) == 1

    def test_a_killed_controller_is_replaced_under_its_follower(self, desk: Desk) -> None:
        desk.fleet("{seed: 1, speed: 500, run_s: 1500}")
        with desk.begin("up", "task.yaml", "-i", "fleet.yaml", "-y") as follower:
            until(lambda: desk.state() == "running", "running")
            os.kill(desk.controllers()[0], signal.SIGKILL)
            _, err = follower.communicate(timeout=60)
        assert "the controller of `job` died; starting another" in err
        assert follower.returncode == 0, err

    def test_watch_drives_a_run_that_lost_its_controller(self, desk: Desk) -> None:
        desk.fleet("{seed: 1, speed: 500, run_s: 1500}")
        desk.up("-d")
        for pid in desk.controllers():
            os.kill(pid, signal.SIGKILL)
        done = desk.run("watch", "job")
        assert done.returncode == 0, done.stderr

    def test_watch_says_that_a_run_had_lost_its_controller(self, desk: Desk) -> None:
        desk.fleet("{seed: 1, speed: 500, run_s: 1500}")
        desk.up("-d")
        until(lambda: desk.state() == "running", "running")
        os.kill(desk.controllers()[0], signal.SIGKILL)
        assert "the controller of `job` died; starting another" in desk.run("watch", "job").stderr

    def test_logs_of_an_imaginary_run_that_is_over_are_said_to_be_gone(self, desk: Desk) -> None:
        desk.fleet("{seed: 1, speed: 500, run_s: 100}")
        desk.up()
        assert desk.run("logs", "job").stderr == "an imaginary fleet keeps no logs of runs that have ended\n"

    def test_follow_of_logs_and_events_ends_with_the_run(self, desk: Desk) -> None:
        desk.fleet("{seed: 1, speed: 500, run_s: 6000}")
        desk.up("-d")
        until(lambda: desk.state() == "running", "running")
        logs = desk.run("logs", "job", "--rank", "1", "-f", "--tail", "0")
        assert logs.returncode == 0, logs.stderr
        assert logs.stdout.splitlines()[0] == "NVLAUNCH_RUN=job"
        assert not any(line.startswith("[") for line in logs.stdout.splitlines())
        told = [json.loads(line) for line in desk.run("events", "job", "-f", "-o", "json").stdout.splitlines()]
        assert [event["seq"] for event in told] == list(range(1, len(told) + 1))
        assert told[-1]["kind"] == "ended"


class TestDown:
    def test_down_ends_a_run_and_frees_its_nodes(self, desk: Desk) -> None:
        desk.fleet("{seed: 1, speed: 1000, run_s: 100000000}")
        desk.up("-d")
        refused = desk.run("down", "job")
        assert refused.returncode == 2
        assert "nothing was changed" in refused.stderr
        done = desk.run("down", "job", "-y")
        assert done.returncode == 0, done.stderr
        assert "job stopped. All nodes released." in done.stderr
        assert desk.status()["state"] == "stopped"
        assert re.search(r"r1 +\.\.\. +3/3", desk.run("racks", "-i", "fleet.yaml").stdout)
        again = desk.run("down", "job", "-y")
        assert again.returncode == 0
        assert "has already ended" in again.stderr

    def test_down_needs_no_controller_to_be_there(self, desk: Desk) -> None:
        desk.fleet("{seed: 1, speed: 1000, run_s: 100000000}")
        desk.up("-d")
        for pid in desk.controllers():
            os.kill(pid, signal.SIGKILL)
        assert desk.run("down", "--all", "-y").returncode == 0
        assert desk.status()["state"] == "stopped"

    def test_a_follower_of_a_run_taken_down_ends_with_1(self, desk: Desk) -> None:
        desk.fleet("{seed: 1, speed: 1000, run_s: 100000000}")
        with desk.begin("up", "task.yaml", "-i", "fleet.yaml", "-y") as follower:
            until(lambda: desk.state() is not None, "accepted")
            assert desk.run("down", "job", "-y").returncode == 0
            _, err = follower.communicate(timeout=60)
        assert follower.returncode == 1
        assert "`job` was stopped" in err


class TestTerminal:
    @pytest.mark.parametrize("no_color", [False, True])
    def test_colour_is_for_terminals_alone(self, desk: Desk, no_color: bool) -> None:
        desk.env.pop("NO_COLOR", None)
        desk.env["TERM"] = "xterm"
        if no_color:
            desk.env["NO_COLOR"] = "1"
        ours, theirs = pty.openpty()
        with desk.begin("down", "nosuch", stdin=theirs, stderr=theirs) as process:
            process.wait(timeout=60)
        os.close(theirs)
        told = os.read(ours, 4096).decode()
        os.close(ours)
        assert "error" in told
        assert (ESCAPE in told) is not no_color

    def test_a_question_on_a_terminal_can_be_declined(self, desk: Desk) -> None:
        ours, theirs = pty.openpty()
        with desk.begin("up", "task.yaml", "-i", "fleet.yaml", stdin=theirs, stderr=theirs) as process:
            os.write(ours, b"n\n")
            process.wait(timeout=60)
        os.close(theirs)
        told = os.read(ours, 4096).decode()
        os.close(ours)
        assert process.returncode == 130
        assert "start `job`?" in told
        assert desk.run("status", "-o", "json").stdout == "[]\n"

    def test_names_of_runs_complete(self, desk: Desk) -> None:
        desk.up()
        desk.env |= {
            "_NVLAUNCH_COMPLETE": "complete_bash",
            "COMP_WORDS": "nvlaunch status jo",
            "COMP_CWORD": "2",
        }
        assert "job" in desk.run().stdout.split()
