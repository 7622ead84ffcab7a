"""Best fit: the domain that a slice gets."""

import pytest

from launcher.core.model.inventory import Inventory
from launcher.core.model.placement import UnavailableNodes
from tests.unit.core.placement.builders import but, fleet, group, placed, racks, refused, used

row = pytest.param


@pytest.mark.parametrize(
    ("inventory", "unavailable", "rule", "expected"),
    [
        row(fleet("r1=4", "r2=5", "r3=8"), {}, {"nodes": 4}, ["r1"], id="exact fit, of 4, 5 and 8"),
        row(fleet("r1=8", "r2=5", "r3=3"), {}, {"nodes": 4}, ["r2"], id="fullest that holds"),
        row(fleet("r1=4", "r2=5"), {}, {"nodes": 4, "spares": 1}, ["r2"], id="spares need room too"),
        row(fleet("r10=4", "r2=4"), {}, {"nodes": 2}, ["r2"], id="ties by natural name"),
        row(fleet("r1=4", "r2=6"), used(x="r2-n[01-02]"), {}, ["r2"], id="the broken one of two equally full"),
        row(
            fleet("r1=18", "r2=18"),
            used(x="r2-n01"),
            {"nodes": 2},
            ["r2"],
            id="small work to the broken rack",
        ),
        row(fleet("r1=18"), {}, {"slices": 2, "nodes": 9}, ["r1", "r1"], id="two slices in one rack"),
        row(
            fleet("r1=4", "r2=5", "r3=8"),
            {},
            {"slices": 3, "nodes": 4},
            ["r1", "r2", "r3"],
            id="in rack order",
        ),
        row(fleet("r1=2", "r2=4", "r3=4"), {}, {"slices": 2, "nodes": 2}, ["r1", "r2"], id="fill, then next"),
        row(fleet("r1=8/4", "r2=5"), {}, {"nodes": 5}, ["r2"], id="never over two domains of a rack"),
        row(
            fleet("r1=4@b1", "r2=4@b2", "r3=4@b2"),
            {},
            {"slices": 2, "nodes": 4},
            ["r2", "r3"],
            id="near by itself",
        ),
        row(
            fleet("r1=4@b1", "r2=8@b2", "r3=8@b2"),
            {},
            {"slices": 2, "nodes": 4, "prefer": "block"},
            ["r2", "r2"],
            id="prefer keeps slices together, then best fit",
        ),
        row(
            fleet("r1=4@b1", "r2=4@b2"),
            {},
            {"slices": 2, "nodes": 4, "prefer": "block"},
            ["r1", "r2"],
            id="soft",
        ),
        row(fleet("r1=2@b1", "r2=2@b1"), {}, {"nodes": 3, "within": "block"}, ["b1"], id="within block"),
        row(fleet("r1=2", "r2=2"), {}, {"nodes": 3, "within": "any"}, ["any"], id="within any"),
        row(fleet("r1=9", "r2=9"), {}, {"slices": 4, "nodes": 2, "balance": "rack"}, [*["r1"] * 4], id="fewest racks"),
        row(
            fleet("r1=9", "r2=9"),
            {},
            {"slices": 6, "nodes": 2, "balance": "rack"},
            [*["r1"] * 3, *["r2"] * 3],
            id="as many slices in each rack",
        ),
        row(
            fleet("r1=3", "r2=2"),
            {},
            {"slices": 2, "within": "node"},
            ["r2-n01", "r2-n02"],
            id="node slices share racks",
        ),
    ],
)
def test_slices_go_where_they_strand_the_fewest_nodes(
    inventory: Inventory, unavailable: UnavailableNodes, rule: dict[str, object], expected: list[str]
) -> None:
    assert racks(placed(inventory, group(**rule), unavailable=unavailable)) == expected


def test_jobs_without_gpus_avoid_gpu_racks_then_unused_ones() -> None:
    inventory = but(fleet("r1=2", "r2=8", "cpu=9"), "cpu-n[01-09]", gpus=0)
    quiet = group(gpus=0, nodes=2)
    answer = placed(inventory, quiet)
    assert racks(answer) == ["cpu"]
    assert answer.reasons == ("least useful to GPU jobs, 7 of 9 free nodes left",)
    assert racks(placed(inventory, quiet, unavailable=used(x="cpu-n[01-09],r2-n01"))) == ["r2"]


def test_a_group_goes_where_the_groups_near_it_fit_too() -> None:
    inventory = fleet("r1=4", "r2=9")
    leader, worker = group("leader", nodes=4), group("worker", nodes=3, near="leader")
    assert racks(placed(inventory, leader, worker)) == ["r2", "r2"]
    pairs = (group("prefill", slices=2, nodes=4), group("decode", slices=2, nodes=2, near="prefill"))
    assert racks(placed(fleet("r1=8", "r2=8"), *pairs)) == ["r1", "r2", "r1", "r2"]
    short = refused(fleet("r1=4", "r2=6"), leader, worker)
    assert (short.group, short.proven) == ("worker", True)
