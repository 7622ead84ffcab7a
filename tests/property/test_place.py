"""Laws of the placer, checked on fleets small enough to try every choice."""

import re
from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Shortfall, Unavailable, UnavailableNodes
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place
from tests.effort import drawn
from tests.property.ray_rule import one_slice, racks_of, stranded

LEVELS = ("zone", "block", "rack")
QUICK = drawn(40)


@st.composite
def fleets(draw: st.DrawFn, most: int = 12, *, nested: bool = True) -> Inventory:
    """Racks of a few nodes, of which some have two domains, an unknown one, odd nodes or drained ones."""
    nodes: list[Node] = []
    for rack in range(draw(st.integers(2, 5))):
        block = draw(st.sampled_from(["b1", "b2", "b10", "b1", "b2", None]))
        for tray in range(draw(st.integers(1, 5))):
            own = block if nested else draw(st.sampled_from(["b1", "b2", "b10"]))
            places = {"zone": "z1" if own == "b1" else "z2"} | ({"block": own} if own else {})
            nodes.append(
                Node(
                    name=NodeName(f"r{rack}-n{tray}"),
                    rack=RackName(f"r{rack}"),
                    access=Access(address="10.0.0.1"),
                    domain=draw(st.sampled_from([f"d{rack}"] * 12 + [f"e{rack}", f"e{rack}", None])),
                    gpus=draw(st.sampled_from([4] * 10 + [8, 0])),
                    accelerator=draw(st.sampled_from(["GB300", "gb300"] * 4 + ["H100"])),
                    tray=draw(st.sampled_from([tray, 9 - tray, None])),
                    places=places,
                    drained=draw(st.sampled_from([None] * 15 + ["bad link"])),
                )
            )
    return Inventory(name="small", transport=Transport.SIM, nodes=tuple(nodes[:most]), levels=LEVELS)


@st.composite
def unavailable_nodes(draw: st.DrawFn, inventory: Inventory) -> dict[NodeName, Unavailable]:
    marks = st.sampled_from(
        [None] * 15 + [Unavailable(used_by="a"), Unavailable(used_by="b"), Unavailable(unhealthy="xid 79")]
    )
    drawn = {node.name: draw(marks) for node in inventory.nodes}
    return {name: mark for name, mark in drawn.items() if mark is not None}


@st.composite
def groups(draw: st.DrawFn, name: str = "main") -> Group:
    rule = TopologyRule(
        slices=draw(st.integers(1, 3)),
        nodes_per_slice=draw(st.sampled_from([1, 2, 2, 3, 4])),
        within=draw(st.sampled_from(["rack", "rack", "rack", "rack", "node", "block", "zone", "any"])),
        spread=draw(st.sampled_from([None] * 5 + ["node", "rack", "rack", "block", "zone"])),
        prefer=draw(st.sampled_from([None, None, "rack", "block", "zone"])),
        spares=draw(st.integers(0, 1)),
        racks=draw(st.sampled_from([()] * 6 + [("r[0-2]",)])),
        exclude_nodes=draw(st.sampled_from([()] * 8 + [("r1-*",), ("r0-n[0,2]",)])),
    )
    kind = draw(st.sampled_from([None, None, "GB300"]))
    return Group(name=name, topology=rule, gpus=draw(st.sampled_from([4] * 6 + [0, 8])), accelerator=kind)


def task_of(*own: Group) -> Task:
    return Task(name="task", groups=own)


def usable(group: Group, inventory: Inventory, unavailable: UnavailableNodes) -> list[Node]:
    """The nodes a group may have, said again without the placer."""
    rule = group.topology
    excluded = {"r0-n0", "r0-n2"} if rule.exclude_nodes == ("r0-n[0,2]",) else set()
    return [
        node
        for node in inventory.nodes
        if node.drained is None
        and node.name not in unavailable
        and node.name not in excluded
        and not (rule.exclude_nodes == ("r1-*",) and node.rack == "r1")
        and not (rule.racks and node.rack not in ("r0", "r1", "r2"))
        and (group.accelerator is None or (node.accelerator or "").upper() == group.accelerator)
        and node.gpus >= group.gpus
        and (rule.within != "rack" or node.domain is not None)
        and (rule.within == "any" or node.at(rule.within) is not None)
        and (rule.spread is None or node.at(rule.spread) is not None)
    ]


def together(nodes: tuple[Node, ...], within: str) -> bool:
    """Whether one slice may consist of these nodes."""
    if within == "any":
        return True
    if within == "rack":
        return len({(node.rack, node.domain) for node in nodes}) == 1
    return len({node.at(within) for node in nodes}) == 1


def exists(rule: TopologyRule, nodes: list[Node]) -> bool:
    """Whether any choice of nodes holds all slices: every one is tried."""
    need = rule.nodes_per_slice + rule.spares
    slices = [
        set(c) for c in combinations(range(len(nodes)), need) if together(tuple(nodes[i] for i in c), rule.within)
    ]
    grounds = [{nodes[i].at(rule.spread) for i in one} if rule.spread else set() for one in slices]

    def search(start: int, used: set[int], owned: set[str | None], left: int) -> bool:
        return left == 0 or any(
            search(at + 1, used | slices[at], owned | grounds[at], left - 1)
            for at in range(start, len(slices))
            if not slices[at] & used and not grounds[at] & owned
        )

    return search(0, set(), set(), rule.slices)


def rank(node: Node) -> tuple[str, int, str]:
    """Where a node stands in rank order: rack by rack, tray by tray, nodes without a tray last."""
    return node.rack, 99 if node.tray is None else node.tray, node.name


def assert_sound(task: Task, inventory: Inventory, unavailable: UnavailableNodes, placed: Placement) -> None:
    """Every slice is whole and where it may be, and no node is given twice."""
    by_name = {node.name: node for node in inventory.nodes}
    assert max(Counter(placed.nodes).values()) == 1
    for group in task.groups:
        rule = group.topology
        own = [part for part in placed.slices if part.group == group.name]
        allowed = {node.name for node in usable(group, inventory, unavailable)}
        assert [part.index for part in own] == list(range(rule.slices))
        assert [rank(by_name[part.nodes[0]]) for part in own] == sorted(rank(by_name[part.nodes[0]]) for part in own)
        owned: list[set[str | None]] = []
        for part in own:
            assert [rank(by_name[name]) for name in part.nodes] == sorted(rank(by_name[name]) for name in part.nodes)
            nodes = tuple(by_name[name] for name in (*part.nodes, *part.spares))
            assert (len(part.nodes), len(part.spares)) == (rule.nodes_per_slice, rule.spares)
            assert {node.name for node in nodes} <= allowed
            assert together(nodes, rule.within)
            if rule.within == "rack":
                assert (part.rack, part.domain, part.place) == (nodes[0].rack, nodes[0].domain, nodes[0].rack)
            owned.append({node.at(rule.spread) for node in nodes} if rule.spread else set())
        assert all(not one & other for one, other in combinations(owned, 2))


@QUICK
@given(st.data())
def test_every_placement_is_sound(data: st.DataObject) -> None:
    inventory = data.draw(fleets())
    unavailable = data.draw(unavailable_nodes(inventory))
    task = task_of(*(data.draw(groups(name)) for name in ("main", "judge", "eval")[: data.draw(st.integers(1, 3))]))
    placed = place(task, inventory, unavailable)
    if isinstance(placed, Placement):
        assert_sound(task, inventory, unavailable, placed)
        assert len(placed.reasons) == len(placed.slices)


@QUICK
@given(st.data())
def test_the_answer_does_not_depend_on_the_order_of_the_file(data: st.DataObject) -> None:
    inventory = data.draw(fleets(nested=data.draw(st.booleans())))
    unavailable = data.draw(unavailable_nodes(inventory))
    task = task_of(data.draw(groups()), data.draw(groups("judge")))
    shuffled = replace(inventory, nodes=tuple(data.draw(st.permutations(inventory.nodes))))
    retaken = dict(data.draw(st.permutations(list(unavailable.items()))))
    assert place(task, shuffled, retaken) == place(task, inventory, unavailable)


@QUICK
@given(st.data(), st.lists(st.integers(1, 3), min_size=2, max_size=8), st.integers(1, 4))
def test_racks_that_are_alike_are_chosen_by_name(data: st.DataObject, sizes: list[int], slices: int) -> None:
    inventory = racks_of(sizes)
    task = task_of(Group(name="main", topology=TopologyRule(slices=slices, nodes_per_slice=1), gpus=4))
    shuffled = replace(inventory, nodes=tuple(data.draw(st.permutations(inventory.nodes))))
    assert place(task, shuffled, {}) == place(task, inventory, {})


@pytest.mark.parametrize("nested", [True, False], ids=["nested levels", "racks that straddle blocks"])
def test_one_group_is_refused_only_where_no_choice_exists(nested: bool) -> None:
    @drawn(70)
    @given(st.data())
    def law(data: st.DataObject) -> None:
        inventory = data.draw(fleets(11, nested=nested))
        unavailable = data.draw(unavailable_nodes(inventory))
        group = data.draw(groups())
        placed = isinstance(place(task_of(group), inventory, unavailable), Placement)
        assert placed == exists(group.topology, usable(group, inventory, unavailable))

    law()


def stranded_nodes(free: Counter[str], size: int) -> int:
    """The nodes that can all stay free while no slice of this size fits."""
    return sum(min(room, size - 1) for room in free.values())


@QUICK
@given(st.lists(st.integers(0, 9), min_size=1, max_size=7), st.integers(1, 9))
def test_no_other_rack_would_strand_fewer_nodes(sizes: list[int], need: int) -> None:
    assume(max(sizes) >= need)
    placed = place(one_slice(need), racks_of(sizes), {})
    assert isinstance(placed, Placement)
    free = Counter({f"r{rack}": size for rack, size in enumerate(sizes)})
    choices = [free - Counter({rack: need}) for rack, room in free.items() if room >= need]
    ours = free - Counter({str(placed.slices[0].place): need})
    for size in range(1, 11):
        assert stranded_nodes(ours, size) == min(stranded_nodes(choice, size) for choice in choices)


@QUICK
@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 5), st.integers(2, 4))
def test_slices_together_take_what_they_would_take_one_by_one(sizes: list[int], need: int, slices: int) -> None:
    inventory = racks_of(sizes)
    rule = TopologyRule(slices=slices, nodes_per_slice=need)
    placed = place(task_of(Group(name="main", topology=rule, gpus=4)), inventory, {})
    assume(isinstance(placed, Placement))
    unavailable: dict[NodeName, Unavailable] = {}
    for _ in range(slices):
        single = place(one_slice(need), inventory, unavailable)
        assert isinstance(single, Placement)
        unavailable.update((name, Unavailable(used_by="x")) for name in single.nodes)
    assert isinstance(placed, Placement)
    left = [sorted(free_by_rack(inventory, names).values()) for names in (placed.nodes, tuple(unavailable))]
    assert left[0] == left[1]


def free_by_rack(inventory: Inventory, used: tuple[NodeName, ...]) -> Counter[str]:
    return Counter(node.rack for node in inventory.nodes if node.name not in used)


@drawn(50)
@given(st.data())
def test_a_shortfall_counts_each_node_once_and_its_suggestions_are_the_least(data: st.DataObject) -> None:
    inventory = data.draw(fleets(10))
    unavailable = data.draw(unavailable_nodes(inventory))
    group = data.draw(groups())
    short = place(task_of(group), inventory, unavailable)
    assume(isinstance(short, Shortfall))
    assert isinstance(short, Shortfall)
    assert sum(row.total for row in short.racks) == len(inventory.nodes)
    assert all(row.total == row.free + sum(row.excluded.values()) for row in short.racks)
    assert short.placed < short.slices
    rule = group.topology
    nodes = usable(group, inventory, unavailable)
    for change, key in ((r"use slices of at most (\d+) ", "nodes_per_slice"), (r"use at most (\d+) slice", "slices")):
        said = next((int(found[1]) for text in short.suggestions if (found := re.match(change, text))), 0)
        able = [n for n in range(1, getattr(rule, key)) if exists(replace(rule, **{key: n}), nodes)]
        assert said == max(able, default=0)
    wished = [text for text in short.suggestions if text.startswith("undrain")]
    lifted = replace(inventory, nodes=tuple(replace(node, drained=None) for node in inventory.nodes))
    assert bool(wished) == exists(rule, usable(group, lifted, unavailable))
    ends = {run for run in "ab" if f"wait until run `{run}` ends" in short.suggestions}
    for run in ends:
        freed = {name: mark for name, mark in unavailable.items() if mark.used_by != run}
        assert exists(rule, usable(group, inventory, freed))


def test_our_choice_of_rack_never_strands_the_slice_that_another_choice_would_have_held() -> None:
    could, ours, any_rack = stranded(1_000, seed=20)
    print(f"{could} fleets that can hold both: {ours} stranded by us, {any_rack} by any rack that fits")
    assert ours == 0
    assert any_rack > 0
