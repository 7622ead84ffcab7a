"""Placements: names of slices, and the nodes of a placement."""

from dataclasses import replace

from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Slice, group_of, slice_key


def part(index: int, nodes: tuple[str, ...], spares: tuple[str, ...]) -> Slice:
    members, kept = (tuple(map(NodeName, names)) for names in (nodes, spares))
    return Slice(group="main", index=index, place="r1", rack=None, domain=None, nodes=members, spares=kept)


def test_the_name_of_a_slice_gives_its_group_even_if_that_looks_like_one() -> None:
    assert group_of(slice_key("a.s1", 2)) == "a.s1"


def test_members_come_before_spares_and_a_shared_spare_once() -> None:
    placement = Placement(slices=(part(0, ("n1", "n2"), ("n5",)), part(1, ("n3",), ("n5",))))
    assert placement.nodes == ("n1", "n2", "n3", "n5")


def test_a_slice_that_may_be_anywhere_moves_to_its_nodes() -> None:
    moved = part(0, ("n1", "n2"), ("n3",))
    assert (moved.to_place, moved.in_place) == (" to r1", " in r1")
    anywhere = replace(moved, place="any")
    assert (anywhere.to_place, anywhere.in_place) == (" to n[1-2]", "")
