"""Runs in containers of a real Docker, on local racks with real Ray, as a person starts them."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

from tests.containers.docker import Docker
from tests.desk import AMPLE_S, Desk
from tests.real.local import raylets

INVENTORY = """
name: box-racks
transport: local
lease_path: {home}/lease
defaults: {{gpus: 4}}
racks:
  r1: {{nodes: {{a1: {{address: 127.0.66.1}}, a2: {{address: 127.0.66.2}}, a3: {{address: 127.0.66.3}}}}}}
  r2: {{nodes: {{b1: {{address: 127.0.67.1}}, b2: {{address: 127.0.67.2}}, b3: {{address: 127.0.67.3}}}}}}
"""

TASK = """
name: {name}
resources: {{accelerators: GB300:4, image_id: "docker:{image}"}}
container: {{mounts: ["{folder}"]}}
topology: {{slices: {slices}, nodes_per_slice: 2}}
envs: {{GATE: null, ODD: {odd}}}
secrets: {secrets}
recovery: {{max_restarts: {restarts}}}
stop_grace: 5
setup: |
  echo "set up in $(grep PRETTY /etc/os-release)"
  echo setup >/var/made-by-setup
run: |
  {body}
"""
SECRET = "hush 'quoted' $x\nline"
WAIT = 'cat /etc/os-release; cat /var/made-by-setup; until [ -e "$GATE" ]; do sleep 0.1; done'
ODD = "a'b\"c $HOME `id` \\\n\n  two lines\t\u00fc\U0001f600 " + "x" * 100_000


def task(desk: Desk, name: str, *, body: str = WAIT, slices: int = 1, restarts: int = 0) -> Path:
    odd = json.dumps(ODD, ensure_ascii=False)
    secrets = "{SECRET_WORD: null}" if name == "inside" else "{}"
    indented = body.replace("\n", "\n  ")
    text = TASK.format(
        folder=desk.folder,
        name=name,
        slices=slices,
        restarts=restarts,
        image="box:1",
        odd=odd,
        secrets=secrets,
        body=indented,
    )
    return desk.task(name, text)


@pytest.fixture(scope="module")
def desk(docker: Docker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    made = Desk(folder, INVENTORY.format(home=folder), **docker.env, SECRET_WORD=SECRET)
    yield made
    made.run("down", "--all", "-y")


def until(
    desk: Desk, up: "subprocess.Popen[str]", name: str, holds: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """As `Desk.until`, but with what the command says where it ends before."""
    deadline = time.monotonic() + AMPLE_S
    while not (seen := desk.seen(name)) or not holds(seen):
        assert up.poll() is None, up.communicate()[1]
        assert time.monotonic() < deadline, (
            desk.run("events", name).stdout + desk.run("logs", name, "--provision").stdout
        )
        time.sleep(0.05)
    return seen


def containers(docker: Docker, *more: str) -> list[str]:
    return docker.said("ps", "--format", "{{.Names}}", *more).split()


def test_two_slices_run_inside_and_leave_nothing(docker: Docker, desk: Desk) -> None:
    body = f'printf %s "$ODD" | md5sum; printf %s "$SECRET_WORD" | md5sum; echo "$BOX"; env | sort; {WAIT}'
    file = task(desk, "inside", body=body, slices=2)
    up = desk.begin(*desk.up_args(file, "--secret", "SECRET_WORD"))
    until(desk, up, "inside", lambda seen: seen["state"] == "running")
    assert len(containers(docker)) == 4
    done = desk.run("exec", "inside", "--rank", "1", "--", "sh", "-c", "cat /etc/os-release; echo $NODE_RANK; exit 7")
    assert done.stdout.splitlines()[-1] == "1", done
    assert "exited with 7" in done.stderr
    assert "Box Linux" in done.stdout
    desk.gate("inside").touch()
    _, err = up.communicate(timeout=AMPLE_S)
    assert up.returncode == 0, err
    for rank in range(4):
        log = desk.run("logs", "inside", "--rank", str(rank)).stdout.splitlines()
        for line in ("ID=box", "of-the-image", "setup", f"NODE_RANK={rank}", f"NVLAUNCH_SLICE={rank // 2}"):
            assert line in log, log
        for value in (ODD, SECRET):
            assert f"{md5(value.encode()).hexdigest()}  -" in log, log
        assert not [line for line in log if line.startswith(("LOGNAME=", "RAY_", "SHELL="))], log
    assert containers(docker, "--all") == []


FAULTS = """
trap 'echo told >told-$NODE_RANK; exit 9' TERM
echo $$ >pid-$NODE_RANK
echo $(cat /var/made-by-setup) >>counts-$NODE_RANK
while :; do sleep 0.1; done
"""


def test_kills_are_recovered_from_as_without_a_container(docker: Docker, desk: Desk) -> None:
    up = desk.begin(*desk.up_args(task(desk, "faults", body=FAULTS.strip(), restarts=9)))

    def attempt(number: int) -> dict[str, Any]:
        return until(desk, up, "faults", lambda seen: seen["state"] == "running" and seen["attempt"] == number)

    attempt(1)
    ids = docker.said("ps", "--quiet", "--no-trunc").split()
    assert len(ids) == 2
    os.kill(program(desk, "a2", 1), signal.SIGKILL)
    attempt(2)
    assert "main/1 on a2 exited with 137" in desk.run("events", "faults").stdout

    docker.kill()
    assert program(desk, "a1", 0)
    assert program(desk, "a2", 1)
    docker.start()
    (raylet,) = raylets("127.0.66.2")  # the head has one of its own on the other node
    os.kill(raylet, signal.SIGKILL)
    attempt(3)
    assert docker.said("ps", "--quiet", "--no-trunc").split() == ids  # nothing was made for a restart in place

    holder = docker.said("inspect", "--format", "{{.State.Pid}}", ids[0])
    os.kill(int(holder), signal.SIGKILL)
    attempt(4)
    begun(desk, 4)
    assert docker.said("ps", "--quiet", "--no-trunc").split() == ids  # it was started again
    docker.client("rm", "-f", ids[0])
    attempt(5)
    begun(desk, 5)
    assert len(docker.said("ps", "--quiet").split()) == 2
    for node, rank in (("a1", 0), ("a2", 1)):
        assert (workdir(desk, node) / f"counts-{rank}").read_text().split() == ["setup"] * 5

    os.kill(desk.controller("faults"), signal.SIGKILL)
    down = desk.run("down", "faults", "-y")
    up.communicate(timeout=AMPLE_S)
    assert down.returncode == 0, down.stderr
    for node, rank in (("a1", 0), ("a2", 1)):
        assert (workdir(desk, node) / f"told-{rank}").read_text() == "told\n"
    assert containers(docker, "--all") == []
    assert docker.said("images", "--quiet")


def begun(desk: Desk, times: int) -> None:
    """Wait until the program of each rank has begun this many times: a rank runs once its container is looked for."""
    deadline = time.monotonic() + AMPLE_S
    for node, rank in (("a1", 0), ("a2", 1)):
        while len((workdir(desk, node) / f"counts-{rank}").read_text().split()) < times:
            assert time.monotonic() < deadline, desk.run("events", "faults").stdout
            time.sleep(0.05)


def workdir(desk: Desk, node: str, name: str = "faults") -> Path:
    """The workdir of a run on a node."""
    (found,) = (desk.home / "nodes" / node).glob(f"{name}-*/workdir")
    return found


def program(desk: Desk, node: str, rank: int) -> int:
    """The program of a rank, which lives; it writes its number down some moments after its rank counts as running."""
    deadline = time.monotonic() + 20
    while True:
        pid = int((workdir(desk, node) / f"pid-{rank}").read_text())
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            assert time.monotonic() < deadline, f"no program of rank {rank} on {node}"
            time.sleep(0.05)
        else:
            return pid
