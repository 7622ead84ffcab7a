"""A driver as a person runs it: the example on local racks with real Ray, one that fails, and one that loses a node."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk import Desk
from tests.real.local import raylets

EXAMPLE = Path(__file__).parents[2] / "examples" / "ray-driver.yaml"
INVENTORY = """
name: driver-racks
transport: local
lease_path: {home}/lease
ray_tls: true
racks:
  r1: {{nodes: {{a1: {{address: 127.0.71.1}}, a2: {{address: 127.0.71.2}}}}}}
  r2: {{nodes: {{b1: {{address: 127.0.72.1}}, b2: {{address: 127.0.72.2}}}}}}
"""
RESERVED = """
name: fails-once
resources: {accelerators: GB300:4}
topology: {slices: 2, nodes_per_slice: 1}
workdir: CODE
reserve: true
recovery: {max_restarts: 1}
stop_grace: 1
driver: |
  python - <<'END'
  import json, os, ray
  ray.init(namespace="nvlaunch", runtime_env={"working_dir": "."})

  @ray.remote(num_cpus=1, num_gpus=4)
  def imports():
      import of_the_workdir
      return of_the_workdir.ANSWER

  for part in json.loads(os.environ["NVLAUNCH_SLICES"]):
      group = ray.util.get_placement_group(part["placement_group"])
      print("reserved", part["placement_group"], [bundle["GPU"] for bundle in group.bundle_specs])
      strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(group)
      print("imported", ray.get(imports.options(scheduling_strategy=strategy).remote(), timeout=60))
  print("attempt", os.environ["NVLAUNCH_ATTEMPT"], "restarts", os.environ["NVLAUNCH_RESTARTS"])
  END
  exit $((3 - NVLAUNCH_RESTARTS * 3))
"""


WAITS = """
name: loses-a-node
resources: {accelerators: GB300:4}
topology: {slices: 2, nodes_per_slice: 2}
recovery: {max_restarts: 0}
stop_grace: 1
envs: {GATE: null}
driver: |
  python - <<'END'
  import os, time, ray
  ray.init()

  @ray.remote(num_cpus=1, num_gpus=4)
  class Trainer:
      def where(self):
          return ray.get_runtime_context().get_node_labels()["nvlaunch.io/slot"]

  trainers = [Trainer.remote() for _ in range(4)]
  attempt = os.environ["NVLAUNCH_ATTEMPT"]
  print("attempt", attempt, sorted(ray.get([one.where.remote() for one in trainers])), flush=True)
  while not os.path.exists(os.environ["GATE"]):
      time.sleep(0.1)
  END
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    made = Desk(folder, INVENTORY.format(home=folder))
    yield made
    made.run("down", "--all", "-y")


def test_the_example_makes_a_group_a_slice_each_in_one_domain(desk: Desk) -> None:
    up = desk.run("up", str(EXAMPLE), "-y", "--foreground", "-i", str(desk.inventory))
    assert up.returncode == 0, up.stderr
    logs = desk.run("logs", "ray-driver").stdout
    assert "slice 0: 2 trainers in r1, domains ['r1']" in logs
    assert "slice 1: 2 trainers in r2, domains ['r2']" in logs


def test_a_driver_that_fails_is_started_again_within_its_budget_and_finds_what_is_reserved(desk: Desk) -> None:
    code = desk.folder / "code"
    code.mkdir()
    (code / "of_the_workdir.py").write_text("ANSWER = 42\n")
    file = desk.task("fails-once", RESERVED.replace("CODE", str(code)))
    up = desk.run("up", str(file), "-y", "--foreground", "-i", str(desk.inventory))
    assert up.returncode == 0, up.stderr
    assert "main/0 on a1 exited with 3; restart 1 of 1" in up.stderr
    logs = desk.run("logs", "fails-once").stdout
    assert "reserved main.s0 [4.0]" in logs
    assert "reserved main.s1 [4.0]" in logs
    assert logs.count("imported 42") == 2
    assert "attempt 2 restarts 1" in logs


def test_a_driver_that_loses_a_raylet_is_started_again_with_all_that_it_made(desk: Desk) -> None:
    file = desk.task("loses-a-node", WAITS)
    up = desk.begin(*desk.up_args(file), "--foreground")
    slots = "['main-0', 'main-1', 'main-2', 'main-3']"
    desk.until("loses-a-node", lambda _: f"attempt 1 {slots}" in desk.run("logs", "loses-a-node").stdout)
    (raylet,) = raylets("127.0.72.2")
    os.kill(raylet, signal.SIGKILL)
    desk.until("loses-a-node", lambda _: f"attempt 2 {slots}" in desk.run("logs", "loses-a-node").stdout)
    desk.gate("loses-a-node").touch()
    _, err = up.communicate(timeout=60)
    assert up.returncode == 0, err
