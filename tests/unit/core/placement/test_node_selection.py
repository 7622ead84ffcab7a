"""Node selection: which nodes of its domain a slice takes."""

from launcher.core.model.nodeset import expand
from tests.unit.core.placement.builders import but, fleet, group, placed, used


def test_any_fills_partly_used_racks_first() -> None:
    inventory = fleet("r1=6", "r2=6", "r3=6", "r4=6")
    unavailable = used(x="r2-n[01-05],r3-n[01-03]")
    answer = placed(inventory, group(nodes=4, within="any"), unavailable=unavailable)
    assert answer.slices[0].nodes == ("r2-n06", "r3-n04", "r3-n05", "r3-n06")
    assert answer.slices[0].rack is None
    assert answer.reasons == ("on 2 racks, fills partly used racks first",)


def test_members_are_spread_and_a_wide_slice_is_balanced_over_few_racks() -> None:
    inventory = fleet("r1=4@b1", "r2=2@b1", "r3=2@b1")
    apart = placed(inventory, group(nodes=3, within="block", spread_members="rack"))
    assert [name.split("-")[0] for name in apart.slices[0].nodes] == ["r1", "r2", "r3"]
    even = placed(fleet("r1=18", "r2=18", "r3=18"), group(nodes=24, within="any", balance="rack"))
    assert even.slices[0].nodes == (*expand("r1-n[01-12]"), *expand("r2-n[01-12]"))


def test_nodes_with_the_fewest_idle_gpus_come_first() -> None:
    answer = placed(but(fleet("r1=3"), "r1-n01", gpus=8), group(gpus=2))
    assert answer.slices[0].nodes == ("r1-n02",)
    assert answer.reasons[0].endswith(", uses 2 of 4 GPUs per node")
