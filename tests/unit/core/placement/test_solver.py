"""Solver: several groups on one fleet."""

from tests.unit.core.placement.builders import fleet, group, placed, racks


def test_the_group_with_larger_slices_chooses_first() -> None:
    answer = placed(fleet("r1=4", "r2=6"), group("judge", nodes=2), group("trainer", nodes=4))
    assert racks(answer) == ["r2", "r1"]
    assert [part.group for part in answer.slices] == ["judge", "trainer"]


def test_a_group_that_fits_one_rack_only_gets_it() -> None:
    picky = group("picky", nodes=3, racks=("r1",))
    answer = placed(fleet("r1=4", "r2=6"), group("easy", nodes=4), picky)
    assert racks(answer) == ["r2", "r1"]
