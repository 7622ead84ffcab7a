"""A task at another level: which groups change, and which rules contradict it."""

import pytest

from launcher.core.model.task import Group, Task
from launcher.core.planner.compare import at_level, comparable, contradiction
from tests.unit.core.placement.builders import fleet, group, placed, racks

LEVELS = ("block", "rack")


def task(*groups: Group) -> Task:
    return Task(name="task", groups=groups)


def test_only_groups_with_gpus_on_several_nodes_of_their_own_are_compared() -> None:
    shared = group("shared", nodes=2, within="any", nodes_of="main")
    mixed = task(group(nodes=2), group("cpu", gpus=0, nodes=2, within="any"), group("one", within="rack"), shared)
    assert comparable(mixed) == ("main",)
    assert [one.topology.within for one in at_level(mixed, "block", LEVELS).groups] == ["block", "any", "rack", "any"]


def test_a_hard_rule_for_all_slices_stays() -> None:
    own = task(group(nodes=6, slices=2, all_within="block"))
    rules = {level: at_level(own, level, LEVELS).groups[0].topology for level in ("rack", "block", "any")}
    assert {level: rule.within for level, rule in rules.items()} == {"rack": "rack", "block": "block", "any": "block"}
    assert {rule.all_within for rule in rules.values()} == {"block"}
    inventory = fleet("r1=4@b1", "r2=4@b1", "r3=6@b2", "r4=6@b2")
    assert racks(placed(inventory, *at_level(own, "any", LEVELS).groups)) == ["b2", "b2"]


@pytest.mark.parametrize(
    ("own", "level", "reason"),
    [
        (group(nodes=16), "node", "slices of `main` have 16 nodes"),
        (group(nodes=4, spares_per_rack=1), "block", "`spares_per_rack` of `main` requires `within: rack`"),
        (group(nodes=4, spread_members="rack"), "rack", "`spread_members: rack` of `main` is not below `within: rack`"),
        (group(nodes=4, spares_per_rack=1), "rack", None),
        (group(nodes=4, spread_members="rack"), "block", None),
        (group(nodes=4), "any", None),
    ],
)
def test_rules_that_contradict_a_level_are_named(own: Group, level: str, reason: str | None) -> None:
    assert contradiction(at_level(task(own), level, LEVELS), LEVELS) == reason
