"""Ctrl-C at each stage of `up` on real hosts: the run goes on and says how to come back, or nothing was begun; and at
each stage `status` says what the agents on the nodes say."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.desk import AMPLE_S, Desk
from tests.real_ssh.stages import STAGES, await_stage, outside
from tests.real_ssh.wheels import real_ray
from tests.rig import Host, Rig
from tests.rig.witness import until

TASK = """
name: {name}
resources: {{accelerators: GB300:4}}
topology: {{slices: 1, nodes_per_slice: 2}}
stop_grace: 1
workdir: {workdir}
setup: until [ -e /tmp/ready ]; do sleep 0.1; done
run: until [ -e /tmp/gate ]; do sleep 0.1; done
"""
# At these it is taken down at once; at the others it is let go on until its ranks run.
EARLY = ("sync", "environment", "setup")


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """One rack of two hosts."""
    with Rig(1, 2, python=sys.executable, name="interrupt") as made:
        yield made


@pytest.fixture
def desk(rig: Rig, tmp_path: Path) -> Iterator[Desk]:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "data").write_bytes(bytes(1000))
    made = Desk(tmp_path, rig.inventory(), HOME=str(tmp_path))
    for host in rig.hosts.values():
        host.run(["rm", "-f", "/tmp/ready", "/tmp/gate"])
    yield made
    made.run("down", "--all", "-y")


def let(rig: Rig, word: str) -> None:
    """Let setup, or the ranks, go on."""
    for host in rig.hosts.values():
        host.write(f"/tmp/{word}", "")


def up(desk: Desk, name: str) -> "subprocess.Popen[str]":
    task = desk.task(name, TASK.format(name=name, workdir=desk.folder / "work"))
    return desk.begin("up", str(task), "-y", "-i", str(desk.inventory))


def until_said(process: "subprocess.Popen[str]", words: str) -> str:
    """What is said up to the line with these words."""
    assert process.stderr
    said = ""
    while words not in said:
        line = process.stderr.readline()
        assert line, f"ended with {process.wait()}: {said}"
        said += line
    return said


def interrupted(process: "subprocess.Popen[str]") -> str:
    """Press Ctrl-C once; the exit code is that of an interruption, and nothing looks like a bug."""
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    return err


def ours(host: Host) -> list[str]:
    lines = [" ".join(p.argv) for p in host.processes() if p.state != "Z"]
    return [line for line in lines if "nvlaunch" in line or "raylet" in line or "gcs_server" in line]


def left(rig: Rig) -> list[str]:
    """Programs of ours on the hosts, once they had a moment to leave."""
    deadline = time.monotonic() + 20
    while (found := [line for host in rig.hosts.values() for line in ours(host)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


@pytest.mark.parametrize("stage", ["connect", "preflight"])
def test_before_the_run_is_accepted_nothing_was_begun(rig: Rig, desk: Desk, stage: str) -> None:
    slow = rig["r01-n02"]
    slow.lose_name()  # one of the questions takes ten seconds
    process = up(desk, "early")
    try:
        until_said(process, "inventory `")
        if stage == "preflight":
            until(lambda: any("python" in one.argv[0] for one in slow.processes(user=rig.user)), AMPLE_S)
        assert "nothing was started" in interrupted(process)
    finally:
        slow.lose_name(on=False)
    assert json.loads(desk.run("status", "-o", "json").stdout) == []
    assert left(rig) == []


@pytest.mark.parametrize("stage", STAGES, ids=str)
def test_a_run_that_was_accepted_goes_on_and_says_how_to_come_back(rig: Rig, desk: Desk, stage: str) -> None:
    if stage not in EARLY:
        let(rig, "ready")
    if stage == "sync":  # enough to be seen on its way
        (desk.folder / "work" / "more").write_bytes(os.urandom(60_000_000))
    if stage == "environment":  # of nodes without a Python that is named
        desk.inventory.write_text(rig.inventory(python=None, wheels=str(real_ray(desk.folder / "wheels"))))
    before = {host.name: host.written() for host in rig.hosts.values()}
    process = up(desk, "kept")
    await_stage(desk, "kept", stage)
    err = interrupted(process)
    assert "run `kept` continues; reattach with `nvlaunch watch kept`, end it with `nvlaunch down kept`" in err
    os.kill(desk.controller("kept"), 0)
    if stage not in EARLY:
        seen = desk.until("kept", lambda seen: seen["state"] in ("running", "failed"))
        assert seen["state"] == "running", desk.run("events", "kept").stdout
    assert desk.run("down", "kept", "-y").returncode == 0
    assert left(rig) == []
    for host in rig.hosts.values():
        assert outside(host, desk.status("kept")["id"], before[host.name]) == set()


def agents(rig: Rig, run: str) -> dict[str, dict[str, Any]]:
    """What the files of the agents on the hosts say, by node: nothing where there is none."""
    found = {}
    for host in rig.hosts.values():
        folder = f"/home/{rig.user}/.nvlaunch/runs/{run}/{host.name}"
        alive = any("agent serve" in " ".join(p.argv) and folder in " ".join(p.argv) for p in host.processes(run))
        setup = host.run(["cat", f"{folder}/setup.json"], check=False).stdout
        raylet = any(p.argv[0].endswith("/raylet") for p in host.processes(run))
        rank = host.run(["sh", "-c", f"cat {folder}/ranks/*/*/state.json"], check=False).stdout
        found[host.name] = {"alive": alive, "setup": setup, "raylet": raylet, "rank": rank}
    return found


def test_status_agrees_with_the_nodes_at_each_stage(rig: Rig, desk: Desk) -> None:
    process = up(desk, "told")

    def agrees(state: str, holds: Callable[[dict[str, Any]], bool]) -> None:
        seen = desk.until("told", lambda seen: {rank["state"] for rank in seen["ranks"]} == {state})
        nodes = agents(rig, seen["id"])
        assert {rank["node"] for rank in seen["ranks"]} == set(nodes)
        assert all(holds(said) for said in nodes.values()), (state, nodes)

    agrees("preparing", lambda said: said["alive"] and not said["raylet"] and not said["rank"])
    let(rig, "ready")
    agrees("running", lambda said: said["alive"] and said["raylet"] and said["rank"])
    let(rig, "gate")
    process.communicate(timeout=AMPLE_S)
    assert process.returncode == 0
    agrees("finished", lambda said: not said["alive"] and not said["raylet"])
    assert left(rig) == []
