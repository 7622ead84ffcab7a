"""A rack that a run has for itself: nobody else gets a node of it while the run lives, and everybody after that."""

from dataclasses import replace
from pathlib import Path

import pytest

from launcher.core.model.inventory import Inventory
from launcher.core.model.placement import Placement
from launcher.core.model.run import Run, RunName, RunState
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place
from launcher.errors import NoCapacityError
from launcher.store.store import Store
from tests.property.ray_rule import racks_of

HALL = racks_of([4, 3])


def up(store: Store, name: str, nodes: int, exclusive: str | None = None, fleet: Inventory = HALL) -> Run:
    group = Group(name="main", topology=TopologyRule(nodes_per_slice=nodes, exclusive=exclusive), gpus=4)
    task = Task(name=name, groups=(group,))
    return store.launch(
        name=RunName(name),
        task=task,
        fleet=fleet,
        decide=lambda taken: place(task, fleet, taken),
        source="task.yaml",
        at=1.0,
    )


def test_the_rest_of_an_exclusive_rack_is_taken_until_the_run_is_over(tmp_path: Path) -> None:
    store = Store(tmp_path)
    alone = up(store, "alone", 2, exclusive="rack")
    assert alone.placement.slices[0].rack == "r1"
    assert alone.placement.exclusive_nodes == ("r1-n02",)
    assert store.unavailable(HALL)[alone.placement.exclusive_nodes[0]].used_by == "alone"
    assert up(store, "other", 4).placement.slices[0].rack == "r0"
    with pytest.raises(NoCapacityError):
        up(store, "third", 1)
    store.finish(alone.id, RunState.SUCCEEDED, 2.0)
    assert up(store, "third", 1).placement.slices[0].rack == "r1"


def test_an_exclusive_run_does_not_go_where_another_is(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert up(store, "small", 1).placement.slices[0].rack == "r1"
    assert up(store, "alone", 2, exclusive="rack").placement.slices[0].rack == "r0"
    with pytest.raises(NoCapacityError) as refusal:
        up(store, "more", 1, exclusive="rack")
    assert "wait until run `alone` ends" in refusal.value.shortfall.suggestions


def test_a_run_that_is_given_other_nodes_keeps_its_rack_to_itself(tmp_path: Path) -> None:
    store = Store(tmp_path)
    alone = up(store, "alone", 2, exclusive="rack")
    seen: list[bool] = []

    def moved(run: Run, _: object, taken: dict[str, object]) -> Run:
        seen.append(alone.placement.exclusive_nodes[0] in taken)
        part = replace(
            run.placement.slices[0], nodes=tuple(node.name for node in HALL.nodes[:2]), rack="r0", place="r0"
        )
        shut = tuple(node.name for node in HALL.nodes[2:4])
        fleet = HALL.cut_down((*part.nodes, *run.placement.nodes))
        return replace(run, placement=Placement(slices=(part,), exclusive_nodes=shut), fleet=fleet)

    store.allot(alone.id, moved)  # type: ignore[arg-type]
    assert seen == [False]
    assert {name for name, use in store.unavailable(HALL).items() if use.used_by == "alone"} >= {"r0-n02", "r0-n03"}
    assert "r1-n02" not in store.unavailable(HALL)
