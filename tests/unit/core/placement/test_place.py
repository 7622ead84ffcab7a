"""Placement of a whole task, and its refusal."""

from dataclasses import replace

from launcher.core.model.nodeset import expand
from launcher.core.model.placement import Exclusion
from tests.unit.core.placement.builders import fleet, group, placed, racks, refused


def test_eight_racks_of_sixteen_with_a_spare_each() -> None:
    answer = placed(fleet(*(f"r{rack:02d}=18" for rack in range(1, 10))), group(slices=8, nodes=16, spares=1))
    assert racks(answer) == [f"r{rack:02d}" for rack in range(1, 9)]
    assert answer.slices[6].nodes == expand("r07-n[01-16]")
    assert answer.slices[6].spares == ("r07-n17",)
    assert answer.slices[6].domain == "r07.a"
    assert answer.reasons == ("best fit, 1 of 18 free nodes left",) * 8


def test_an_empty_fleet_and_an_unknown_level_are_refused() -> None:
    assert refused(replace(fleet(), nodes=()), group()).suggestions == ()
    short = refused(fleet("r1=2"), group(within="block"))
    assert short.racks[0].excluded == {Exclusion.NO_LEVEL: 2}
    assert short.suggestions == ("set `within: any` instead of `block`",)
