"""Where slices go, and what is said when they cannot: each row a fleet that a person can check by eye."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName, expand
from launcher.core.model.placement import Exclusion, Placement, Shortfall, Taken
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place

row = pytest.param


def fleet(*racks: str, **changes: object) -> Inventory:
    """Racks written as `r1=4` or `r1=4@b1` for 4 nodes in block b1, or `r1=4/2` for two domains of two."""
    nodes: list[Node] = []
    for text in racks:
        rack, _, rest = text.partition("=")
        count, _, block = rest.partition("@")
        total, _, first = count.partition("/")
        nodes += [
            Node(
                name=NodeName(f"{rack}-n{tray:02d}"),
                rack=RackName(rack),
                access=Access(address="10.0.0.1"),
                domain=f"{rack}.b" if first and tray > int(first) else f"{rack}.a",
                accelerator="GB300",
                tray=tray,
                places={"block": block} if block else {},
            )
            for tray in range(1, int(total) + 1)
        ]
    return Inventory(
        name="test",
        transport=Transport.SIM,
        nodes=tuple(replace(node, **changes) for node in nodes),
        levels=("block", "rack"),
    )


def but(inventory: Inventory, names: str, **changes: object) -> Inventory:
    """The inventory with some nodes changed."""
    some = set(expand(names))
    assert some <= {node.name for node in inventory.nodes}
    nodes = tuple(replace(node, **changes) if node.name in some else node for node in inventory.nodes)
    return replace(inventory, nodes=nodes)


def used(**runs: str) -> dict[NodeName, Taken]:
    """Nodes by the run that has them."""
    return {NodeName(name): Taken(by_run=run) for run, names in runs.items() for name in expand(names)}


def group(name: str = "main", gpus: int = 4, accelerator: str | None = None, nodes: int = 1, **rule: object) -> Group:
    """A group of slices of so many nodes."""
    return Group(name=name, topology=TopologyRule(nodes_per_slice=nodes, **rule), gpus=gpus, accelerator=accelerator)


def placed(inventory: Inventory, *groups: Group, taken: Mapping[NodeName, Taken] | None = None) -> Placement:
    answer = place(Task(name="task", groups=groups), inventory, taken or {})
    assert isinstance(answer, Placement), answer
    return answer


def refused(inventory: Inventory, *groups: Group, taken: Mapping[NodeName, Taken] | None = None) -> Shortfall:
    answer = place(Task(name="task", groups=groups), inventory, taken or {})
    assert isinstance(answer, Shortfall), answer
    return answer


def racks(answer: Placement) -> list[str]:
    return [part.place for part in answer.slices]


@pytest.mark.parametrize(
    ("inventory", "taken", "rule", "expected"),
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
        row(fleet("r1=4", "r2=8"), {}, {"slices": 2, "nodes": 2, "spread": "rack"}, ["r1", "r2"], id="spread"),
        row(
            fleet("r1=2@b1", "r2=2@b1", "r3=4@b2"),
            {},
            {"slices": 2, "nodes": 2, "spread": "block"},
            ["r1", "r3"],
            id="spread over blocks",
        ),
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
        row(fleet("r1=4", "r2=8"), {}, {"racks": ("r[2-9]",)}, ["r2"], id="racks"),
        row(fleet("r1=4", "r12=8"), {}, {"exclude_racks": ("r1",)}, ["r12"], id="a name is not a prefix"),
        row(fleet("r1=4", "r2=8"), {}, {"exclude_racks": ("r1*",)}, ["r2"], id="exclude_racks glob"),
        row(fleet("r1=4", "r2=8"), {}, {"exclude_nodes": ("r1-n[01-04]",)}, ["r2"], id="ranges as in inventories"),
        row(fleet("r1=2@b1", "r2=2@b1"), {}, {"nodes": 3, "within": "block"}, ["b1"], id="within block"),
        row(fleet("r1=2", "r2=2"), {}, {"nodes": 3, "within": "any"}, ["any"], id="within any"),
        row(
            fleet("r1=4@b1", "r2=2@b2", "r3=2@b2"),
            {},
            {"slices": 2, "nodes": 2, "all_within": "block", "spread": "rack"},
            ["r2", "r3"],
            id="all slices in one block, each in a rack",
        ),
        row(fleet("r1=9", "r2=9"), {}, {"slices": 4, "nodes": 2, "balance": "rack"}, [*["r1"] * 4], id="fewest racks"),
        row(
            fleet("r1=9", "r2=9"),
            {},
            {"slices": 6, "nodes": 2, "balance": "rack"},
            [*["r1"] * 3, *["r2"] * 3],
            id="as many slices in each rack",
        ),
        row(fleet("r1=4", "r2=8"), used(a="r1-n01"), {"nodes": 2, "exclusive": "rack"}, ["r2"], id="nobody else there"),
        row(fleet("r1=4", "r2=8"), {}, {"only_nodes": ("r2-n[01-03]",)}, ["r2"], id="pinned to nodes"),
        row(
            fleet("r1=3", "r2=2"),
            {},
            {"slices": 2, "within": "node"},
            ["r2-n01", "r2-n02"],
            id="node slices share racks",
        ),
    ],
)
def test_slices_go_where_they_strand_least(
    inventory: Inventory, taken: Mapping[NodeName, Taken], rule: dict[str, object], expected: list[str]
) -> None:
    assert racks(placed(inventory, group(**rule), taken=taken)) == expected


def test_eight_racks_of_sixteen_with_a_spare_each() -> None:
    answer = placed(fleet(*(f"r{rack:02d}=18" for rack in range(1, 10))), group(slices=8, nodes=16, spares=1))
    assert racks(answer) == [f"r{rack:02d}" for rack in range(1, 9)]
    assert answer.slices[6].nodes == expand("r07-n[01-16]")
    assert answer.slices[6].spares == ("r07-n17",)
    assert answer.slices[6].domain == "r07.a"
    assert answer.why[6] == "`main.s6` in `r07`: 18 free, 1 left over, the fullest of 3 places with room"


def test_slices_over_racks_that_share_none_are_searched_for_where_the_largest_first_fails() -> None:
    inventory = fleet("r1=6@b1", "r2=4@b1", "r3=4@b1", "r4=1@b1", "r5=1@b1")
    answer = placed(inventory, group(slices=2, nodes=8, within="block", spread="rack"))
    spans = [{name.split("-")[0] for name in part.nodes} for part in answer.slices]
    assert spans == [{"r1", "r4", "r5"}, {"r2", "r3"}]


def test_trays_number_the_ranks_and_names_follow() -> None:
    inventory = but(fleet("r1=4"), "r1-n01", tray=9)
    inventory = but(inventory, "r1-n02", tray=None)
    assert placed(inventory, group(nodes=4)).slices[0].nodes == ("r1-n03", "r1-n04", "r1-n01", "r1-n02")


def test_any_fills_broken_racks_before_it_breaks_a_whole_one() -> None:
    inventory = fleet("r1=6", "r2=6", "r3=6", "r4=6")
    taken = used(x="r2-n[01-05],r3-n[01-03]")
    answer = placed(inventory, group(nodes=4, within="any"), taken=taken)
    assert answer.slices[0].nodes == ("r2-n06", "r3-n04", "r3-n05", "r3-n06")
    assert answer.slices[0].rack is None
    assert answer.why == ("`main.s0` on 2 racks: broken racks before whole ones, as few as hold it",)


def test_work_without_gpus_keeps_off_gpu_racks_then_off_whole_ones() -> None:
    inventory = but(fleet("r1=2", "r2=8", "cpu=9"), "cpu-n[01-09]", gpus=0)
    quiet = group(gpus=0, nodes=2)
    answer = placed(inventory, quiet)
    assert racks(answer) == ["cpu"]
    assert answer.why == (
        "`main.s0` in `cpu`: 9 free, 7 left over, of 3 with room the one that work on GPUs misses least",
    )
    assert racks(placed(inventory, quiet, taken=used(x="cpu-n[01-09],r2-n01"))) == ["r2"]


def test_groups_share_the_fleet_and_the_larger_chooses_first() -> None:
    answer = placed(fleet("r1=4", "r2=6"), group("judge", nodes=2), group("trainer", nodes=4))
    assert racks(answer) == ["r2", "r1"]
    assert [part.group for part in answer.slices] == ["judge", "trainer"]


def test_a_group_that_can_go_in_one_rack_only_is_let_through() -> None:
    picky = group("picky", nodes=3, racks=("r1",))
    answer = placed(fleet("r1=4", "r2=6"), group("easy", nodes=4), picky)
    assert racks(answer) == ["r2", "r1"]


def test_members_keep_apart_and_a_wide_slice_is_even_over_few_racks() -> None:
    inventory = fleet("r1=4@b1", "r2=2@b1", "r3=2@b1")
    apart = placed(inventory, group(nodes=3, within="block", spread_members="rack"))
    assert [name.split("-")[0] for name in apart.slices[0].nodes] == ["r1", "r2", "r3"]
    even = placed(fleet("r1=18", "r2=18", "r3=18"), group(nodes=24, within="any", balance="rack"))
    assert even.slices[0].nodes == (*expand("r1-n[01-12]"), *expand("r2-n[01-12]"))


def test_slices_of_a_rack_share_its_spare() -> None:
    answer = placed(fleet("r1=5"), group(slices=2, nodes=2, spares_per_rack=1))
    assert [part.spares for part in answer.slices] == [("r1-n03",), ("r1-n03",)]
    assert len(answer.nodes) == 5


def test_a_leader_goes_where_those_that_are_near_it_have_room_too() -> None:
    inventory = fleet("r1=4", "r2=9")
    leader, worker = group("leader", nodes=4), group("worker", nodes=3, near="leader")
    assert racks(placed(inventory, leader, worker)) == ["r2", "r2"]
    pairs = (group("prefill", slices=2, nodes=4), group("decode", slices=2, nodes=2, near="prefill"))
    assert racks(placed(fleet("r1=8", "r2=8"), *pairs)) == ["r1", "r2", "r1", "r2"]
    short = refused(fleet("r1=4", "r2=6"), leader, worker)
    assert (short.group, short.proven) == ("worker", True)


def test_part_of_a_node_is_said_and_nodes_with_the_fewest_gpus_come_first() -> None:
    answer = placed(but(fleet("r1=3"), "r1-n01", gpus=8), group(gpus=2))
    assert answer.slices[0].nodes == ("r1-n02",)
    assert answer.why[0].endswith(", 2 GPUs of each node, and nobody uses the others")


def test_what_is_searched_in_vain_for_too_long_is_refused_without_a_proof() -> None:
    # Slices of even sizes waste a node of each rack of odd size: 204 nodes do not fit into 208, which no count shows.
    roles = [group(f"g{size}", nodes=size, slices=4 if size == 6 else 3) for size in range(6, 17, 2)]
    short = refused(fleet(*(f"r{size}={size}" for size in range(19, 34, 2))), *roles)
    assert not short.proven


def test_a_node_is_counted_under_the_first_reason_that_applies() -> None:
    inventory = fleet("r1=11")
    inventory = but(inventory, "r1-n[01-02]", drained="ticket 17")
    inventory = but(inventory, "r1-n04", domain=None)
    inventory = but(inventory, "r1-n05", accelerator="H100")
    inventory = but(inventory, "r1-n06", gpus=2)
    taken = used(x="r1-n[02,06-07]") | {NodeName("r1-n03"): Taken(by_run="x", sick="Xid 79")}
    asked = group(accelerator="gb300", nodes=3, slices=2, exclude_nodes=("r1-n01",))
    short = refused(inventory, asked, taken=taken)
    (row,) = short.racks
    assert row.excluded == {
        Exclusion.EXCLUDED: 1,
        Exclusion.DRAINED: 1,
        Exclusion.SICK: 1,
        Exclusion.NO_DOMAIN: 1,
        Exclusion.KIND: 1,
        Exclusion.TOO_FEW_GPUS: 1,
        Exclusion.IN_USE: 1,
        Exclusion.PROMISED: 3,
    }
    assert (row.rack, row.total, row.free, row.users) == ("r1", 11, 1, {"x": 1})
    assert (short.placed, short.largest) == (1, 1)


def test_racks_are_listed_by_name_and_a_rack_of_two_domains_twice() -> None:
    short = refused(fleet("r10=4", "r2=6/2"), group(nodes=5))
    assert [(row.rack, row.free) for row in short.racks] == [
        ("r2 (domain r2.a)", 2),
        ("r2 (domain r2.b)", 4),
        ("r10", 4),
    ]
    assert short.largest == 4


@pytest.mark.parametrize(
    ("inventory", "taken", "rule", "change"),
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
            {NodeName("r1-n02"): Taken(sick="Xid 79")},
            {"nodes": 4},
            "`r1-n02` in service again, now sick",
            id="sick",
        ),
        row(
            fleet("r1=4", domain=None),
            {},
            {"nodes": 2},
            "the NVLink domain of `r1-n[01-02]` known, if it is one a rack",
            id="domains nobody asked the drivers for",
        ),
        row(fleet("r1=4"), used(small="r1-n01"), {"nodes": 4}, "run `small` ends", id="a run"),
        row(
            fleet("r1=4"),
            used(a="r1-n01", b="r1-n02"),
            {"nodes": 4},
            "runs `a`, `b` end",
            id="two runs in the way",
        ),
        row(fleet("r1=4", "r2=3"), {}, {"nodes": 6}, "slices of at most 4 nodes", id="smaller slices"),
        row(fleet("r1=4", "r2=3"), {}, {"nodes": 3, "slices": 4}, "at most 2 slices", id="fewer slices"),
        row(fleet("r1=4"), {}, {"nodes": 4, "spares": 2}, "`spares: 0`", id="no spares"),
        row(fleet("r1=5"), {}, {"nodes": 4, "spares": 3}, "`spares: 1`", id="as many spares as there are"),
        row(
            fleet("r1=4"),
            {},
            {"nodes": 2, "slices": 2, "spread": "rack"},
            "no `spread: rack`",
            id="no spread",
        ),
        row(
            fleet("r1=4@b1", "r2=4@b1"),
            {},
            {"nodes": 6},
            "`within: block` instead of `rack`",
            id="coarser level",
        ),
        row(
            fleet("r1=4"),
            {},
            {"racks": ("r9",), "exclude_nodes": ("r1-n01",)},
            "no `racks` and no `exclude_nodes`",
            id="own rules",
        ),
        row(fleet("r1=4@b1"), {}, {"only_nodes": ("r1-n09",)}, "no `nodes`", id="own nodes"),
        row(
            fleet("r1=2@b1", "r2=2@b2"),
            {},
            {"nodes": 2, "slices": 2, "all_within": "block"},
            "`within: rack` instead of `[block, rack]`",
            id="all in one block",
        ),
        row(
            fleet("r1=3@b1", "r2=1@b1"),
            {},
            {"nodes": 3, "within": "block", "spread_members": "rack"},
            "no `spread_members: rack`",
            id="members apart",
        ),
        row(fleet("r1=4"), used(a="r1-n01"), {"exclusive": "rack"}, "no `exclusive: rack`", id="exclusive"),
        row(
            fleet("r1=4"),
            {},
            {"nodes": 2, "slices": 2, "spares_per_rack": 2},
            "`spares_per_rack: 0`",
            id="no spares for a rack",
        ),
    ],
)
def test_a_refusal_says_what_would_make_it_fit(
    inventory: Inventory, taken: Mapping[NodeName, Taken], rule: dict[str, object], change: str
) -> None:
    assert change in refused(inventory, group(**rule), taken=taken).changes


def test_kind_and_gpus_can_be_what_is_in_the_way() -> None:
    assert "any accelerator instead of `H100`" in refused(fleet("r1=1"), group(accelerator="H100")).changes
    assert "4 GPUs on each node instead of 8" in refused(fleet("r1=1"), group(gpus=8)).changes


def test_the_operator_comes_before_the_user_and_the_smallest_run_first() -> None:
    inventory = but(fleet("r1=6", "r2=6", "r3=6"), "r1-n06", drained="x")
    taken = used(big="r3-n[01-04]", run10="r2-n01")
    assert refused(inventory, group(nodes=6, spares=0), taken=taken).changes[:4] == (
        "undrain `r1-n06`",
        "run `run10` ends",
        "run `big` ends",
        "slices of at most 5 nodes",
    )


def test_an_empty_fleet_and_an_unknown_level_are_refused_and_nothing_is_promised() -> None:
    assert refused(replace(fleet(), nodes=()), group()).changes == ()
    short = refused(fleet("r1=2"), group(within="block"))
    assert short.racks[0].excluded == {Exclusion.UNNAMED: 2}
    assert short.changes == ("`within: any` instead of `block`",)
