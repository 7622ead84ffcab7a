"""A driver whose Ray is that of its image: real Ray in containers of a real Docker, on local racks."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.docker import Docker
from tests.containers.ray_image import ray_rootfs
from tests.desk import AMPLE_S, Desk
from tests.real.local import raylets

IMAGE = "ray-box:1"
ADDRESS = "127.0.68.1"
LONG_S = 300.0
INVENTORY = """
name: driver-boxes
transport: local
lease_path: {home}/lease
container_engine: docker
racks:
  r1: {{nodes: {{a1: {{address: 127.0.68.1}}}}}}
"""
TASK = """
name: inside
resources: {accelerators: GB300:4, image_id: docker:IMAGE}
container: {mounts: [FOLDER]}
topology: {slices: 1, nodes_per_slice: 1}
recovery: {max_restarts: 0}
reserve: true
stop_grace: 1
envs: {GATE: null, OF_THE_TASK: "a 'quoted' word"}
secrets: {SECRET_WORD: null}
setup: echo "set up" >/var/made-by-setup
driver: |
  python3 - <<'END'
  import json, os, time, ray
  ray.init(namespace="nvlaunch")

  @ray.remote(num_cpus=1, num_gpus=4)
  class Trainer:
      def where(self):
          import only_in_image
          text = open("/etc/os-release").read() + open("/var/made-by-setup").read()
          assert os.environ["OF_THE_TASK"] == "a 'quoted' word" and os.environ["SECRET_WORD"] == "hush"
          slot = ray.get_runtime_context().get_node_labels()["nvlaunch.io/slot"]
          return slot, only_in_image.WORD, "Box Linux" in text and "set up" in text

  (part,) = json.loads(os.environ["NVLAUNCH_SLICES"])
  group = ray.util.get_placement_group(part["placement_group"])
  at = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy
  trainers = [Trainer.options(scheduling_strategy=at(group, index)).remote() for index in range(1)]
  attempt = os.environ["NVLAUNCH_ATTEMPT"]
  print("attempt", attempt, sorted(ray.get([one.where.remote() for one in trainers])), flush=True)
  while not os.path.exists(os.environ["GATE"]):
      time.sleep(0.1)
  END
"""
FOUND = "[('main-0', 'of-the-image', True)]"


@pytest.fixture(scope="module")
def desk(docker: Docker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    archive = ray_rootfs(folder / "ray.tar")
    docker.client("import", "--change", "ENV PATH=/opt/python/bin:/usr/bin:/bin", str(archive), IMAGE)
    archive.unlink()
    made = Desk(folder, INVENTORY.format(home=folder), **docker.env, SECRET_WORD="hush")
    yield made
    made.run("down", "--all", "-y")
    docker.client("rmi", IMAGE, check=False)


def await_line(desk: Desk, up: "subprocess.Popen[str]", line: str) -> None:
    """Wait until the driver has written a line; Ray's parts start from files that no page cache has yet."""
    deadline = time.monotonic() + LONG_S
    while line not in desk.run("logs", "inside").stdout:
        assert up.poll() is None, up.communicate()[1] + desk.run("logs", "inside", "--provision").stdout
        assert time.monotonic() < deadline, desk.run("events", "inside").stdout
        time.sleep(0.5)


def test_a_driver_its_workers_and_the_head_run_in_the_image_and_recover(docker: Docker, desk: Desk) -> None:
    text = TASK.replace("FOLDER", str(desk.folder)).replace("IMAGE", IMAGE)
    up = desk.begin(*desk.up_args(desk.task("inside", text), "--foreground", "--secret", "SECRET_WORD"))

    await_line(desk, up, f"attempt 1 {FOUND}")
    parts = raylets(ADDRESS)
    assert len(parts) == 2  # of the head, and of the node
    for pid in parts:
        assert "Box Linux" in Path(f"/proc/{pid}/root/etc/os-release").read_text()
    ids = docker.said("ps", "--quiet", "--no-trunc").split()
    assert len(ids) == 2
    (raylet,) = (pid for pid in parts if b"--head" not in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"))
    os.kill(raylet, signal.SIGKILL)
    await_line(desk, up, f"attempt 2 {FOUND}")
    assert docker.said("ps", "--quiet", "--no-trunc").split() == ids  # a restart in place makes nothing
    desk.gate("inside").touch()
    _, err = up.communicate(timeout=AMPLE_S)
    assert up.returncode == 0, err
    assert docker.said("ps", "--all", "--quiet") == ""
    assert raylets(ADDRESS) == []
