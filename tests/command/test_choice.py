"""Which kind of node a task gets that would run on several: what is free now counts, then what there is at all."""

from pathlib import Path

import pytest

from tests.desk import Desk

FLEET = """
name: two-kinds
transport: sim
sim: {seed: 1, run_s: 100000, speed: 1}
racks:
  r1: {accelerator: GB300, nodes: "r1-n[1-2]"}
  r2: {accelerator: GB200, nodes: "r2-n[1-2]"}
"""
CHOOSES = """
name: chooses
resources: {accelerators: [GB300:4, GB200:4]}
num_nodes: 2
run: python train.py
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, FLEET)


def test_the_first_kind_is_taken_while_it_is_free_and_named_when_none_is(desk: Desk) -> None:
    file = desk.task("chooses", CHOOSES)
    plan = ("plan", str(file), "-i", str(desk.inventory))
    try:
        for name, rack, kind in (("a", "r1", "`GB300:4`, choice 1"), ("b", "r2", "`GB200:4`, choice 2")):
            up = desk.run("up", str(file), "-i", str(desk.inventory), "-y", "-d", "--name", name)
            assert up.returncode == 0, up.stderr
            assert f"{kind} of 2" in up.stderr
            assert {rank["rack"] for rank in desk.status(name)["ranks"]} == {rack}
        full = desk.run(*plan)
        assert (full.returncode, "`GB300:4`, choice 1 of 2" in full.stderr) == (3, True)
    finally:
        desk.run("down", "--all", "-y")
