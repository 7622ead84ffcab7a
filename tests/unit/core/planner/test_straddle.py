"""What a refused slice would cost across racks: placements that were tried."""

from dataclasses import replace

from launcher.core.model.inventory import Inventory, RackName
from launcher.core.model.placement import Shortfall
from launcher.core.model.task import Group, Task
from launcher.core.placement.place import place
from launcher.core.planner.straddle import straddling
from tests.unit.core.placement.builders import but, fleet, group

Found = list[tuple[str, str | None, tuple[int, ...]]]


def found(inventory: Inventory, *groups: Group) -> Found:
    task = Task(name="task", groups=groups)
    answer = place(task, inventory, {})
    assert isinstance(answer, Shortfall), answer
    return [(one.within, one.balance, one.cost.nodes) for one in straddling(task, inventory, {}, answer)]


def test_a_slice_that_fits_only_with_one_stray_node() -> None:
    assert found(fleet("r1=15@b1", "r2=1@b1"), group(nodes=16)) == [("block", None, (15, 1))]


def test_an_even_split_is_shown_too_where_it_is_faster() -> None:
    racks = fleet("r1=15@b1", "r2=9@b1")
    assert found(racks, group(nodes=16)) == [("block", None, (15, 1)), ("block", "rack", (8, 8))]
    assert found(racks, group(nodes=16, balance="rack")) == [("block", "rack", (8, 8))]


def test_the_finest_level_with_room_is_taken() -> None:
    assert found(fleet("r1=8@b1", "r2=8@b2", "r3=8@b2"), group(nodes=16)) == [("block", None, (8, 8))]
    assert found(fleet("r1=8@b1", "r2=8@b2"), group(nodes=16)) == [("any", None, (8, 8))]


def test_slices_that_must_share_a_block_do_not_leave_it() -> None:
    racks = fleet("r1=8@b1", "r2=8@b2")
    assert found(racks, group(nodes=16, all_within="block")) == []
    same = fleet("r1=8@b1", "r2=8@b1")
    assert found(same, group(nodes=16, all_within="block")) == [("block", None, (8, 8))]


def test_the_slowest_slice_is_shown() -> None:
    racks = fleet("r1=18@b1", "r2=12@b1", "r3=2@b1")
    task = Task(name="task", groups=(group(nodes=16, slices=2),))
    answer = place(task, racks, {})
    assert isinstance(answer, Shortfall)
    (one, *_) = straddling(task, racks, {}, answer)
    assert (one.slices, one.straddle, one.slice, one.cost.nodes) == (2, 1, "main.s1", (12, 2, 2))


def test_nothing_where_straddling_does_not_help() -> None:
    assert found(fleet("r1=4@b1", "r2=4@b1"), group(nodes=16)) == []
    assert found(fleet("r1=4@b1"), group(nodes=2, slices=2, spread="rack")) == []
    assert found(fleet("r1=8@b1", "r2=8@b1"), group(nodes=12, spares_per_rack=1)) == []


def test_nothing_for_groups_that_do_not_use_links() -> None:
    assert found(fleet("r1=8@b1", "r2=8@b1"), group(gpus=0, nodes=16)) == []
    assert found(fleet("r1=1@b1"), group(nodes=1, slices=2)) == []
    unknown = replace(fleet("r1=8@b1", "r2=8@b1"), links={RackName("r1"): None})
    assert found(unknown, group(nodes=16)) == []


def test_nothing_where_nvlink_domains_are_unknown() -> None:
    inventory = but(fleet("r1=8@b1", "r2=8@b1"), "r2-n[01-08]", domain=None)
    assert found(inventory, group(nodes=16)) == []


def test_groups_that_share_nodes_are_placed_together() -> None:
    shared = group("decode", gpus=2, nodes=16, within="rack", nodes_of="main")
    assert found(fleet("r1=15@b1", "r2=1@b1"), group(gpus=2, nodes=16), shared) == [("block", None, (15, 1))]
