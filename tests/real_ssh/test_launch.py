"""The main job on racks of real hosts: real sshd, real Ray, once as an ordinary user and once as root."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk import AMPLE_S, Desk
from tests.rig import Host, Rig

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


SECRET = "hush-0815"


@pytest.fixture(scope="module", params=["ubuntu", "root"])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    """3 racks of 6 hosts."""
    with Rig(3, 6, user=request.param, python=sys.executable, name=f"launch{request.param}") as made:
        yield made


@pytest.fixture(scope="module")
def desk(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    (folder / ".ssh").mkdir()
    made = Desk(folder, rig.inventory(), HOME=str(folder), TOKEN=SECRET)
    yield made
    made.run("down", "--all", "-y")


def rig_home(rig: Rig) -> str:
    """Where the user of the hosts lives."""
    return "/root" if rig.user == "root" else f"/home/{rig.user}"


def ours(host: Host, run: str) -> list[str]:
    """What lives of a run on a host, by the marker in its environment or the run's name among its arguments."""
    return [" ".join(process.argv) for process in host.processes(run) if process.state != "Z"]


def tells(host: Host, *folders: str) -> list[str]:
    """Which files of a host hold the secret."""
    return host.run(["grep", "-rlsF", SECRET, *folders], check=False).stdout.split()


def settled(host: Host, run: str) -> list[str]:
    """What is left of a run on a host, once it had a moment to leave."""
    deadline = time.monotonic() + 5
    while (left := ours(host, run)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def test_two_slices_of_four_on_three_racks_from_plan_to_the_last_process(rig: Rig, desk: Desk) -> None:
    before = {
        host.name: host.files("/home", "/root", "/tmp", "/run", "/dev/shm", "/var") for host in rig.hosts.values()
    }
    up = desk.begin(
        "up", str(desk.task("main", TASK.format(name="main"))), "-y", "--secret", "TOKEN", "-i", str(desk.inventory)
    )
    seen = desk.until("main", lambda seen: seen["state"] in ("running", "failed"))
    assert seen["state"] == "running", desk.run("events", "main").stdout
    run = seen["id"]

    racks = {(rank["slice"], rank["rack"]) for rank in seen["ranks"]}
    assert len(racks) == 2, "a slice stands in two racks"
    holders = {rank["node"] for rank in seen["ranks"]}
    spares = {spare["node"] for spare in seen["spares"]}
    for host in rig.hosts.values():
        has_rank = any("run.sh" in line or "rank" in line for line in ours(host, run))
        assert has_rank is (host.name in holders), f"{host.name}: {ours(host, run)}"
        assert bool(ours(host, run)) is (host.name in holders | spares)

    for host in rig.hosts.values():
        assert tells(host, "/home", "/root", "/tmp", "/run", "/var") == []
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
        left = host.files("/home", "/root", "/tmp", "/run", "/dev/shm", "/var") - before[host.name]
        outside = {path for path in left if run not in path and not path.startswith("/tmp/gate")}
        known = {f"{rig_home(rig)}/.nvlaunch", f"{rig_home(rig)}/.nvlaunch/runs"}
        assert {path for path in outside - known if "lock" not in path and "lease" not in path} == set()
        assert tells(host, "/home", "/root", "/tmp", "/run", "/var", "/dev/shm") == []
        host.run(["rm", "-f", "/tmp/gate"])
    assert not [path for path in desk.home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert SECRET not in err


def test_down_of_a_running_run_leaves_nothing_and_frees_the_leases(rig: Rig, desk: Desk) -> None:
    for name in ("first", "second"):
        up = desk.run(
            "up",
            str(desk.task(name, TASK.format(name=name))),
            "-y",
            "-d",
            "--secret",
            "TOKEN",
            "-i",
            str(desk.inventory),
        )
        assert up.returncode == 0, up.stderr
        run = desk.until(name, lambda seen: seen["state"] in ("running", "failed"))
        assert run["state"] == "running", desk.run("events", name).stdout
        down = desk.run("down", name, "-y")
        assert down.returncode == 0, down.stderr
        for host in rig.hosts.values():
            assert settled(host, run["id"]) == []


def test_a_second_home_is_told_who_has_the_nodes(rig: Rig, desk: Desk, tmp_path: Path) -> None:
    # Leases on all eighteen nodes, at the price of three raylets.
    wide = TASK.replace("nodes_per_slice: 4, spares: 1", "nodes_per_slice: 1, spares: 5").replace(
        "slices: 2", "slices: 3"
    )
    up = desk.run(
        "up",
        str(desk.task("holder", wide.format(name="holder"))),
        "-y",
        "-d",
        "--secret",
        "TOKEN",
        "-i",
        str(desk.inventory),
    )
    assert up.returncode == 0, up.stderr
    assert desk.until("holder", lambda seen: seen["state"] in ("running", "failed"))["state"] == "running"
    (tmp_path / ".ssh").mkdir()
    other = Desk(tmp_path, rig.inventory(), HOME=str(tmp_path), TOKEN=SECRET)
    refused = other.run(
        "up", str(other.task("rival", TASK.format(name="rival"))), "-y", "--secret", "TOKEN", "-i", str(other.inventory)
    )
    assert refused.returncode in (3, 6), refused.stderr
    assert "holder" in refused.stderr
    assert desk.status("holder")["state"] == "running"
    assert desk.run("down", "holder", "-y").returncode == 0
