"""Capacity: rank order, and spares that the slices of a rack share."""

from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Unavailable, UnavailableNodes
from tests.unit.core.placement.builders import but, fleet, group, placed


def test_ranks_follow_trays_then_names() -> None:
    inventory = but(fleet("r1=4"), "r1-n01", tray=9)
    inventory = but(inventory, "r1-n02", tray=None)
    assert placed(inventory, group(nodes=4)).slices[0].nodes == ("r1-n03", "r1-n04", "r1-n01", "r1-n02")


def test_slices_of_a_rack_share_its_spare() -> None:
    answer = placed(fleet("r1=5"), group(slices=2, nodes=2, spares_per_rack=1))
    assert [part.spares for part in answer.slices] == [("r1-n03",), ("r1-n03",)]
    assert len(answer.nodes) == 5


def back(*names: str) -> UnavailableNodes:
    return {NodeName(name): Unavailable(returned=True) for name in names}


def test_nodes_that_came_back_lately_are_taken_last_and_ranks_stay_in_order() -> None:
    inventory = fleet("r1=4")
    few = placed(inventory, group(nodes=2), unavailable=back("r1-n01", "r1-n03"))
    assert few.slices[0].nodes == ("r1-n02", "r1-n04")
    all_but_one = placed(inventory, group(nodes=3), unavailable=back("r1-n01", "r1-n03"))
    assert all_but_one.slices[0].nodes == ("r1-n01", "r1-n02", "r1-n04")
    assert len(placed(inventory, group(nodes=4), unavailable=back("r1-n01")).nodes) == 4
