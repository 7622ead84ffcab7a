"""A node on which nothing can be written, or nothing more be started, on real hosts: each cell of the table."""

import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.desk import AMPLE_S, Desk
from tests.effort import SOAK
from tests.real_ssh import sick_nodes as sick
from tests.real_ssh.sick_nodes import Cell
from tests.real_ssh.stages import left_on
from tests.rig import Rig
from tests.rig.faults import can_limit_processes
from tests.rig.witness import until

SECRET = "open-sesame-%s"
TASK = """
name: {name}
resources: {{accelerators: GB300:4}}
topology: {{slices: 1, nodes_per_slice: 2, spares: {spares}}}
recovery: {{max_restarts: 3}}
stop_grace: 1
secrets: {{WORD: {secret}}}
run: |
  touch /shared/{name}/began-$NVLAUNCH_ATTEMPT-$NVLAUNCH_NODE_RANK
  until [ -e /shared/{name}/end ]; do sleep 0.1; done
"""
ROOM = {sick.BEFORE: 40, sick.BETWEEN: 40, sick.MIDWAY: 0}
"""Processes and threads that a limited host may have besides: enough to log in and be asked, far too few for Ray."""


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """One rack of four hosts: two nodes of a run, its spare, and one that is free."""
    with Rig(1, 4, python=sys.executable, name="sick") as made:
        yield made


class Bed:
    """One cell: a desk with an inventory of as many hosts as the cell has, and the host that falls ill."""

    def __init__(self, rig: Rig, folder: Path, cell: Cell) -> None:
        self.rig, self.cell = rig, cell
        self.hosts = list(rig.hosts.values())[: 4 if cell.spare else 2]
        self.shared = rig.shared / cell.name
        self.shared.mkdir()
        self.shared.chmod(0o777)
        (folder / ".ssh").mkdir()
        lines = rig.inventory().splitlines()
        known = {host.name for host in self.hosts}
        kept = [line for line in lines if not (found := re.match(r" +(r\d+-n\d+):", line)) or found[1] in known]
        self.desk = Desk(folder, "\n".join(kept) + "\n", HOME=str(folder))
        self.secret = SECRET % cell.name
        text = TASK.format(name=cell.name, spares=int(cell.spare), secret=self.secret)
        self.task = str(self.desk.task(cell.name, text))
        self.patient = self.hosts[0 if cell.place == sick.RANK_0 else 1]
        self.struck = 0.0

    def strike(self) -> None:
        """Let the host fall ill."""
        self.struck = time.monotonic()
        home = f"/home/{self.rig.user}"
        match self.cell.sickness:
            case sick.FULL:
                for path in (home, "/tmp"):
                    self.patient.fill_disk(path)
            case sick.READ_ONLY:
                for path in (home, "/tmp"):
                    self.patient.read_only(path, True)
            case sick.LIMITED:
                self.patient.limit_processes(ROOM[self.cell.moment])

    def takes_no_room_back(self) -> bool:
        """Whether the raylet's processes have gone; what they leave free is not to be had again."""
        self.patient.limit_processes(0)
        return not any("DashboardAgent" in one.argv[0] for one in self.patient.processes(f"{self.cell.name}-"))

    def up(self) -> "subprocess.CompletedProcess[str]":
        """Launch, with the blow in between where the cell says so; answer how the command ended."""
        words = ["up", self.task, "-i", str(self.desk.inventory)]
        if self.cell.expected != sick.REFUSED:
            words.append("-d")
        if self.cell.moment != sick.BETWEEN:
            return self.desk.run(*words, "-y")
        return self._asked(words)

    def _asked(self, words: list[str]) -> "subprocess.CompletedProcess[str]":
        """Run the command at a terminal, and strike while it asks to start: by then the nodes are checked."""
        ours, its = pty.openpty()
        command = subprocess.Popen(
            [sys.executable, "-m", "launcher.cli", *words], env=self.desk.env, stdin=its, stdout=its, stderr=its
        )
        os.close(its)
        said = ""
        try:
            while True:
                try:
                    part = os.read(ours, 4096).decode(errors="replace")
                except OSError:  # the terminal's other end is closed
                    break
                if not part:
                    break
                said += part
                if "[Y/n]" in said and not self.struck:
                    self.strike()
                    os.write(ours, b"y\n")
            code = command.wait(30)
        finally:
            command.kill()
            command.wait()
            os.close(ours)
        return subprocess.CompletedProcess(words, code, said, said)

    def status(self) -> dict[str, Any]:
        """What is said of the run now; empty where none was accepted."""
        return self.desk.seen(self.cell.name)

    def runs(self) -> bool:
        """Whether the run runs, and each rank of its newest attempt has begun."""
        seen = self.status()
        if not seen or seen["state"] != "running":
            return False
        began = {path.name for path in self.shared.glob(f"began-{seen['attempt']}-*")}
        return len(began) == len(seen["ranks"]) == 2

    def left(self) -> dict[str, Any]:
        """What is left on hosts: processes, files with the secret, leases that somebody holds."""
        leases = "/run/lock/*nvlaunch* /tmp/.nvlaunch*"
        held = f"for f in {leases}; do [ ! -f $f ] || flock -n $f true || echo $f; done"
        run = f"{self.cell.name}-"
        found = {
            host.name: [left_on(host, run), host.holding(self.secret), host.run(["sh", "-c", held]).stdout.split()]
            for host in self.hosts
        }
        return {name: what for name, what in found.items() if any(what)}

    def heal(self) -> None:
        """Give the rig back as it was."""
        if self.status():
            self.desk.run("down", self.cell.name, "-y")
        if self.cell.sickness == sick.FULL:
            self.patient.free_disk()  # the size of a disk outlives a boot
        self.patient.power_cut()
        if can_limit_processes():
            self.patient.forget_limit()
        self.patient.boot(reimaged=True)


@pytest.fixture
def bed(request: pytest.FixtureRequest, rig: Rig, tmp_path: Path) -> Iterator[Bed]:
    if request.param.sickness == sick.LIMITED and not can_limit_processes():
        pytest.skip("this machine has no `pids` controller")
    made = Bed(rig, tmp_path, request.param)
    yield made
    made.heal()


@pytest.mark.parametrize("bed", sick.CELLS if SOAK else sick.ALWAYS, indirect=True, ids=lambda cell: cell.name)
def test_a_run_with_a_sick_node_comes_to_its_state_within_a_minute(bed: Bed, record_property: Any) -> None:
    cell, name = bed.cell, bed.cell.name
    if cell.moment == sick.BEFORE:
        bed.strike()
    done = bed.up()
    if cell.moment == sick.MIDWAY:
        assert done.returncode == 0, done.stderr
        until(bed.runs, AMPLE_S)
        assert bed.patient.name in {rank["node"] for rank in bed.status()["ranks"]}
        bed.strike()
        for process in bed.patient.processes(f"{name}-"):
            if process.argv[0].endswith("/raylet") and "/head" not in " ".join(process.argv):
                bed.patient.kill(process.pid)
        if cell.sickness == sick.LIMITED:
            until(bed.takes_no_room_back, 5)
    assert bed.struck, f"the launch was refused before it asked: {done.stderr}"
    try:
        _judge(bed, done)
    finally:
        print(bed.desk.run("events", name).stdout[-12000:], bed.status())
    took = time.monotonic() - bed.struck
    record_property("seconds", round(took, 1))
    print(f"\n{name}: {cell.expected} after {took:.1f} s")
    assert took <= sick.SLOW * sick.WITHIN_S


@pytest.mark.parametrize("bed", [Cell(sick.FULL, sick.AT_END, sick.ELSEWHERE, False)], indirect=True, ids=["full"])
def test_ranks_that_end_well_on_a_full_disk_have_ended_well(bed: Bed) -> None:
    name = bed.cell.name
    done = bed.up()
    assert done.returncode == 0, done.stderr
    until(bed.runs, AMPLE_S)
    bed.strike()
    (bed.shared / "end").touch()
    last = bed.desk.until(name, lambda seen: seen["state"] in ("succeeded", "failed", "stopped"))
    assert (last["state"], last["attempt"], last["restarts"]) == ("succeeded", 1, 0), bed.desk.run(
        "events", name
    ).stdout
    assert not bed.left()


def _judge(bed: Bed, done: "subprocess.CompletedProcess[str]") -> None:
    cell, name, patient = bed.cell, bed.cell.name, bed.patient.name
    match cell.expected:
        case sick.MOVED:
            assert done.returncode == 0, done.stderr
            until(
                lambda: bed.runs() and patient not in {rank["node"] for rank in bed.status()["ranks"]},
                sick.SLOW * sick.WITHIN_S,
            )
            assert bed.status()["restarts"] == 0
            (bed.shared / "end").touch()
            last = bed.desk.until(name, lambda seen: seen["state"] in ("succeeded", "failed", "stopped"))
            assert (last["state"], last["restarts"]) == ("succeeded", 0), last["status_message"]
        case sick.REFUSED:
            assert done.returncode in (3, 4), done.stderr
            assert patient in done.stderr
            assert not bed.status() or bed.status()["state"] == "failed"
        case sick.HELD:
            until(lambda: bed.status()["state"] == "on-hold", sick.SLOW * sick.WITHIN_S)
            assert patient in bed.status()["status_message"]
            assert bed.status()["restarts"] == 0
    if cell.expected == sick.HELD:
        down = bed.desk.run("down", name, "-y")
        assert down.returncode == 0, down.stderr
        assert bed.status()["state"] == "stopped"
    assert not bed.left()
