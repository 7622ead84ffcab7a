"""Counting: more nodes asked for than there are is proven at once, and only that."""

import time

from launcher.core.model.placement import Shortfall
from launcher.core.model.task import Group, Task
from launcher.core.placement.capacity import Capacity
from launcher.core.placement.counting import needs_too_many_nodes
from launcher.core.placement.place import place
from tests.unit.core.placement.builders import fleet, group, used


def too_many(*groups: Group, **runs: str) -> bool:
    inventory, unavailable = fleet("r1=4", "r2=4"), used(**runs)
    return needs_too_many_nodes(Capacity(Task(name="t", groups=groups), inventory, unavailable))


def test_all_groups_together_are_counted_with_their_spares() -> None:
    assert not too_many(group("a", nodes=2, slices=3), group("b", nodes=1, slices=2))
    assert too_many(group("a", nodes=2, slices=3), group("b", nodes=1, slices=2, spares=1))


def test_only_free_nodes_count() -> None:
    assert not too_many(group(nodes=4, slices=2))
    assert too_many(group(nodes=4, slices=2), other="r1-n01")


def test_each_kind_of_node_is_counted_apart() -> None:
    assert too_many(group("a", nodes=1, slices=5, racks=("r1",)), group("b", nodes=1))
    assert not too_many(group("a", nodes=1, slices=4, racks=("r1",)), group("b", nodes=1))


def test_a_task_that_asks_for_more_than_the_fleet_has_is_refused_with_a_proof_without_search() -> None:
    racks = 60
    inventory = fleet(*(f"r{at}=18@b{at // 8}" for at in range(racks)))
    groups = (
        group("a", nodes=10, slices=racks),
        group("b", nodes=7, slices=racks, near="a"),
        group("c", nodes=2, slices=racks),
    )
    begun = time.process_time()
    answer = place(Task(name="t", groups=groups), inventory, {})
    assert isinstance(answer, Shortfall)
    assert answer.proven
    assert answer.suggestions == ("use slices of at most 1 node",)
    assert time.process_time() - begun < 5
