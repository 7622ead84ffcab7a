"""Examples and starter files are read, and fit on the inventories that they are written for."""

from pathlib import Path

import pytest

from launcher.config.inventory.built_in import built_in
from launcher.config.inventory.read import read_inventory
from launcher.config.task.levels import check_levels
from launcher.config.task.read import read_task
from launcher.config.templates import EXAMPLES as OFFERED
from launcher.core.model.placement import Placement
from launcher.core.placement.place import place

EXAMPLES = Path(__file__).parents[3] / "examples"
FLEET = "fleet-9xnvl72.yaml"
WHERE = {
    "vla-8x64": FLEET,
    "torchrun": FLEET,
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
