"""Runs in containers of a real Docker, on local racks with real Ray, as a person starts them."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.containers.docker import Docker
from tests.desk import AMPLE_S, Desk

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
topology: {{slices: {slices}, nodes_per_slice: 2}}
envs: {{GATE: null, ODD: {odd}}}
recovery: {{max_restarts: 3}}
stop_grace: 5
setup: |
  echo "set up in $(grep PRETTY /etc/os-release)"
  echo setup >/var/made-by-setup
run: |
  {body}
"""
WAIT = 'cat /etc/os-release; cat /var/made-by-setup; until [ -e "$GATE" ]; do sleep 0.1; done'
ODD = "a'b\"c $HOME `id` \\\n\n  two lines\t\u00fc\U0001f600 " + "x" * 100_000


def task(desk: Desk, name: str, *, body: str = WAIT, slices: int = 1) -> Path:
    odd = json.dumps(ODD, ensure_ascii=False)
    indented = body.replace("\n", "\n  ")
    text = TASK.format(name=name, slices=slices, image="box:1", odd=odd, body=indented)
    return desk.task(name, text)


@pytest.fixture(scope="module")
def desk(docker: Docker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    made = Desk(folder, INVENTORY.format(home=folder), **docker.env, SECRET_WORD="hush 'quoted' $x\nline")
    yield made
    made.run("down", "--all", "-y")


def until(
    desk: Desk, up: "subprocess.Popen[str]", name: str, holds: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """As `Desk.until`, but with what the command says where it ends before."""
    deadline = time.monotonic() + AMPLE_S
    while not (seen := desk.seen(name)) or not holds(seen):
        assert up.poll() is None, up.communicate()[1]
        assert time.monotonic() < deadline, desk.run("events", name).stdout + desk.run("logs", name, "--provision").stdout
        time.sleep(0.05)
    return seen


def containers(docker: Docker, *more: str) -> list[str]:
    return docker.said("ps", "--format", "{{.Names}}", *more).split()


def test_two_slices_run_inside_and_leave_nothing(docker: Docker, desk: Desk) -> None:
    body = f'printf %s "$ODD" | md5sum; echo "$BOX"; id -u; {WAIT}'
    file = task(desk, "inside", body=body, slices=2)
    up = desk.begin(*desk.up_args(file))
    until(desk, up, "inside", lambda seen: seen["state"] == "running")
    assert len(containers(docker)) == 4
    done = desk.run("exec", "inside", "--rank", "1", "--", "cat", "/etc/os-release")
    assert "Box Linux" in done.stdout, done
    desk.gate("inside").touch()
    _, err = up.communicate(timeout=AMPLE_S)
    assert up.returncode == 0, err
    for rank in range(4):
        log = desk.run("logs", "inside", "--rank", str(rank)).stdout
        assert "Box Linux" in log, log
    assert containers(docker, "--all") == []
