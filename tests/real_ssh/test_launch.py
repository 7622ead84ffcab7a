"""The main job on racks of real hosts: real sshd, real Ray, once as an ordinary user and once as root."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.desk import AMPLE_S, Desk
from tests.real_ssh.stages import OWN
from tests.rig import Host, Rig
from tests.rig.witness import until

TASK = """
name: {name}
resources: {{accelerators: GB300:4}}
topology: {{slices: 2, nodes_per_slice: 4, spares: 1}}
stop_grace: 2
secrets: {{TOKEN: null}}
setup: echo set up on $(hostname)
run: |
  echo "rank $NODE_RANK of $NNODES on $(hostname) in $NVLAUNCH_RACK as $(id -un)"
  until [ -e /tmp/gate ]; do sleep 0.2; done
"""
# Leases on all eighteen nodes, at the price of three raylets.
WIDE = TASK.replace("slices: 2, nodes_per_slice: 4, spares: 1", "slices: 3, nodes_per_slice: 1, spares: 5")
SECRET = "hush-0815"


@pytest.fixture(scope="module")
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    """3 racks of 6 hosts, on which we are an ordinary user or root."""
    user = getattr(request, "param", "ubuntu")
    with Rig(3, 6, user=user, python=sys.executable, name=f"launch{user}") as made:
        yield made


@pytest.fixture(scope="module")
def desk(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    made = a_desk(tmp_path_factory.mktemp("desk"), rig)
    yield made
    made.run("down", "--all", "-y")


def a_desk(folder: Path, rig: Rig) -> Desk:
    """Where a person sits who has the secret, and no files of `ssh`."""
    (folder / ".ssh").mkdir()
    return Desk(folder, rig.inventory(), HOME=str(folder), TOKEN=SECRET)


def up_args(desk: Desk, name: str, text: str, *more: str) -> list[str]:
    file = desk.task(name, text.format(name=name))
    return ["up", str(file), "-y", "--secret", "TOKEN", "-i", str(desk.inventory), *more]


def running(desk: Desk, name: str) -> dict[str, Any]:
    """The status of a run as soon as it runs."""
    seen = desk.until(name, lambda seen: seen["state"] in ("running", "failed"))
    assert seen["state"] == "running", desk.run("events", name).stdout
    return seen


def rig_home(rig: Rig) -> str:
    """Where the user of the hosts lives."""
    return "/root" if rig.user == "root" else f"/home/{rig.user}"


def ours(host: Host, run: str) -> list[str]:
    """What lives of a run on a host, by the marker in its environment or the run's name among its arguments."""
    return [" ".join(process.argv) for process in host.processes(run) if process.state != "Z"]


def settled(host: Host, run: str) -> list[str]:
    """What is left of a run on a host, once it had a moment to leave."""
    deadline = time.monotonic() + 20
    while (left := ours(host, run)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


@pytest.mark.parametrize("rig", ["ubuntu", "root"], indirect=True)
def test_two_slices_of_four_on_three_racks_from_plan_to_the_last_process(rig: Rig, desk: Desk) -> None:
    before = {host.name: host.written() for host in rig.hosts.values()}
    up = desk.begin(*up_args(desk, "main", TASK))
    seen = running(desk, "main")
    run = seen["id"]

    racks = {(rank["slice"], rank["rack"]) for rank in seen["ranks"]}
    assert len(racks) == 2, "a slice stands in two racks"
    holders = {rank["node"] for rank in seen["ranks"]}
    spares = {spare["node"] for spare in seen["spares"]}
    for host in rig.hosts.values():
        lines = ours(host, run)
        has_rank = any("run.sh" in line or "rank" in line for line in lines)
        assert has_rank is (host.name in holders), f"{host.name}: {lines}"
        assert bool(lines) is (host.name in holders | spares)

    for host in rig.hosts.values():
        assert [path for path in host.holding(SECRET) if "/dev/shm/" not in path] == [], "memory of the user's alone"
        told = [" ".join(process.argv) for process in host.processes(SECRET)]
        assert [line for line in told if not line.endswith("run.sh") and not line.startswith("sleep")] == []
        host.write("/tmp/gate", "", user="root")
    _, err = up.communicate(timeout=AMPLE_S)
    assert up.returncode == 0, err
    for rank in seen["ranks"]:
        log = desk.run("logs", "main", "--rank", str(rank["rank"])).stdout
        assert f"rank {rank['rank']} of 8 on {rank['node']} in {rank['rack']} as {rig.user}" in log
    for host in rig.hosts.values():
        assert settled(host, run) == []
        known = {"/tmp/gate", f"{rig_home(rig)}/.nvlaunch", f"{rig_home(rig)}/.nvlaunch/runs"}
        outside = {path for path in host.written() - before[host.name] - known if run not in path}
        assert {path for path in outside if not OWN.search(path)} == set()
        assert host.holding(SECRET) == []
        host.run(["rm", "-f", "/tmp/gate"])
    assert not [path for path in desk.home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert SECRET not in err


def test_a_second_home_is_told_who_has_the_nodes_and_gets_them_after_down(rig: Rig, desk: Desk, tmp_path: Path) -> None:
    up = desk.run(*up_args(desk, "holder", WIDE, "-d"))
    assert up.returncode == 0, up.stderr
    run = running(desk, "holder")["id"]
    other = a_desk(tmp_path, rig)
    refused = other.run(*up_args(other, "rival", TASK))
    assert refused.returncode in (3, 6), refused.stderr
    assert "holder" in refused.stderr
    assert desk.status("holder")["state"] == "running"
    down = desk.run("down", "holder", "-y")
    assert down.returncode == 0, down.stderr
    for host in rig.hosts.values():
        assert settled(host, run) == []
    assert other.run(*up_args(other, "heir", WIDE, "-d")).returncode == 0
    heir = other.status("heir")["id"]
    until(lambda: all(ours(host, heir) for host in rig.hosts.values()), AMPLE_S)
    assert other.run("down", "heir", "-y").returncode == 0
    for host in rig.hosts.values():
        assert settled(host, heir) == []
