"""Plans of moves on small halls: what moves where, what it costs, and what may not move."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Slice, Unavailable, UnavailableNodes
from launcher.core.model.run import RunName
from launcher.core.model.task import Group, RecoveryPolicy, RestartWith, Task, TopologyRule
from launcher.core.placement.colocation import with_colocated_slices
from launcher.core.planner.defragment import MovePlan, NoMovePlan, after, defragment, slices_with_room
from launcher.core.planner.relocation import PlacedTask


def hall(racks: int, nodes: int = 4, **kinds: str) -> Inventory:
    """Racks r1, r2... two of them a block; `kinds` names the accelerator of a rack."""
    return Inventory(
        name="hall",
        transport=Transport.SIM,
        levels=("block", "rack"),
        nodes=tuple(
            Node(
                name=NodeName(f"r{rack}-n{tray}"),
                rack=RackName(f"r{rack}"),
                domain=f"d{rack}",
                access=Access(address="10.0.0.1"),
                accelerator=kinds.get(f"r{rack}", "GB300"),
                places={"block": f"b{(rack + 1) // 2}"},
            )
            for rack in range(1, racks + 1)
            for tray in range(1, nodes + 1)
        ),
    )


def names(text: str) -> tuple[NodeName, ...]:
    """`r1: 1 2` is nodes 1 and 2 of rack r1."""
    rack, _, trays = text.partition(":")
    return tuple(NodeName(f"{rack}-n{tray}") for tray in trays.split())


def part(group: str, index: int, text: str, spares: int = 0) -> Slice:
    nodes, rack = names(text), text.partition(":")[0]
    cut = len(nodes) - spares
    return Slice(
        group=group,
        index=index,
        place=rack,
        rack=RackName(rack),
        domain=f"d{rack[1:]}",
        nodes=nodes[:cut],
        spares=nodes[cut:],
    )


def group(name: str, nodes: int, slices: int = 1, policy: RecoveryPolicy | None = None, **rule: Any) -> Group:
    topology = TopologyRule(slices=slices, nodes_per_slice=nodes, **rule)
    return Group(name=name, topology=topology, gpus=4, run="true", recovery=policy or RecoveryPolicy())


def run(
    name: str, *where: str, spares: int = 0, movable: bool = True, policy: RecoveryPolicy | None = None, **rule: Any
) -> PlacedTask:
    """A run of one group, a slice for each text."""
    slices = tuple(part("main", index, text, spares) for index, text in enumerate(where))
    role = group("main", len(slices[0].nodes), len(slices), policy, spares=spares, **rule)
    return PlacedTask(
        name=RunName(name),
        task=Task(name=name, groups=(role,)),
        placement=Placement(slices=slices),
        movable=movable,
    )


def wanted(nodes: int, slices: int = 1, **rule: Any) -> Task:
    return Task(name="wanted", groups=(group("main", nodes, slices, **rule),))


def used(runs: Sequence[PlacedTask], **sick: str) -> dict[NodeName, Unavailable]:
    unavailable = {node: Unavailable(used_by=one.name) for one in runs for node in one.placement.nodes}
    for rack, trays in sick.items():
        for node in names(f"{rack}:{trays}"):
            unavailable[node] = replace(unavailable.get(node, Unavailable()), unhealthy="lost a GPU")
    return unavailable


def plan(task: Task, inventory: Inventory, *runs: PlacedTask, **sick: str) -> MovePlan:
    unavailable = used(runs, **sick)
    found = defragment(task, inventory, unavailable, runs)
    assert isinstance(found, MovePlan), found
    played(found, inventory, unavailable)
    return found


def refused(task: Task, inventory: Inventory, *runs: PlacedTask, **sick: str) -> NoMovePlan:
    found = defragment(task, inventory, used(runs, **sick), runs)
    assert isinstance(found, NoMovePlan)
    return found


def played(found: MovePlan, inventory: Inventory, unavailable: UnavailableNodes) -> None:
    """Play a plan: each new node is free when its step begins, and the task has only free nodes in the end."""
    for at, step in enumerate(found.steps):
        now = after(unavailable, found.steps[:at])
        new = [node for move in step.moves for node in (*move.new.nodes, *move.new.spares)]
        assert len(set(new)) == len(new)
        assert not now.keys() & set(new)
        for move in step.moves:
            assert len({node.domain for node in inventory.nodes if node.name in move.new.nodes}) == 1
    assert not after(unavailable, found.steps).keys() & set(found.placement.nodes)


def moves(found: MovePlan) -> list[str]:
    return [f"{move.run} {move.old.rack}->{move.new.rack}" for move in found.moves]


def test_a_slice_moves_into_a_gap_and_leaves_a_whole_rack() -> None:
    found = plan(wanted(4), hall(2), run("a", "r1:1 2"), run("b", "r2:1 2", movable=False))
    assert moves(found) == ["a r1->r2"]
    assert found.moves[0].new.nodes == names("r2:3 4")
    assert found.moves[0].new.domain == "d2"
    assert found.placement.slices[0].nodes == names("r1:1 2 3 4")
    assert found.proven


def test_a_move_costs_the_gpu_time_of_the_restart() -> None:
    """8 GPUs for 60 s of grace and 120 s of restart; half of the time between checkpoints where none is written."""
    movable = run("a", "r1:1 2")
    fixed = run("b", "r2:1 2", movable=False)
    assert plan(wanted(4), hall(2), movable, fixed).gpu_hours == pytest.approx(8 * 180 / 3600)
    rarely = replace(movable, checkpoint_s=1800.0)
    found = plan(wanted(4), hall(2), rarely, fixed)
    assert found.gpu_hours == pytest.approx(8 * (180 + 900) / 3600)
    assert found.bound_gpu_hours == pytest.approx(found.gpu_hours)


def test_nothing_moves_where_the_task_fits() -> None:
    found = plan(wanted(2), hall(2), run("a", "r1:1 2 3"), run("b", "r2:1 2"))
    assert (found.steps, found.gpu_hours) == ((), 0.0)


def test_the_cheapest_gang_moves() -> None:
    found = plan(wanted(4), hall(3), run("large", "r1:1 2", "r3:1 2"), run("small", "r2:1 2"))
    assert moves(found) == ["small r2->r1"]


def test_slices_of_one_gang_restart_once() -> None:
    found = plan(
        wanted(4, 2),
        hall(4),
        run("pair", "r1:1 2", "r2:1 2"),
        run("c", "r3:1 2", movable=False),
        run("d", "r4:1 2", movable=False),
    )
    assert len(found.steps) == 1
    assert len(found.moves) == 2
    assert found.gpu_hours == pytest.approx(16 * 180 / 3600)


@pytest.mark.parametrize(("whole", "gpus"), [(RestartWith.RUN, 16), (RestartWith.GROUP, 16), (RestartWith.MEMBER, 8)])
def test_only_the_gang_of_a_slice_is_paid(whole: RestartWith, gpus: int) -> None:
    pair = run("pair", "r1:1 2", "r3:1 2 3", policy=RecoveryPolicy(restart_with=whole))
    pair = replace(pair, placement=Placement(slices=(part("main", 0, "r1:1 2"), part("main", 1, "r3:1 2"))))
    blocked = (run("b", "r2:1 2", movable=False), run("c", "r3:3", movable=False))
    found = plan(wanted(4), hall(3), pair, *blocked)
    assert found.gpu_hours == pytest.approx(gpus * 180 / 3600)


def test_groups_on_the_same_nodes_move_and_restart_together() -> None:
    host = group("main", 2)
    guest = Group(name="side", topology=TopologyRule(nodes_per_slice=2, nodes_of="main"), gpus=0, run="true")
    task = Task(name="a", groups=(host, guest))
    placement = Placement(slices=with_colocated_slices(task, [part("main", 0, "r1:1 2")]))
    both = PlacedTask(name=RunName("a"), task=task, placement=placement, movable=True)
    found = plan(wanted(4), hall(2), both, run("b", "r2:1 2", movable=False))
    assert [move.old.group for move in found.moves] == ["main"]
    assert found.gpu_hours == pytest.approx(8 * 180 / 3600)


def test_spares_move_with_their_slice() -> None:
    found = plan(wanted(4), hall(2, 4), run("a", "r1:1 2", spares=1), run("b", "r2:1 2", movable=False))
    assert (found.moves[0].new.nodes, found.moves[0].new.spares) == (names("r2:3"), names("r2:4"))
    assert found.gpu_hours == pytest.approx(4 * 180 / 3600)


def test_what_gives_way_to_a_move_goes_first() -> None:
    found = plan(
        wanted(6),
        hall(3, 6),
        run("a", "r1:1 2 3 4"),
        run("b", "r2:1 2"),
        run("c", "r2:3 4", movable=False),
        run("d", "r3:1 2 3 4", movable=False),
    )
    assert moves(found) == ["b r2->r3", "a r1->r2"]


def test_slices_move_to_nodes_of_their_kind_only() -> None:
    inventory = hall(3, r2="GB200")
    a = run("a", "r1:1 2")
    a = replace(a, task=replace(a.task, groups=(replace(a.task.groups[0], accelerator="GB300"),)))
    blocked = run("c", "r3:1 2", movable=False)
    assert moves(plan(wanted(4, exclude_racks=("r2",)), inventory, a, blocked)) == ["a r1->r3"]
    full = run("c", "r3:1 2 3", movable=False)
    assert refused(wanted(4, exclude_racks=("r2",)), inventory, a, full).proven


def test_room_is_made_only_where_the_task_may_use_it() -> None:
    runs = (run("a", "r1:1 2"), run("b", "r2:1 2"), run("c", "r3:1 2"))
    assert moves(plan(wanted(4, racks=("r3",)), hall(3), *runs))[0].startswith("c r3->")
    only = ("r2-n*",)
    assert moves(plan(wanted(4, only_nodes=only), hall(3), *runs))[0].startswith("b r2->")


def test_slices_that_spread_stay_apart() -> None:
    spread = run("pair", "r1:1 2", "r2:1 2", spread="rack")
    found = plan(wanted(4), hall(3), spread, run("c", "r3:1 2", movable=False))
    assert found.moves[0].new.rack == "r3"
    full = run("c", "r3:1 2 3", movable=False)
    refusal = refused(wanted(4), hall(3), spread, full)
    assert refusal.reason == "no moves make room"


def test_slices_that_move_together_do_not_meet() -> None:
    """Two slices that spread could both go to r3: one of them has to go to r4."""
    spread = run("pair", "r1:1 2", "r2:1 2", spread="rack")
    found = plan(
        wanted(6, 2), hall(4, 6), spread, run("c", "r3:1 2", movable=False), run("d", "r4:1 2 3 4", movable=False)
    )
    assert sorted(move.new.rack or "" for move in found.moves) == ["r3", "r4"]


def test_slices_that_stay_in_one_block_move_within_it() -> None:
    near = run("pair", "r1:1 2", "r2:1 2", all_within="block")
    others = (run("c", "r3:1 2", movable=False), run("d", "r4:1 2", movable=False))
    found = plan(wanted(4), hall(4), near, *others)
    assert moves(found) in (["pair r1->r2"], ["pair r2->r1"])


def test_nodes_that_are_sick_are_neither_freed_nor_used() -> None:
    runs = (run("a", "r1:1 2"), run("b", "r2:1 2", movable=False))
    assert refused(wanted(4), hall(2), *runs, r2="4").fixed == {"not movable": 1}
    assert refused(wanted(4), hall(2), *runs, r1="1").fixed == {
        "not movable": 1,
        "mixed, unhealthy or drained nodes": 1,
    }


def test_slices_that_may_move_but_not_now_are_told_from_those_that_never_may() -> None:
    busy = run("a", "r1:1 2", movable=False)
    busy = replace(busy, task=replace(busy.task, movable=True))
    refusal = refused(wanted(4), hall(2), busy, run("b", "r2:1 2", movable=False))
    assert refusal.fixed == {"run starts, recovers or changes now": 1, "not movable": 1}


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"within": "block"}, "spans racks"),
        ({"exclusive": "rack"}, "exclusive"),
        ({"spares_per_rack": 1}, "shared spares"),
        ({"only_nodes": ("*",)}, "names nodes"),
        ({"spread_members": "block"}, "spread members"),
    ],
)
def test_slices_with_such_rules_do_not_move(rule: dict[str, Any], reason: str) -> None:
    refusal = refused(wanted(4), hall(2), run("a", "r1:1 2", **rule), run("b", "r2:1 2", movable=False))
    assert refusal.fixed == {reason: 1, "not movable": 1}
    assert refusal.reason == "no moves make room"
    assert refusal.proven


def test_a_task_that_spans_racks_is_not_planned_for() -> None:
    refusal = refused(wanted(9, within="block"), hall(2), run("a", "r1:1 2"))
    assert refusal.reason == "`within: block` of `main`: only racks are freed by moves"
    assert not refusal.proven


def test_a_task_in_one_block_gets_room_in_the_cheapest() -> None:
    """Block b2 has more room, but two runs would have to move there."""
    runs = (run("a", "r1:1"), run("b", "r3:1"), run("c", "r4:1"), run("d", "r5:1 2 3", movable=False))
    found = plan(wanted(4, 2, all_within="block"), hall(5), *runs)
    assert moves(found)[0].startswith("a r1->")
    assert {one.rack for one in found.placement.slices} == {"r1", "r2"}
    assert found.proven


def test_rules_between_slices_of_the_task_are_checked_in_the_end() -> None:
    """Two slices of 2 in different blocks: both would have room in the one rack that is freed."""
    runs = (run("a", "r1:1"), run("b", "r3:1 2 3", movable=False), run("c", "r4:1 2 3", movable=False))
    refusal = refused(wanted(2, 2, spread="block"), hall(4), *runs, r2="1 2 3")
    assert refusal.reason == "rules between slices of the task"
    assert not refusal.proven


def test_a_fleet_that_is_too_small_has_no_plan() -> None:
    assert refused(wanted(4, 3), hall(2), run("a", "r1:1 2")).proven


def test_slices_with_room_now_and_after_moves() -> None:
    runs = (run("a", "r1:1 2"), run("b", "r2:1 2"), run("c", "r3:1 2"), run("d", "r4:1 2"))
    assert slices_with_room(hall(4), used(runs), runs, wanted(4)) == (0, 2)
    assert slices_with_room(hall(4), used(runs), runs, wanted(2)) == (4, 4)
