"""Groups that share nodes, as a person runs them: real Ray on local racks."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.desk import AMPLE_S, Desk
from tests.real.local import raylets

INVENTORY = """
name: share-racks
transport: local
lease_path: {home}/lease
defaults: {{gpus: 4}}
racks:
  r1: {{nodes: {{a1: {{address: 127.0.63.1}}, a2: {{address: 127.0.63.2}}, a3: {{address: 127.0.63.3}}}}}}
"""

TASK = """
name: shared
envs: {GATE: null}
stop_grace: 1
groups:
  prefill:
    resources: {accelerators: GB300:2}
    topology: {nodes_per_slice: 2, spares: 1}
    setup: echo ready for $NVLAUNCH_GROUP
    run: |
      env | sort
      until [ -e "$GATE" ]; do sleep 0.1; done
  decode:
    resources: {accelerators: GB300:1}
    num_nodes: 2
    topology: {nodes_of: prefill}
    setup: echo ready for $NVLAUNCH_GROUP
    run: |
      env | sort
      until [ -e "$GATE" ]; do sleep 0.1; done
  router:
    topology: {nodes_of: prefill}
    recovery: {restart_with: group}
    run: |
      env | sort
      until [ -e "$GATE" ]; do sleep 0.1; done
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    made = Desk(folder, INVENTORY.format(home=folder))
    yield made
    made.run("down", "--all", "-y")


def _where(seen: dict[str, Any]) -> dict[str, str]:
    return {f"{rank['group']}/{rank['rank']}": rank["node"] for rank in seen["ranks"]}


def _variables(desk: Desk, rank: str) -> dict[str, str]:
    lines = desk.run("logs", "shared", "--rank", rank).stdout.splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def test_groups_share_nodes_come_back_together_and_move_together(desk: Desk) -> None:
    up = desk.begin(*desk.up_args(desk.task("shared", TASK)))
    seen = desk.until("shared", lambda seen: seen["state"] == "running")
    together = {"prefill/0": "a1", "prefill/1": "a2", "decode/0": "a1", "decode/1": "a2", "router/0": "a1"}
    assert _where(seen) == together
    _check_variables(desk)
    said = desk.run("logs", "shared", "--provision", "--node", "a1").stdout.splitlines()
    assert [line for line in said if "ready" in line] == ["ready for prefill", "ready for decode"]

    (raylet,) = raylets("127.0.63.2")
    os.kill(raylet, signal.SIGKILL)
    seen = desk.until("shared", lambda seen: seen["state"] == "running" and seen["attempt"] == 2)
    assert _where(seen) == together

    assert desk.run("drain", "a2", "-y", "--reason", "a test asks for it").returncode == 0
    seen = desk.until("shared", lambda seen: seen["state"] == "running" and seen["attempt"] == 3)
    assert _where(seen) == {**together, "prefill/1": "a3", "decode/1": "a3"}
    assert desk.run("undrain", "a2").returncode == 0

    # Ranks beside it were killed twice and told to stop once; the raylet under it was not touched, unless Ray could not
    # place the others any more: then its whole cluster begins anew, and says so.
    anew = "restarting the Ray cluster" in desk.run("events", "shared").stdout
    assert _variables(desk, "router/0")["NVLAUNCH_ATTEMPT"] == "1" or anew
    assert _variables(desk, "prefill/0")["NVLAUNCH_ATTEMPT"] == "3"
    desk.gate("shared").touch()
    _, err = up.communicate(timeout=AMPLE_S)
    assert up.returncode == 0, err


def _check_variables(desk: Desk) -> None:
    prefill, decode, router = (_variables(desk, rank) for rank in ("prefill/1", "decode/1", "router/0"))
    assert (prefill["NODE_RANK"], prefill["NNODES"], prefill["CUDA_VISIBLE_DEVICES"]) == ("1", "2", "0,1")
    assert (decode["NODE_RANK"], decode["NNODES"], decode["CUDA_VISIBLE_DEVICES"]) == ("1", "2", "2")
    assert (router["NODE_RANK"], router["NNODES"], router["CUDA_VISIBLE_DEVICES"]) == ("0", "1", "")
    assert len({found["MASTER_PORT"] for found in (prefill, decode, router)}) == 3
    assert {found["MASTER_ADDR"] for found in (prefill, decode, router)} == {"127.0.63.1"}
