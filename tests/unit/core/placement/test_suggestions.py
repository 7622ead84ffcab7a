"""Suggestions: what would make a task fit."""

import pytest

from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Unavailable, UnavailableNodes
from tests.unit.core.placement.builders import but, fleet, group, refused, used

row = pytest.param


@pytest.mark.parametrize(
    ("inventory", "unavailable", "rule", "suggestion"),
    [
        row(
            but(fleet("r1=4", "r2=4"), "r1-n[02-04],r2-n[02,04]", drained="x"),
            {},
            {"nodes": 3},
            "undrain `r2-n02`",
            id="the fewest drained nodes",
        ),
        row(
            but(fleet("r1=4", "r2=4"), "r1-n[01-02],r2-n03", drained="x"),
            {},
            {"nodes": 4, "slices": 2},
            "undrain `r1-n[01-02],r2-n03`",
            id="drained nodes of two racks",
        ),
        row(
            but(fleet("r1=4"), "r1-n[01-04]", drained="x"),
            {},
            {"nodes": 2, "slices": 2},
            "undrain `r1-n[01-04]`",
            id="two slices in one drained rack",
        ),
        row(
            fleet("r1=4"),
            {NodeName("r1-n02"): Unavailable(unhealthy="Xid 79")},
            {"nodes": 4},
            "repair `r1-n02` (unhealthy)",
            id="sick",
        ),
        row(
            fleet("r1=4", domain=None),
            {},
            {"nodes": 2},
            "let `nvlaunch doctor` read the NVLink domain of `r1-n[01-02]`, or set `domain`",
            id="domains nobody asked the drivers for",
        ),
        row(fleet("r1=4"), used(small="r1-n01"), {"nodes": 4}, "wait until run `small` ends", id="a run"),
        row(
            fleet("r1=4"),
            used(a="r1-n01", b="r1-n02"),
            {"nodes": 4},
            "wait until runs `a`, `b` end",
            id="two runs in the way",
        ),
        row(fleet("r1=4", "r2=3"), {}, {"nodes": 6}, "use slices of at most 4 nodes", id="smaller slices"),
        row(fleet("r1=4", "r2=3"), {}, {"nodes": 3, "slices": 4}, "use at most 2 slices", id="fewer slices"),
        row(fleet("r1=4"), {}, {"nodes": 4, "spares": 2}, "set `spares: 0`", id="no spares"),
        row(fleet("r1=5"), {}, {"nodes": 4, "spares": 3}, "set `spares: 1`", id="as many spares as there are"),
        row(
            fleet("r1=4"),
            {},
            {"nodes": 2, "slices": 2, "spread": "rack"},
            "remove `spread: rack`",
            id="no spread",
        ),
        row(
            fleet("r1=4@b1", "r2=4@b1"),
            {},
            {"nodes": 6},
            "set `within: block` instead of `rack`",
            id="coarser level",
        ),
        row(
            fleet("r1=4"),
            {},
            {"racks": ("r9",), "exclude_nodes": ("r1-n01",)},
            "remove `racks` and `exclude_nodes`",
            id="own rules",
        ),
        row(fleet("r1=4@b1"), {}, {"only_nodes": ("r1-n09",)}, "remove `nodes`", id="own nodes"),
        row(
            fleet("r1=2@b1", "r2=2@b2"),
            {},
            {"nodes": 2, "slices": 2, "all_within": "block"},
            "set `within: rack` instead of `[block, rack]`",
            id="all in one block",
        ),
        row(
            fleet("r1=3@b1", "r2=1@b1"),
            {},
            {"nodes": 3, "within": "block", "spread_members": "rack"},
            "remove `spread_members: rack`",
            id="members apart",
        ),
        row(fleet("r1=4"), used(a="r1-n01"), {"exclusive": "rack"}, "remove `exclusive: rack`", id="exclusive"),
        row(
            fleet("r1=4"),
            {},
            {"nodes": 2, "slices": 2, "spares_per_rack": 2},
            "set `spares_per_rack: 0`",
            id="no spares for a rack",
        ),
    ],
)
def test_one_change_that_makes_it_fit_is_suggested(
    inventory: Inventory, unavailable: UnavailableNodes, rule: dict[str, object], suggestion: str
) -> None:
    assert suggestion in refused(inventory, group(**rule), unavailable=unavailable).suggestions


def test_another_accelerator_or_fewer_gpus_are_suggested() -> None:
    other = refused(fleet("r1=1"), group(accelerator="H100")).suggestions
    assert "request `GB300:4` per node instead of `H100:4`" in other
    assert "request `GB300:4` per node instead of 8 GPUs" in refused(fleet("r1=1"), group(gpus=8)).suggestions
    both = refused(fleet("r1=1"), group(accelerator="H100", gpus=8)).suggestions
    assert both == ("request `GB300:4` per node instead of `H100:8`",)


def test_the_operators_changes_come_first_and_the_smallest_run_before_larger_ones() -> None:
    inventory = but(fleet("r1=6", "r2=6", "r3=6"), "r1-n06", drained="x")
    unavailable = used(big="r3-n[01-04]", run10="r2-n01")
    assert refused(inventory, group(nodes=6, spares=0), unavailable=unavailable).suggestions[:4] == (
        "undrain `r1-n06`",
        "wait until run `run10` ends",
        "wait until run `big` ends",
        "use slices of at most 5 nodes",
    )
