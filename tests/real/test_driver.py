"""A driver as a person runs it: the example on local racks with real Ray, and one that fails."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk import Desk

EXAMPLE = Path(__file__).parents[2] / "examples" / "ray-driver.yaml"
INVENTORY = """
name: driver-racks
transport: local
lease_path: {home}/lease
racks:
  r1: {{nodes: {{a1: {{address: 127.0.71.1}}, a2: {{address: 127.0.71.2}}}}}}
  r2: {{nodes: {{b1: {{address: 127.0.72.1}}, b2: {{address: 127.0.72.2}}}}}}
"""
RESERVED = """
name: fails-once
resources: {accelerators: GB300:4}
topology: {slices: 2, nodes_per_slice: 1}
reserve: true
recovery: {max_restarts: 1}
stop_grace: 1
driver: |
  python - <<'END'
  import json, os, ray
  ray.init(namespace="nvlaunch")
  for part in json.loads(os.environ["NVLAUNCH_SLICES"]):
      group = ray.util.get_placement_group(part["placement_group"])
      print("reserved", part["placement_group"], [bundle["GPU"] for bundle in group.bundle_specs])
  print("epoch", os.environ["NVLAUNCH_EPOCH"], "restarts", os.environ["NVLAUNCH_RESTARTS"])
  END
  exit $((3 - NVLAUNCH_RESTARTS * 3))
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
    file = desk.task("fails-once", RESERVED)
    up = desk.run("up", str(file), "-y", "--foreground", "-i", str(desk.inventory))
    assert up.returncode == 0, up.stderr
    assert "main/0 on a1 exited with 3: restart 1 of 1" in up.stderr
    logs = desk.run("logs", "fails-once").stdout
    assert "reserved main.s0 [4.0]" in logs
    assert "reserved main.s1 [4.0]" in logs
    assert "epoch 2 restarts 1" in logs
