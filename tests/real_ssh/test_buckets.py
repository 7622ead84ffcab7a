"""Buckets mounted on hosts with a login each: a node that is cut off, one that takes its place, a killed controller."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk import Desk
from tests.real.buckets.store import KEY, SECRET, Store, wait_until
from tests.real_ssh.stages import left_on
from tests.rig import Host, Rig

TASK = f"""
name: mounted
topology: {{slices: 1, nodes_per_slice: 2, spares: 1}}
recovery: {{max_restarts: 0}}
stop_grace: 1
secrets: {{STORE_KEY: {KEY}, STORE_SECRET: {SECRET}}}
file_mounts:
  ~/data: {{source: s3://data, mode: MOUNT}}
  ~/out: {{source: s3://out, mode: MOUNT_CACHED}}
setup: grep content ~/data/file
run: |
  grep content ~/data/file
  hostname > ~/out/rank-$NVLAUNCH_ATTEMPT-$NODE_RANK
  sleep 600
"""


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """Three hosts, and one for Ray heads."""
    with Rig(1, 3, head=True, python=sys.executable, name="buckets") as made:
        for host in made.hosts.values():
            host.run(["sh", "-c", "mknod -m 666 /dev/fuse c 10 229"])
        yield made


@pytest.fixture
def store(rig: Rig, tmp_path: Path) -> Iterator[Store]:
    """The endpoint, at an address that hosts reach."""
    folder = tmp_path / "buckets"
    folder.mkdir()
    made = Store(folder, rig.plan.launcher_address)
    yield made
    made.close()


@pytest.fixture
def desk(rig: Rig, store: Store, tmp_path: Path) -> Iterator[Desk]:
    (tmp_path / ".ssh").mkdir()
    keys = "access_key: STORE_KEY, secret_key: STORE_SECRET"
    storage = f"storage: {{s3: {{endpoint: '{store.endpoint}', {keys}}}}}\n"
    made = Desk(tmp_path, rig.inventory() + storage, HOME=str(tmp_path))
    yield made
    made.run("down", "--all", "-y")


def _mounts(host: Host) -> int:
    return str(host.run(["cat", "/proc/mounts"]).stdout).count("nvlaunch:")


def test_a_node_that_stops_itself_and_one_whose_controller_is_killed_keep_no_mount(
    desk: Desk, rig: Rig, store: Store
) -> None:
    (store.bucket("data") / "file").write_text("content")
    out = store.bucket("out")
    up = desk.run("up", str(desk.task("mounted", TASK)), "-y", "-d", "-i", str(desk.inventory))
    assert up.returncode == 0, up.stderr
    seen = desk.until("mounted", lambda seen: seen["state"] == "running")
    host = rig[next(rank["node"] for rank in seen["ranks"] if rank["rank"] == 1)]
    wait_until(lambda: len(list(out.glob("rank-1-*"))) == 2, 30)
    assert _mounts(host) == 2
    host.link(False)
    desk.until("mounted", lambda seen: seen["state"] == "running" and seen["attempt"] == 2)
    wait_until(lambda: len(list(out.glob("rank-2-*"))) == 2, 60)
    assert _mounts(host) == 0
    assert not host.processes("rclone")
    assert [_mounts(other) for name, other in sorted(rig.hosts.items()) if name.startswith("r") and other != host] == [
        2,
        2,
    ]
    host.link(True)
    os.kill(desk.controller("mounted"), signal.SIGKILL)
    down = desk.run("down", "mounted", "-y")
    assert down.returncode == 0, down.stderr
    for other in rig.hosts.values():
        assert (_mounts(other), left_on(other, str(seen["id"]))) == (0, [])
        assert not str(other.run(["find", "/dev/shm", "-maxdepth", "1", "-name", "nvl-*"]).stdout)
