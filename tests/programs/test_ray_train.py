"""A script of Ray Train, unmodified, that loses a node: it ends with the losses of an undisturbed run.

Ray Train needs pandas and pyarrow, 300 MB with numpy, so this is a part of the soak: `make programs`.
"""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.programs.stage import Program
from tests.rig import Rig

SCRIPT = "ray_trained.py --steps 150 --losses {folder}/losses --storage {folder}/storage"
ENVS = {"RAY_TRAIN_V2_ENABLED": "1"}


@pytest.fixture
def program(rig: Rig, tmp_path: Path) -> Iterator[Program]:
    made = Program(rig, tmp_path, "ray-train")
    yield made
    made.clear()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_trainer_that_loses_a_node_goes_on_from_its_checkpoint(
    program: Program, rank: int, record_property: Callable[[str, object], None]
) -> None:
    folder = f"/shared/{program.name}"
    command = f"cd {folder} && exec python {SCRIPT.format(folder=folder)} --pause 0.3"
    program.up({"driver": command}, envs=ENVS)
    program.logged(35)
    program.holder(rank).power_cut()
    took = program.resumed()
    record_property("recovered_s", round(took, 1))
    print(f"{program.name}: a step again {took:.1f} s after the fault")
    last = program.over()
    assert last["state"] == "succeeded", program.told()
    assert (last["attempt"], last["restarts"]) == (2, 0), program.told()
    calm = [sys.executable, *SCRIPT.format(folder=program.calm_folder).split(), "--workers", "1"]
    program.holds(program.calm(calm, {**ENVS, "HOME": os.fspath(program.calm_folder.parent)}))
