"""Plans of moves for drawn runs in drawn halls: no node is given twice at any point, and rules of runs hold."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Slice, Unavailable, UnavailableNodes
from launcher.core.model.run import RunName
from launcher.core.model.task import Group, RecoveryPolicy, RestartWith, Task, TopologyRule
from launcher.core.planner.defragment import MovePlan, after, defragment
from launcher.core.planner.relocation import PlacedTask
from launcher.core.queue.timeline import fit
from tests.effort import drawn

Hall = tuple[Inventory, UnavailableNodes, Sequence[PlacedTask]]


def drawn_hall(random: Random) -> Hall:
    """4 to 6 racks of 4 to 6 nodes in two blocks, with runs that the placer put there, some of which have ended."""
    trays = random.randint(4, 6)
    nodes = tuple(
        Node(
            name=NodeName(f"r{rack}-n{tray}"),
            rack=RackName(f"r{rack}"),
            domain=f"d{rack}",
            access=Access(address="10.0.0.1"),
            accelerator="GB200" if tray == 0 and random.random() < 0.2 else "GB300",
            places={"block": f"b{rack % 2}"},
        )
        for rack in range(random.randint(4, 6))
        for tray in range(trays)
    )
    inventory = Inventory(name="hall", transport=Transport.SIM, nodes=nodes, levels=("block", "rack"))
    unavailable: dict[NodeName, Unavailable] = {}
    runs: list[PlacedTask] = []
    for number in range(20):
        task = drawn_task(random, f"run-{number}")
        found = fit(task, inventory, unavailable)
        if found is not None:
            unavailable.update(dict.fromkeys((*found.nodes, *found.exclusive_nodes), Unavailable(used_by=task.name)))
            movable = random.random() < 0.9
            runs.append(PlacedTask(name=RunName(task.name), task=task, placement=found, movable=movable))
    stay = [run for run in runs if random.random() < 0.6]
    kept = {run.name for run in stay}
    unavailable = {node: mark for node, mark in unavailable.items() if mark.used_by in kept}
    for node in nodes:
        if random.random() < 0.02:
            unavailable[node.name] = replace(unavailable.get(node.name, Unavailable()), unhealthy="lost a GPU")
    return inventory, unavailable, stay


def drawn_task(random: Random, name: str) -> Task:
    """A task of one or two groups, with any rules about places."""
    rule = TopologyRule(
        slices=random.choice((1, 1, 2, 3)),
        nodes_per_slice=random.randint(1, 3),
        spares=random.choice((0, 0, 0, 1)),
        spares_per_rack=random.choice((0, 0, 0, 0, 0, 0, 0, 1)),
        spread=random.choice((None, None, None, "rack")),
        all_within=random.choice((None, None, None, "block")),
        exclusive=random.choice((None,) * 15 + ("rack",)),
    )
    policy = RecoveryPolicy(restart_with=random.choice(tuple(RestartWith)))
    kind = random.choice((None, None, "GB300"))
    groups = [Group(name="main", topology=rule, gpus=4, accelerator=kind, run="true", recovery=policy)]
    second = random.choice((None, None, None, None, "near", "apart", "on"))
    if second == "on":
        guest = TopologyRule(slices=rule.slices, nodes_per_slice=rule.nodes_per_slice, nodes_of="main")
        groups.append(Group(name="side", topology=guest, run="true"))
    elif second is not None:
        beside = TopologyRule(near="main") if second == "near" else TopologyRule(apart_from="main")
        groups.append(Group(name="side", topology=beside, run="true", recovery=policy))
    return Task(name=name, groups=tuple(groups))


def obeys(run: PlacedTask, inventory: Inventory, slices: Sequence[Slice]) -> None:
    """Check the rules that the run's own slices have to obey among each other, and in themselves."""
    nodes = {node.name: node for node in inventory.nodes}
    own = {group.name: group for group in run.task.groups if group.topology.nodes_of is None}

    def spots(group: str, level: str) -> list[set[str | None]]:
        return [{nodes[name].at(level) for name in one.nodes} for one in slices if one.group == group]

    for one in slices:
        group = own[one.group]
        every = [nodes[name] for name in (*one.nodes, *one.spares)]
        assert len(one.nodes) == group.topology.nodes_per_slice
        assert {(node.rack, node.domain) for node in every} == {(one.rack, one.domain)}
        assert group.accelerator is None or {node.accelerator for node in every} == {group.accelerator}
    for name, group in own.items():
        if group.topology.spread is not None:
            places = [place for found in spots(name, group.topology.spread) for place in found]
            assert len(set(places)) == len(places)
        if group.topology.all_within is not None:
            assert len({place for found in spots(name, group.topology.all_within) for place in found}) <= 1
        if group.topology.near is not None:
            there = set().union(*spots(group.topology.near, "rack"))
            assert all(found & there for found in spots(name, "rack"))
        if group.topology.apart_from is not None:
            assert not set().union(*spots(name, "rack")) & set().union(*spots(group.topology.apart_from, "rack"))


@drawn(80)
@given(st.integers(0, 2**32))
def test_every_step_of_a_plan_keeps_every_run_whole(seed: int) -> None:
    random = Random(seed)
    inventory, unavailable, runs = drawn_hall(random)
    free = Counter(node.rack for node in inventory.nodes if node.name not in unavailable)
    rule = TopologyRule(
        slices=random.randint(1, 2),
        nodes_per_slice=max(free.values(), default=0) + random.randint(0, 1) or 1,
        all_within=random.choice((None, None, "block")),
    )
    wanted = Task(name="wanted", groups=(Group(name="main", topology=rule, gpus=4, run="true"),))
    plan = defragment(wanted, inventory, unavailable, runs)
    assert plan == defragment(wanted, replace(inventory, nodes=inventory.nodes[::-1]), unavailable, runs[::-1])
    if not isinstance(plan, MovePlan):
        return
    now: dict[RunName, dict[str, Slice]] = {run.name: {one.key: one for one in run.own_slices()} for run in runs}
    by_name = {run.name: run for run in runs}
    assert len({step.gang for step in plan.steps}) == len(plan.steps)
    for at, step in enumerate(plan.steps):
        before = after(unavailable, plan.steps[:at])
        for move in step.moves:
            assert by_name[move.run].movable
            assert not before.keys() & {*move.new.nodes, *move.new.spares}
            assert now[move.run][move.old.key] == move.old
            now[move.run][move.new.key] = move.new
        held = [name for parts in now.values() for one in parts.values() for name in (*one.nodes, *one.spares)]
        assert len(held) - len(set(held)) == _shared(runs)
        assert set(held) <= after(unavailable, plan.steps[: at + 1]).keys()
        for run in runs:
            obeys(run, inventory, list(now[run.name].values()))
    left = after(unavailable, plan.steps)
    assert not left.keys() & set(plan.placement.nodes)
    assert {name for name, mark in left.items() if mark.unhealthy} == {
        name for name, mark in unavailable.items() if mark.unhealthy
    }


def _shared(runs: Sequence[PlacedTask]) -> int:
    """Return how often nodes are listed twice from the start: spares that several slices of a rack share."""
    held = [name for run in runs for one in run.own_slices() for name in (*one.nodes, *one.spares)]
    return len(held) - len(set(held))
