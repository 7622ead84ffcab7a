"""Constraints between slices, and on other runs."""

import pytest

from launcher.core.model.inventory import Inventory
from launcher.core.model.placement import UnavailableNodes
from tests.unit.core.placement.builders import but, fleet, group, placed, racks, refused, used

row = pytest.param


@pytest.mark.parametrize(
    ("inventory", "unavailable", "rule", "expected"),
    [
        row(fleet("r1=4", "r2=8"), {}, {"slices": 2, "nodes": 2, "spread": "rack"}, ["r1", "r2"], id="spread"),
        row(
            fleet("r1=2@b1", "r2=2@b1", "r3=4@b2"),
            {},
            {"slices": 2, "nodes": 2, "spread": "block"},
            ["r1", "r3"],
            id="spread over blocks",
        ),
        row(
            fleet("r1=4@b1", "r2=2@b2", "r3=2@b2"),
            {},
            {"slices": 2, "nodes": 2, "all_within": "block", "spread": "rack"},
            ["r2", "r3"],
            id="all slices in one block, each in a rack",
        ),
        row(fleet("r1=4", "r2=8"), used(a="r1-n01"), {"nodes": 2, "exclusive": "rack"}, ["r2"], id="nobody else there"),
    ],
)
def test_slices_keep_the_rules_between_them(
    inventory: Inventory, unavailable: UnavailableNodes, rule: dict[str, object], expected: list[str]
) -> None:
    assert racks(placed(inventory, group(**rule), unavailable=unavailable)) == expected


def test_a_slice_stays_in_one_all_within_domain_even_if_its_rack_does_not() -> None:
    inventory = but(fleet("r1=3@b1"), "r1-n03", places={"block": "b2"})
    assert refused(inventory, group(nodes=3, all_within="block")).proven
