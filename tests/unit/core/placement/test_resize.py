"""Resize: which slices of a running task are kept, added, removed or moved."""

from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Unavailable
from launcher.core.model.task import Task
from launcher.core.placement.resize import ResizePlan, resize
from tests.unit.core.placement.builders import but, fleet, group, placed, used

FLEET = fleet("r1=4", "r2=4", "r3=4")
BEFORE = placed(FLEET, group(nodes=3, slices=2))


def plan(unavailable: dict[NodeName, Unavailable] | None = None, **rule: int) -> ResizePlan:
    found = resize(Task(name="task", groups=(group(nodes=3, **rule),)), FLEET, unavailable or {}, BEFORE)
    assert isinstance(found, ResizePlan)
    return found


def test_more_slices_keep_the_old_ones() -> None:
    found = plan(slices=3)
    assert [part.key for part in found.added] == ["main.s2"]
    assert (found.removed, found.moved) == ((), ())
    assert found.placement.reasons == ("unchanged", "unchanged", "only rack with room, 1 of 4 free nodes left")


def test_fewer_slices_keep_those_of_the_lowest_index() -> None:
    found = plan(slices=1)
    assert ([part.key for part in found.removed], found.moved) == (["main.s1"], ())


def test_spares_are_added_without_moving_members() -> None:
    found = plan(slices=2, spares=1)
    assert [(old.nodes == new.nodes, len(new.spares)) for old, new in found.moved] == [(True, 1), (True, 1)]


def test_a_slice_with_an_unhealthy_node_moves() -> None:
    found = plan({BEFORE.slices[0].nodes[0]: Unavailable(unhealthy="Xid 79")}, slices=2)
    assert [(old.key, new.place) for old, new in found.moved] == [("main.s0", "r1")]


def test_a_slice_over_two_all_within_domains_of_its_rack_moves() -> None:
    inventory = but(fleet("r1=3@b1", "r2=3@b1"), "r1-n03", places={"block": "b2"})
    before = placed(inventory, group(nodes=3), unavailable=used(other="r2-n01"))
    found = resize(Task(name="task", groups=(group(nodes=3, all_within="block"),)), inventory, {}, before)
    assert isinstance(found, ResizePlan)
    assert [(old.place, new.place) for old, new in found.moved] == [("r1", "r2")]
