"""Spares on real Ray: up and held before they are needed, and a rank that goes on there while others run."""

import json
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.desk import Desk
from tests.real.local import raylets

INVENTORY = """
name: spare-rack
transport: local
lease_path: {home}/lease
defaults: {{gpus: 4}}
racks:
  r1:
    nodes:
      a1: {{address: 127.0.76.1}}
      a2: {{address: 127.0.76.2}}
      a3: {{address: 127.0.76.3}}
      a4: {{address: 127.0.76.4}}
"""
TASK = """
name: spared
envs: {FOLDER: null}
resources: {accelerators: GB300:4}
topology: {slices: 1, nodes_per_slice: 2, spares: 2}
recovery: {node_attempts: 0, restart_with: member}
stop_grace: 1
setup: echo set up
run: |
  echo $NVLAUNCH_ATTEMPT $$ $(date +%s.%N) >> $FOLDER/rank-$NVLAUNCH_NODE_RANK
  until [ -e $FOLDER/over ]; do sleep 0.1; done
"""


@pytest.fixture
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    made = Desk(folder, INVENTORY.format(home=folder))
    yield made
    made.run("down", "--all", "-y")


def events(desk: Desk) -> list[dict[str, Any]]:
    lines = desk.run("events", "spared", "-o", "jsonl").stdout.splitlines()
    return [json.loads(line) for line in lines]


def held(desk: Desk) -> set[str]:
    """The nodes whose raylets Ray holds."""
    done = (one["subject"] for one in events(desk) if one["kind"] == "receipt" and one["message"].startswith("done"))
    return {subject.split(":")[1].split("#")[0] for subject in done if subject.startswith("park:")}


def begun(desk: Desk, rank: int) -> list[list[str]]:
    """Attempt, process and time of each start of a rank."""
    return [line.split() for line in (desk.folder / f"rank-{rank}").read_text().splitlines()]


def lose(desk: Desk, address: str, starts: int) -> float:
    """Kill the raylet of rank 1; return how long it takes until that rank has started so often (s)."""
    (raylet,) = raylets(address)
    at = time.time()
    os.kill(raylet, signal.SIGKILL)
    desk.until("spared", lambda _: len(begun(desk, 1)) == starts)
    return float(begun(desk, 1)[-1][2]) - at


def test_a_rank_goes_on_with_the_raylet_of_a_spare_and_its_neighbour_never_notices(desk: Desk) -> None:
    up = desk.begin(*desk.up_args(desk.task("spared", TASK)), "--env", f"FOLDER={desk.folder}")
    desk.until("spared", lambda _: held(desk) == {"a3", "a4"})
    for address, starts in (("127.0.76.2", 2), ("127.0.76.3", 3)):
        took = lose(desk, address, starts)
        print(f"rank 1 has started again after {took:.1f} s")
        seen = desk.until("spared", lambda seen: seen["state"] == "running")
    where = {rank["rank"]: rank["node"] for rank in seen["ranks"]}
    assert where == {0: "a1", 1: "a4"}
    (first,) = begun(desk, 0)
    os.kill(int(first[1]), 0)  # it has lost its actor with the placement group, twice, and still runs
    (desk.folder / "over").touch()
    _, err = up.communicate(timeout=120)
    assert up.returncode == 0, err
    subjects = [one["subject"] for one in events(desk) if one["kind"] == "intent"]
    joins = [subject for subject in subjects if subject.startswith("join:")]
    assert len(joins) == len(set(joins)) == 4, "no raylet was started for the lost slot"
    assert {"unreserve:spare.1", "unreserve:spare.2"} <= set(subjects)
