"""Drains as a driver hears of them from real Ray, as Ray Train does: in time for a checkpoint, withdrawn, and of the
node that the Ray head is on."""

from collections.abc import Iterator

import pytest

from tests.desk import Desk

INVENTORY = """
name: drain-rack
transport: local
lease_path: {home}/lease
racks:
  r1: {{nodes: {{a1: {{address: 127.0.74.1}}, a2: {{address: 127.0.74.2}}, a3: {{address: 127.0.74.3}}}}}}
"""
LISTENS = """
name: listens
resources: {accelerators: GB300:4}
topology: {slices: 1, nodes_per_slice: 2, spares: 1}
recovery: {max_restarts: 0}
reserve: true
stop_grace: 60
driver: |
  python - <<'END'
  import os, time, ray
  from ray._private.state import state
  ray.init()
  attempt, checkpoint, seen = os.environ["NVLAUNCH_ATTEMPT"], "CHECKPOINT", set()
  told = []
  print("attempt", attempt, "draining", len(state.get_draining_nodes()), flush=True)
  while not (attempt != "1" and os.path.exists(checkpoint)):
      draining = state.get_draining_nodes()
      for node in ray.nodes():
          if node["NodeID"] in draining.keys() - seen:
              seen.add(node["NodeID"])
              left = draining[node["NodeID"]] / 1000 - time.time()
              told.append(f"told {node['Labels']['nvlaunch.io/slot']} {30 < left < 61}")
              print(told[-1], flush=True)
      if len(seen) == 2:
          open(checkpoint, "w").write(", ".join(told))
          raise SystemExit
      time.sleep(0.2)
  print("resumed", flush=True)
  END
"""


@pytest.fixture
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    made = Desk(folder, INVENTORY.format(home=folder))
    yield made
    made.run("down", "--all", "-y")


def test_a_driver_hears_of_drains_in_time_for_a_checkpoint_and_of_withdrawn_ones_too(desk: Desk) -> None:
    def said(words: str) -> bool:
        return words in desk.run("logs", "listens").stdout

    file = desk.task("listens", LISTENS.replace("CHECKPOINT", str(desk.folder / "checkpoint")))
    up = desk.begin(*desk.up_args(file), "--foreground")
    desk.until("listens", lambda _: said("attempt 1 draining 0"))
    assert desk.run("drain", "a2", "-y").returncode == 0
    desk.until("listens", lambda _: said("told main-1 True"))
    assert desk.run("undrain", "a2").returncode == 0
    desk.until(
        "listens", lambda seen: "Ray counts a2 as draining until the next attempt" in str(seen["status_message"])
    )
    assert desk.status("listens")["state"] == "running"
    # The node of the driver itself, and of the Ray head.
    assert desk.run("drain", "a1", "-y").returncode == 0
    _, err = up.communicate(timeout=180)
    assert up.returncode == 0, err
    assert (desk.folder / "checkpoint").read_text() == "told main-1 True, told main-0 True"
    logs = desk.run("logs", "listens").stdout
    assert "attempt 2 draining 0" in logs, "the raylet of a2 has started again"
    assert "resumed" in logs
    status = desk.status("listens")
    assert (status["attempt"], status["restarts"]) == (2, 0)
    assert "Ray counts" not in str(status["status_message"])
