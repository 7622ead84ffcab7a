"""Node filters: racks and nodes by name, and the first reason that excludes a node."""

import pytest

from launcher.cli.output.shortfall import not_free
from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Exclusion, Unavailable, UnavailableNodes
from tests.unit.core.placement.builders import but, fleet, group, placed, racks, refused, used

row = pytest.param


@pytest.mark.parametrize(
    ("inventory", "unavailable", "rule", "expected"),
    [
        row(fleet("r1=4", "r2=8"), {}, {"racks": ("r[2-9]",)}, ["r2"], id="racks"),
        row(fleet("r1=4", "r12=8"), {}, {"exclude_racks": ("r1",)}, ["r12"], id="a name is not a prefix"),
        row(fleet("r1=4", "r2=8"), {}, {"exclude_racks": ("r1*",)}, ["r2"], id="exclude_racks glob"),
        row(fleet("r1=4", "r2=8"), {}, {"exclude_nodes": ("r1-n[01-04]",)}, ["r2"], id="ranges as in inventories"),
        row(fleet("r1=4", "r2=8"), {}, {"only_nodes": ("r2-n[01-03]",)}, ["r2"], id="pinned to nodes"),
    ],
)
def test_names_and_patterns_select_racks_and_nodes(
    inventory: Inventory, unavailable: UnavailableNodes, rule: dict[str, object], expected: list[str]
) -> None:
    assert racks(placed(inventory, group(**rule), unavailable=unavailable)) == expected


def test_a_node_is_counted_under_the_first_reason_that_applies() -> None:
    inventory = fleet("r1=11")
    inventory = but(inventory, "r1-n[01-02]", drained="ticket 17")
    inventory = but(inventory, "r1-n04", domain=None)
    inventory = but(inventory, "r1-n05", accelerator="H100")
    inventory = but(inventory, "r1-n06", gpus=2)
    unavailable = used(x="r1-n[02,06-07]") | {NodeName("r1-n03"): Unavailable(used_by="x", unhealthy="Xid 79")}
    asked = group(accelerator="gb300", nodes=3, slices=2, exclude_nodes=("r1-n01",))
    short = refused(inventory, asked, unavailable=unavailable)
    (row,) = short.racks
    assert row.excluded == {
        Exclusion.EXCLUDED: 1,
        Exclusion.DRAINED: 1,
        Exclusion.UNHEALTHY: 1,
        Exclusion.NO_DOMAIN: 1,
        Exclusion.ACCELERATOR: 1,
        Exclusion.TOO_FEW_GPUS: 1,
        Exclusion.IN_USE: 1,
        Exclusion.OTHER_SLICE: 3,
    }
    assert (row.rack, row.total, row.free, row.users) == ("r1", 11, 1, {"x": 1})
    assert (short.placed, short.largest) == (1, 1)


def test_reserved_nodes_are_counted_apart_from_those_in_use_and_no_run_has_to_end() -> None:
    kept = {NodeName("r1-n01"): Unavailable(used_by="big", reserved_for="big")}
    short = refused(fleet("r1=2"), group(nodes=2), unavailable=kept)
    (row,) = short.racks
    assert (row.excluded, row.users, row.reserved) == ({Exclusion.RESERVED: 1}, {}, {"big": 1})
    assert not_free(row) == "1 reserved for `big`"
    assert not any("ends" in line for line in short.suggestions)
