"""`check` in a process of its own: nodes of this machine that meet at a port, and imaginary ones before a start."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.all_reduce import all_reduce
from tests.desk import Desk

ALL_REDUCE = all_reduce('os.environ["NVLAUNCH_NODE_NAME"] == "r1-n3"')

LOCAL = """
name: here
transport: local
checks:
  before_return: {script: all_reduce.py, scope: slice, time_limit: 60s}
  before_start: {run: "touch %s/begun; sleep 613", time_limit: 10m}
racks:
  r1: {nodes: "r1-n[1-6]"}
"""

HALL = """
name: hall
transport: sim
checks: {before_start: {run: ./check, time_limit: 1m}}
racks: {r1: {nodes: "r1-n[1-6]"}}
sim: {run_s: 1, faults: [{at: 0, node: r1-n2, fault: check_fails}]}
"""

TASK = "name: job\nnum_nodes: 4\nrun: 'true'\n"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "all_reduce.py").write_text(ALL_REDUCE)
    return Desk(tmp_path, LOCAL % tmp_path)


def sleeping() -> bool:
    return subprocess.run(["pgrep", "-f", "sleep 613"], capture_output=True).returncode == 0


def test_the_slow_node_of_a_slice_is_found_by_a_script_that_is_slow_with_it(desk: Desk) -> None:
    ended = desk.run("check", "-i", str(desk.inventory), "-o", "json")
    assert ended.returncode == 4, ended.stderr
    said = json.loads(ended.stdout)
    assert [(one["part"], one["nodes"]) for one in said["found"]] == [("node", ["r1-n3"])]
    assert {one["node"]: one["result"] for one in said["nodes"]} == {
        f"r1-n{at}": "suspect" if at == 3 else "good" for at in range(1, 7)
    }
    again = desk.run("nodes", "r1-n3", "-o", "json", "-i", str(desk.inventory))
    assert {50.0} == {one["number"] for one in json.loads(again.stdout)[0]["checks"]}


def test_nothing_of_a_check_is_left_after_ctrl_c(desk: Desk) -> None:
    with desk.begin("check", "--check", "before_start", "-i", str(desk.inventory), "r1-n[1-3]") as process:
        deadline = time.monotonic() + 60
        while not (desk.folder / "begun").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    deadline = time.monotonic() + 30
    while sleeping():
        assert time.monotonic() < deadline, err
        time.sleep(0.05)
    assert json.loads(desk.run("racks", "-i", str(desk.inventory), "-o", "json").stdout)["racks"][0]["free"] == 6


def test_a_start_replaces_and_quarantines_a_node_that_fails_its_check(tmp_path: Path) -> None:
    desk = Desk(tmp_path, HALL)
    task = desk.task("job", TASK)
    planned = desk.run("plan", str(task), "-i", str(desk.inventory))
    assert "`before_start` checks each node alone: up to 1m a test, 6m in total" in planned.stdout
    ended = desk.run("up", str(task), "-y", "-i", str(desk.inventory))
    assert ended.returncode == 0, ended.stderr
    assert "`before_start`: 3 good, 1 bad" in ended.stderr
    assert "skipped r1-n2: check `before_start`: exit status 1: an imaginary fault" in ended.stderr
    nodes = json.loads(desk.run("nodes", "-o", "json", "-i", str(desk.inventory)).stdout)
    assert [(one["node"], one["state"]) for one in nodes] == [("r1-n2", "quarantined")]
    back = desk.run("nodes", "readmit", "r1-n2", "-y", "-i", str(desk.inventory))
    assert back.returncode == 0, back.stderr
    shown = json.loads(desk.run("plan", str(task), "-i", str(desk.inventory), "-o", "json").stdout)
    assert shown["slices"][0]["nodes"] == ["r1-n1", "r1-n3", "r1-n4", "r1-n5"]  # others come before it for a day
