"""Capacity: rank order, and spares that the slices of a rack share."""

from tests.unit.core.placement.builders import but, fleet, group, placed


def test_ranks_follow_trays_then_names() -> None:
    inventory = but(fleet("r1=4"), "r1-n01", tray=9)
    inventory = but(inventory, "r1-n02", tray=None)
    assert placed(inventory, group(nodes=4)).slices[0].nodes == ("r1-n03", "r1-n04", "r1-n01", "r1-n02")


def test_slices_of_a_rack_share_its_spare() -> None:
    answer = placed(fleet("r1=5"), group(slices=2, nodes=2, spares_per_rack=1))
    assert [part.spares for part in answer.slices] == [("r1-n03",), ("r1-n03",)]
    assert len(answer.nodes) == 5
