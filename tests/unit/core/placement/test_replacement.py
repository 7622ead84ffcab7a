"""Replacement: one slice on other nodes. Every hard rule holds against the slices that stay."""

from collections.abc import Iterable

import pytest

from launcher.core.model.inventory import RackName
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Exclusion, Placement, Shortfall, Slice, Unavailable, UnavailableNodes
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.replacement import move_slices, replace_nodes, replace_slice
from tests.property.ray_rule import racks_of
from tests.unit.core.placement.builders import but, fleet, group, placed


def task(**groups: TopologyRule) -> Task:
    return Task(name="t", groups=tuple(Group(name=name, topology=rule, gpus=4) for name, rule in groups.items()))


def part(group: str, index: int, rack: int, trays: Iterable[int], spares: Iterable[int] = ()) -> Slice:
    def named(some: Iterable[int]) -> tuple[NodeName, ...]:
        return tuple(NodeName(f"r{rack}-n{tray:02d}") for tray in some)

    return Slice(
        group=group,
        index=index,
        place=f"r{rack}",
        rack=RackName(f"r{rack}"),
        domain=f"domain {rack}",
        nodes=named(trays),
        spares=named(spares),
    )


def used(*names: str) -> UnavailableNodes:
    return {NodeName(name): Unavailable(used_by="other") for name in names}


def again(
    asked: Task, sizes: list[int], unavailable: UnavailableNodes, before: tuple[Slice, ...], at: int = 0
) -> Slice | Shortfall:
    return replace_slice(asked, racks_of(sizes), unavailable, Placement(slices=before), before[at])


def test_a_whole_slice_moves_to_the_tightest_rack_with_room() -> None:
    asked = task(main=TopologyRule(slices=2, nodes_per_slice=3, spares=1))
    before = (part("main", 0, 0, range(3), [3]), part("main", 1, 1, range(3), [3]))
    new = again(asked, [4, 4, 9, 5], {NodeName("r1-n00"): Unavailable(unhealthy="failed")}, before, at=1)
    assert isinstance(new, Slice)
    assert (new.index, new.rack, len(new.nodes), len(new.spares)) == (1, "r3", 3, 1)


def test_nodes_of_other_slices_are_not_taken() -> None:
    asked = task(main=TopologyRule(slices=2, nodes_per_slice=2))
    before = (part("main", 0, 0, [0, 1]), part("main", 1, 1, [0, 1]))
    new = again(asked, [4, 2], {NodeName("r1-n00"): Unavailable(unhealthy="failed")}, before, at=1)
    assert isinstance(new, Slice)
    assert new.nodes == ("r0-n02", "r0-n03")


def test_the_old_nodes_serve_again_unless_they_are_unavailable() -> None:
    asked = task(main=TopologyRule(nodes_per_slice=2))
    before = (part("main", 0, 0, [0, 1]),)
    new = again(asked, [3], {NodeName("r0-n00"): Unavailable(unhealthy="failed")}, before)
    assert isinstance(new, Slice)
    assert new.nodes == ("r0-n01", "r0-n02")
    refused = again(asked, [3], used("r0-n00", "r0-n01"), before)
    assert isinstance(refused, Shortfall)
    assert (refused.placed, refused.largest) == (0, 1)


def test_spread_holds_against_the_slices_that_stay() -> None:
    asked = task(main=TopologyRule(slices=2, nodes_per_slice=1, spread="rack"))
    before = (part("main", 0, 0, [0]), part("main", 1, 1, [0]))
    refused = again(asked, [1, 3], used("r0-n00"), before)
    assert isinstance(refused, Shortfall)
    assert [row.excluded for row in refused.racks] == [
        {Exclusion.IN_USE: 1},
        {Exclusion.OTHER_SLICE: 1, Exclusion.SPREAD: 2},
    ]


def test_a_slice_that_others_are_near_stays_near_them() -> None:
    asked = task(trainer=TopologyRule(nodes_per_slice=2), judge=TopologyRule(nodes_per_slice=1, near="trainer"))
    before = (part("trainer", 0, 0, [0, 1]), part("judge", 0, 0, [2]))
    stays = again(asked, [5, 2], used("r0-n00"), before)
    assert isinstance(stays, Slice)
    assert stays.rack == "r0"
    refused = again(asked, [5, 2], used("r0-n00", "r0-n03", "r0-n04"), before)
    assert isinstance(refused, Shortfall)
    assert refused.racks[1].excluded == {Exclusion.NEAR: 2}


@pytest.mark.parametrize("at", [0, 1], ids=["the group named", "the group that names it"])
def test_apart_from_holds_from_both_sides(at: int) -> None:
    asked = task(a=TopologyRule(nodes_per_slice=1), b=TopologyRule(nodes_per_slice=1, apart_from="a"))
    before = (part("a", 0, 0, [0]), part("b", 0, 1, [0]))
    new = again(asked, [3, 3], used(before[at].nodes[0]), before, at)
    assert isinstance(new, Slice)
    assert new.rack == before[at].rack


def test_exclusive_excludes_racks_with_other_runs() -> None:
    asked = task(main=TopologyRule(nodes_per_slice=2, exclusive="rack"))
    new = again(asked, [2, 5, 6], used("r0-n00", "r1-n00"), (part("main", 0, 0, [0, 1]),))
    assert isinstance(new, Slice)
    assert new.rack == "r2"


def test_the_runs_own_slices_do_not_break_exclusive() -> None:
    asked = task(main=TopologyRule(slices=2, nodes_per_slice=2, exclusive="rack"))
    before = (part("main", 0, 0, [0, 1]), part("main", 1, 0, [2, 3]))
    own = {NodeName(f"r0-n{tray:02d}"): Unavailable(used_by="this one") for tray in (2, 3)}
    new = again(asked, [6], {**own, NodeName("r0-n00"): Unavailable(unhealthy="failed")}, before)
    assert isinstance(new, Slice)
    assert new.nodes == ("r0-n01", "r0-n04")


def test_replaced_nodes_stay_in_the_all_within_domain_of_their_slice() -> None:
    inventory = but(fleet("r1=4@b1"), "r1-n[02,04]", places={"block": "b2"})
    asked = Task(name="task", groups=(group(nodes=1, all_within="block"),))
    placement = placed(inventory, *asked.groups)
    lost = placement.slices[0].nodes
    new = replace_nodes(
        asked, inventory, {lost[0]: Unavailable(unhealthy="failed")}, placement, placement.slices[0], lost
    )
    assert isinstance(new, Slice)
    assert (lost, new.nodes) == (("r1-n01",), ("r1-n03",))


def moved(asked: Task, sizes: list[int], before: tuple[Slice, ...], *busy: str, **wanted: str) -> list[Slice] | str:
    """Move slices to nodes such as `s1="1: 0 2"`, trays 0 and 2 of rack 1."""
    named = {}
    for key, text in wanted.items():
        rack, _, trays = text.partition(":")
        named[f"main.{key}"] = [NodeName(f"r{rack}-n{int(tray):02d}") for tray in trays.split()]
    found = move_slices(asked, racks_of(sizes), used(*busy), Placement(slices=before), named)
    return found if isinstance(found, str) else list(found)


def test_slices_move_to_the_nodes_that_are_named() -> None:
    asked = task(main=TopologyRule(slices=2, nodes_per_slice=2, spares=1))
    before = (part("main", 0, 0, [0, 1], [2]), part("main", 1, 0, [3, 4], [5]))
    assert moved(asked, [6, 3, 4], before, s0="2: 3 1 0") == [part("main", 0, 2, [3, 1], [0])]
    both = [part("main", 0, 1, [0, 1], [2]), part("main", 1, 2, [0, 1], [2])]
    assert moved(asked, [6, 3, 4], before, s0="1: 0 1 2", s1="2: 0 1 2") == both


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("1: 0", "r1-n00 are not 2 nodes of one NVLink domain"),
        ("1: 0 1", "r1-n01 is in use"),
        ("0: 2 3", "r0-n02 is used by other slices of this task"),
        ("2: 0 9", "r2-n09 is no longer in the inventory"),
        ("3: 0 1", "r3-n00 is excluded by `spread`"),
    ],
)
def test_a_slice_does_not_move_against_a_rule_or_onto_others(where: str, why: str) -> None:
    asked = task(main=TopologyRule(slices=3, nodes_per_slice=2, spread="rack"))
    before = (part("main", 0, 1, [2, 3]), part("main", 1, 0, [2, 3]), part("main", 2, 3, [2, 3]))
    assert moved(asked, [4, 4, 4, 4], before, "r1-n01", s0=where) == why


def test_slices_that_are_lost_together_are_placed_together_in_another_block() -> None:
    asked = Task(name="t", groups=(group(nodes=3, slices=2, all_within="block"),))
    inventory = fleet("r1=4@b1", "r2=4@b1", "r3=4@b1", "r4=3@b2", "r5=4@b3", "r6=4@b3")
    before = placed(inventory, *asked.groups).slices
    assert {part.rack for part in before} == {"r5", "r6"}
    dark = {node.name: Unavailable(unhealthy="unreachable") for node in inventory.nodes if node.rack in ("r5", "r6")}
    alone = replace_slice(asked, inventory, dark, Placement(slices=before), before[0])
    assert isinstance(alone, Shortfall), "the other one keeps it in its block"
    first = replace_slice(asked, inventory, dark, Placement(slices=before), before[0], lost=[before[1].key])
    assert isinstance(first, Slice)
    second = replace_slice(asked, inventory, dark, Placement(slices=(first, before[1])), before[1])
    assert isinstance(second, Slice)
    assert {first.rack, second.rack} < {"r1", "r2", "r3"}


def test_a_lost_slice_that_does_not_fit_together_with_the_others_is_placed_alone() -> None:
    asked = Task(name="t", groups=(group(nodes=3, slices=2),))
    inventory = fleet("r1=4", "r2=4", "r3=3")
    before = placed(inventory, *asked.groups).slices
    dark = {name: Unavailable(unhealthy="unreachable") for part in before for name in part.nodes}
    found = replace_slice(asked, inventory, dark, Placement(slices=before), before[0], lost=[before[1].key])
    assert isinstance(found, Slice)


def test_a_node_that_came_back_lately_replaces_another_only_where_it_has_to() -> None:
    asked, before = task(main=TopologyRule(nodes_per_slice=2)), (part("main", 0, 0, range(2)),)
    back = {NodeName("r0-n02"): Unavailable(returned=True)}

    def more(size: int) -> object:
        return replace_nodes(asked, racks_of([size]), back, Placement(slices=before), before[0], ["r0-n01"])

    first = more(4)
    assert isinstance(first, Slice)
    assert "r0-n03" in first.nodes
    only = more(3)
    assert isinstance(only, Slice)
    assert "r0-n02" in only.nodes
