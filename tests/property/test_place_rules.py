"""Laws of the rules between slices and groups, checked on fleets small enough to try every choice."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from launcher.core.model.inventory import Inventory
from launcher.core.model.placement import Placement, Shortfall, Slice, Unavailable, UnavailableNodes
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place
from launcher.core.placement.replacement import replace_nodes, replace_slice
from launcher.core.placement.resize import resize
from tests.effort import drawn
from tests.property.every_way import EveryWay
from tests.property.test_place import fleets, unavailable_nodes

LAWS = drawn(16)
_UPPER = ["rack", "block", "zone"]
_LEVELS = ["node", *_UPPER, "any"]


@st.composite
def rules(draw: st.DrawFn, most: int, others: tuple[str, ...] = ()) -> TopologyRule:
    """A rule with few keys beside `within`, so that many of them can be met."""
    within = draw(st.sampled_from(["rack", "rack", "rack", "block", "zone", "any", "node"]))
    size = 1 if within == "node" else draw(st.integers(1, most))
    keys = {
        "all_within": st.sampled_from(_UPPER),
        "spread": st.sampled_from(_LEVELS),
        "spread_members": st.sampled_from(_LEVELS),
        "exclusive": st.sampled_from(_LEVELS),
        "balance": st.sampled_from(_UPPER),
        "prefer": st.sampled_from(_UPPER),
        "only_nodes": st.just(("*-n[0-2]",)),
        "spares": st.just(0 if within == "node" else 1),
        **({"spares_per_rack": st.just(1)} if within == "rack" and not others else {}),
        **({"near": st.sampled_from(others), "apart_from": st.sampled_from(others)} if others else {}),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(keys)), max_size=3, unique=True))
    return TopologyRule(
        slices=draw(st.integers(1, 3 if size < 3 else 2)),
        nodes_per_slice=size,
        within=within,
        **{key: draw(keys[key]) for key in chosen},
    )


@st.composite
def groups(draw: st.DrawFn, name: str, others: tuple[str, ...] = (), most: int = 3) -> Group:
    kind = draw(st.sampled_from([None, None, None, "GB300"]))
    gpus = draw(st.sampled_from([4, 4, 4, 2, 0, 8]))
    return Group(name=name, topology=draw(rules(most, others)), gpus=gpus, accelerator=kind)


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    """Two or three small groups, of which later ones may be near to, or apart from, earlier ones."""
    names = ("a", "b", "c")[: draw(st.integers(2, 3))]
    own = [draw(groups(name, names[:at], 2)) for at, name in enumerate(names)]
    assume(sum(group.topology.slices * group.topology.nodes_per_slice for group in own) <= 7)
    assume(sum(bool(group.topology.spares_per_rack) for group in own) < 2)
    return Task(name="t", groups=tuple(own))


@st.composite
def marked(draw: st.DrawFn, most: int, *, nested: bool = True) -> tuple[Inventory, UnavailableNodes]:
    inventory = draw(fleets(most, nested=nested))
    return inventory, draw(unavailable_nodes(inventory))


@pytest.mark.parametrize("nested", [True, False], ids=["nested levels", "racks that straddle blocks"])
def test_one_group_is_refused_only_where_no_choice_exists(nested: bool) -> None:
    @LAWS
    @given(st.data())
    def law(data: st.DataObject) -> None:
        inventory, unavailable = data.draw(marked(9, nested=nested))
        task = Task(name="t", groups=(data.draw(groups("main")),))
        placed = place(task, inventory, unavailable)
        assert isinstance(placed, Placement) == EveryWay(task, inventory, unavailable).exists()
        if isinstance(placed, Placement):
            EveryWay(task, inventory, unavailable).check(placed)
        else:
            assert placed.proven

    law()


@LAWS
@given(st.data())
def test_several_groups_are_refused_with_a_proof_only_where_no_choice_exists(data: st.DataObject) -> None:
    inventory, unavailable = data.draw(marked(8))
    task = data.draw(tasks())
    placed = place(task, inventory, unavailable)
    if isinstance(placed, Placement):
        EveryWay(task, inventory, unavailable).check(placed)
    else:
        assert placed.proven
        assert not EveryWay(task, inventory, unavailable).exists()


@LAWS
@given(st.data())
def test_neither_order_of_file_nor_of_groups_changes_where_slices_go(data: st.DataObject) -> None:
    inventory, unavailable = data.draw(marked(10))
    task = data.draw(tasks())
    shuffled = replace(inventory, nodes=tuple(data.draw(st.permutations(inventory.nodes))))
    turned = replace(task, groups=tuple(data.draw(st.permutations(task.groups))))
    first, second = place(task, inventory, unavailable), place(turned, shuffled, unavailable)
    assert type(first) is type(second)
    if isinstance(first, Placement) and isinstance(second, Placement):
        assert {part.key: part for part in first.slices} == {part.key: part for part in second.slices}


def placed(data: st.DataObject, most: int) -> tuple[Inventory, UnavailableNodes, Task, Placement, Slice]:
    """A task that has its place on a fleet of at most so many nodes, and one of its slices."""
    inventory, unavailable = data.draw(marked(most))
    task = data.draw(tasks())
    before = place(task, inventory, unavailable)
    assume(isinstance(before, Placement))
    assert isinstance(before, Placement)
    return inventory, unavailable, task, before, data.draw(st.sampled_from(before.slices))


@drawn(12)
@given(st.data())
def test_a_slice_placed_again_keeps_every_rule_and_a_refusal_is_exact(data: st.DataObject) -> None:
    inventory, unavailable, task, before, part = placed(data, 8)
    worse = {**unavailable, part.nodes[0]: Unavailable(unhealthy="failed")}
    after = replace_slice(task, inventory, worse, before, part)
    kept = [other for other in before.slices if other.key != part.key]
    if isinstance(after, Shortfall):
        assert after.proven
        if not any(group.topology.spares_per_rack for group in task.groups):  # they may be of use to others otherwise
            stay = {
                group.name: [frozenset((*one.nodes, *one.spares)) for one in kept if one.group == group.name]
                for group in task.groups
            }
            assert not EveryWay(task, inventory, worse).exists(stay)
        return
    order = {group.name: at for at, group in enumerate(task.groups)}
    whole = sorted([*kept, after], key=lambda one: (order[one.group], one.index))
    EveryWay(task, inventory, worse).check(Placement(slices=tuple(whole)))


@drawn(12)
@given(st.data())
def test_lost_nodes_are_replaced_in_the_place_that_the_loss_broke_or_not_at_all(data: st.DataObject) -> None:
    inventory, unavailable, task, before, part = placed(data, 10)
    own = task.group(part.group).topology
    assume(not own.spares_per_rack)
    lost = data.draw(st.lists(st.sampled_from((*part.nodes, *part.spares)), min_size=1, unique=True))
    worse = {**unavailable, **{name: Unavailable(unhealthy="failed") for name in lost}}
    after = replace_nodes(task, inventory, worse, before, part, lost)
    ways = EveryWay(task, inventory, worse)
    healthy = ways.of(ways.usable(task.group(part.group)) - {*before.nodes})
    if isinstance(after, Shortfall):
        apart = any(group.apart_from or group.near for group in (rule.topology for rule in task.groups))
        if not (apart or own.all_within or own.spread or own.spread_members):
            mates = ways.of(part.nodes[:1])
            beside = [
                node for node in healthy if ways.whole((mates[0].name, node.name), replace(own, spread_members=None))
            ]
            assert len(beside) < len(lost)
        return
    assert [new for new, old in zip(after.nodes, part.nodes, strict=True) if old not in lost] == [
        name for name in part.nodes if name not in lost
    ]
    assert (after.rack, after.domain, after.place) == (part.rack, part.domain, part.place)
    ways.check(Placement(slices=tuple(after if one.key == part.key else one for one in before.slices)))


@drawn(12)
@given(st.data(), st.integers(1, 4), st.integers(0, 1))
def test_a_task_given_again_keeps_what_may_stay(data: st.DataObject, slices: int, spares: int) -> None:
    inventory, unavailable = data.draw(marked(10))
    task = data.draw(tasks())
    before = place(task, inventory, unavailable)
    assume(isinstance(before, Placement))
    assert isinstance(before, Placement)
    same = resize(task, inventory, unavailable, before)
    assert not isinstance(same, Shortfall)
    assert (same.added, same.removed, same.moved) == ((), (), ())
    assert same.placement.slices == before.slices
    first, *rest = task.groups
    rule = replace(first.topology, slices=slices, spares=0 if first.topology.within == "node" else spares)
    again = replace(task, groups=(replace(first, topology=rule), *rest))
    after = resize(again, inventory, unavailable, before)
    if isinstance(after, Shortfall):
        return
    EveryWay(again, inventory, unavailable).check(after.placement)
    old = {part.key: part for part in before.slices}
    if not any(group.topology.near or group.topology.spares_per_rack for group in task.groups):
        assert all(new.nodes == was.nodes for was, new in after.moved if len(new.spares) <= len(was.spares))
    assert {part.key for part in after.placement.slices} == old.keys() - {p.key for p in after.removed} | {
        p.key for p in after.added
    }
