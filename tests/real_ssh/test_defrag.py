"""Three racks of real hosts with gaps: a slice moves with its checkpoint, another stays, a waiting job starts."""

import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk import AMPLE_S, Desk
from tests.recovery.stage import PROGRAM
from tests.rig import Rig
from tests.rig.witness import until

COUNTING = """
name: {name}
resources: {{accelerators: GB300:4}}
topology: {{nodes_per_slice: 1{where}}}
movable: {movable}
stop_grace: 2
run: exec python3 -u /shared/defrag/program.py /shared/defrag/{name}
"""
BIG = """
name: big
resources: {accelerators: GB300:4}
topology: {slices: 2, nodes_per_slice: 2}
stop_grace: 1
run: sleep 600
"""


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(3, 2, python=sys.executable, name="defrag") as made:
        yield made


@pytest.fixture
def desk(rig: Rig, tmp_path: Path) -> Iterator[Desk]:
    shared = rig.shared / "defrag"
    shutil.rmtree(shared, ignore_errors=True)
    for folder in (shared, shared / "moved", shared / "fixed"):
        folder.mkdir()
        folder.chmod(0o777)
    (shared / "program.py").write_text(PROGRAM.read_text())
    (tmp_path / ".ssh").mkdir()
    made = Desk(tmp_path, rig.inventory(), HOME=str(tmp_path))
    yield made
    made.run("down", "--all", "-y")


def counted(rig: Rig, name: str) -> list[tuple[int, str, int]]:
    """Attempt, host and step of each step that the rank of a run has done."""
    lines = (rig.shared / "defrag" / name / "trail-0").read_text().splitlines()
    return [(int(attempt), node, int(step)) for attempt, node, step in map(str.split, lines)]


def begin(desk: Desk, rig: Rig, name: str, where: str, movable: str) -> None:
    file = desk.task(name, COUNTING.format(name=name, where=where, movable=movable))
    up = desk.run("up", str(file), "-d", "-y", "-i", str(desk.inventory))
    assert up.returncode == 0, up.stderr


def await_checkpoint(rig: Rig, name: str) -> None:
    until(lambda: (rig.shared / "defrag" / name / "saved-0").exists(), AMPLE_S)


def test_a_waiting_job_of_two_racks_starts_after_one_slice_has_moved(desk: Desk, rig: Rig) -> None:
    begin(desk, rig, "moved", "", "true")
    begin(desk, rig, "fixed", ", racks: [r02]", "false")
    await_checkpoint(rig, "moved")
    await_checkpoint(rig, "fixed")
    queued = desk.run("up", str(desk.task("big", BIG)), "--queue", "-y", "-i", str(desk.inventory))
    assert queued.returncode == 0, queued.stderr
    assert {rank["rack"] for rank in desk.status("moved")["ranks"]} == {"r01"}

    begun = time.monotonic()
    done = desk.run("defrag", "--yes")
    took = time.monotonic() - begun
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 move to make room for `big`" in done.stdout
    desk.until("big", lambda seen: seen["state"] == "running")
    assert {rank["rack"] for rank in desk.status("big")["ranks"]} == {"r01", "r03"}

    seen = desk.status("moved")
    assert ([rank["rack"] for rank in seen["ranks"]], seen["attempt"], seen["restarts"]) == (["r02"], 2, 0)
    steps = counted(rig, "moved")
    first = [step for attempt, _, step in steps if attempt == 1]
    second = [step for attempt, _, step in steps if attempt == 2]
    assert max(first) // 5 * 5 + 1 == second[0] > 1, "it did not resume from its checkpoint"
    before = len(counted(rig, "fixed"))
    until(lambda: len(counted(rig, "fixed")) > before, AMPLE_S)
    assert {attempt for attempt, _, _ in counted(rig, "fixed")} == {1}
    print(f"defrag took {took:.1f} s")
