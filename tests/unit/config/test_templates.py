"""Examples and starter files are read, and fit on the inventories that they are written for."""

import subprocess
import sys
from pathlib import Path

import pytest

from launcher.config.inventory.built_in import built_in
from launcher.config.inventory.read import read_inventory
from launcher.config.task.levels import check_levels
from launcher.config.task.read import read_task
from launcher.config.templates import CHECKS, read_check
from launcher.config.templates import EXAMPLES as OFFERED
from launcher.core.checks.results import read_number
from launcher.core.model.placement import Placement
from launcher.core.placement.place import place

EXAMPLES = Path(__file__).parents[3] / "examples"
FLEET = "fleet-9xnvl72.yaml"
WHERE = {
    "vla-8x64": FLEET,
    "torchrun": FLEET,
    "container": FLEET,
    "buckets": FLEET,
    "torchrun-snapshots": FLEET,
    "accelerate": FLEET,
    "deepspeed": FLEET,
    "megatron": FLEET,
    "ray-train": FLEET,
    "verl": FLEET,
    "vllm": FLEET,
    "rl": FLEET,
    "prefill-decode": FLEET,
    "shared-nodes": FLEET,
    "demo": None,
    "plain-skypilot": None,
    "ray-driver": None,
}
INVENTORIES = {"fleet-9xnvl72", "local-racks"}


def test_every_example_is_tested_and_offered_by_init() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.yaml")} == INVENTORIES | set(WHERE)
    assert set(OFFERED) == set(WHERE)


@pytest.mark.parametrize("name", WHERE)
def test_example_is_placed(name: str) -> None:
    parsed = read_task(EXAMPLES / f"{name}.yaml")
    chosen = WHERE[name]
    inventory = built_in() if chosen is None else read_inventory(EXAMPLES / chosen)
    check_levels(parsed.task, inventory)
    placement = place(parsed.task, inventory, {})
    assert isinstance(placement, Placement)
    assert len(placement.slices) == sum(group.topology.slices for group in parsed.task.groups)


@pytest.mark.parametrize("name", ["task", "task-multi-slice"])
def test_starter_task_is_placed_on_the_simulated_fleet(name: str) -> None:
    parsed = read_task(EXAMPLES.parent / "templates" / f"{name}.yaml")
    assert isinstance(place(parsed.task, read_inventory(EXAMPLES / FLEET), {}), Placement)


def test_skypilot_example_warns_of_keys_for_clouds() -> None:
    warnings = read_task(EXAMPLES / "plain-skypilot.yaml").warnings
    assert [(one.line, one.what.split(" has no effect")[0]) for one in warnings] == [
        (6, "`resources.cpus`"),
        (7, "`resources.disk_size`"),
    ]


def test_every_example_of_a_check_is_offered_and_documented() -> None:
    folder = EXAMPLES.parent / "templates" / "checks"
    told = (EXAMPLES.parent / "docs" / "checks.md").read_text()
    assert {path.name for path in folder.iterdir() if path.is_file()} == set(CHECKS)
    assert [name for name in CHECKS if f"`{name}`" not in told] == []


@pytest.mark.parametrize("name", CHECKS)
def test_an_example_of_a_check_is_a_program(name: str) -> None:
    assert read_check(name).startswith("#!")


def test_the_check_of_memory_and_disk_runs_here_and_prints_a_number(tmp_path: Path) -> None:
    words = [sys.executable, "-"]
    ended = subprocess.run(words, input=read_check("memory_disk.py"), capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert (read_number(ended.stdout) or 0.0) > 0.0
    assert list(tmp_path.iterdir()) == []


def test_checks_of_what_is_not_installed_cannot_tell(tmp_path: Path) -> None:
    bare = {"PATH": str(tmp_path)}
    for words, name, status in (
        (["/bin/sh"], "dcgm.sh", 127),
        ([sys.executable, "-S", "-I"], "nccl_all_reduce.py", 2),
    ):
        file = tmp_path / name
        file.write_text(read_check(name))
        ended = subprocess.run([*words, str(file)], capture_output=True, text=True, cwd=tmp_path, env=bare)
        assert ended.returncode == status, ended.stderr
        assert ended.stderr
