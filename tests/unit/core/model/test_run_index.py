"""A run, looked up by name."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Slice
from launcher.core.model.run import MemberName, Run, RunId, RunName, Wanted
from launcher.core.model.run_index import RunIndex, index_of
from launcher.core.model.task import Group, RecoveryPolicy, RestartWith, Task, TopologyRule
from tests.situations import make_run, name
from tests.unit.core.control.kernel import DRIVER, driven

OWNER = Group(
    name="main",
    topology=TopologyRule(slices=2, nodes_per_slice=2, spares=1),
    recovery=RecoveryPolicy(node_attempts=5, restart_with=RestartWith.GROUP),
)
BESIDE = Group(
    name="beside",
    topology=TopologyRule(slices=2, nodes_per_slice=2, nodes_of="main"),
    recovery=RecoveryPolicy(node_attempts=1, restart_with=RestartWith.MEMBER),
)
SHARED = Group(name="shared", topology=TopologyRule(slices=2, nodes_per_slice=1, spares_per_rack=1))


def part(group: str, index: int, rack: int, nodes: Iterable[int], spares: Iterable[int] = ()) -> Slice:
    return Slice(
        group=group,
        index=index,
        place=f"r{rack}",
        rack=RackName(f"r{rack}"),
        domain=f"r{rack}",
        nodes=tuple(name(rack, at) for at in nodes),
        spares=tuple(name(rack, at) for at in spares),
    )


def run_of(task: Task, *slices: Slice) -> Run:
    names = {node: one.rack or RackName("") for one in slices for node in (*one.nodes, *one.spares)}
    nodes = tuple(Node(name=node, rack=rack, access=Access(address=node)) for node, rack in names.items())
    fleet = Inventory(name="fleet", transport=Transport.SIM, nodes=nodes)
    return Run(id=RunId("job-1"), name=RunName("job"), task=task, placement=Placement(slices=slices), fleet=fleet)


@pytest.fixture
def run() -> Run:
    """`main` in racks 1 and 2, `beside` on its nodes, two slices of `shared` in rack 3 with one spare."""
    return run_of(
        Task(name="job", groups=(OWNER, BESIDE, SHARED)),
        part("main", 0, 1, [1, 2], [3]),
        part("main", 1, 2, [1, 2], [3]),
        part("beside", 0, 1, [1, 2]),
        part("beside", 1, 2, [1, 2]),
        part("shared", 0, 3, [1], [3]),
        part("shared", 1, 3, [2]),
    )


@pytest.fixture
def index(run: Run) -> RunIndex:
    return index_of(run)


def names(members: Iterable[object]) -> list[str]:
    return [str(getattr(one, "name", one)) for one in members]


def test_members_are_found_by_slice_and_by_gang(index: RunIndex) -> None:
    assert names(index.by_slice["main.s1"]) == ["main/2", "main/3"]
    assert {gang: names(members) for gang, members in index.by_gang.items()} == {
        "main": ["main/0", "main/1", "main/2", "main/3"],
        "run": ["shared/0", "shared/1"],
        **{f"beside/{rank}": [f"beside/{rank}"] for rank in range(4)},
    }
    assert index.gangs[MemberName("beside/3")] == "beside/3"


def test_a_node_is_in_the_slice_of_the_group_that_owns_it(index: RunIndex) -> None:
    assert index.slice_of[name(1, 2)].key == "main.s0"
    assert index.slice_of[name(2, 3)].key == "main.s1", "a spare, too"
    assert index.slice_of[name(3, 2)].key == "shared.s1"


def test_nodes_are_found_by_rack_each_once(index: RunIndex) -> None:
    assert {rack: sorted(nodes) for rack, nodes in index.racks.items()} == {
        rack: [name(at, node) for node in (1, 2, 3)] for at, rack in enumerate(("r1", "r2", "r3"), start=1)
    }


def test_members_of_one_node_are_found_from_each_of_them_the_owner_first(index: RunIndex) -> None:
    owner, other = index.by_name[MemberName("main/2")], index.by_name[MemberName("beside/2")]
    assert names(index.colocated(owner)) == names(index.colocated(other)) == ["main/2", "beside/2"]
    assert index.node_owner(other) is index.node_owner(owner) is owner
    assert index.home(other).key == "main.s1", "the spares of its owner's slice can hold it"


def test_a_node_is_shared_where_gangs_on_it_differ(run: Run) -> None:
    def shares(changed: Run, member: str) -> bool:
        found = index_of(changed)
        return found.shares_node(found.by_name[MemberName(member)])

    together = tuple(replace(group, recovery=RecoveryPolicy()) for group in run.task.groups)
    assert (shares(run, "main/0"), shares(run, "beside/0"), shares(run, "shared/0")) == (True, True, False)
    assert not shares(replace(run, task=replace(run.task, groups=together)), "main/0")


def test_slices_of_one_rack_share_their_spares_and_others_do_not(index: RunIndex) -> None:
    assert [one.key for one in index.pool(index.slices["shared.s1"])] == ["shared.s0", "shared.s1"]
    assert [one.key for one in index.pool(index.slices["main.s0"])] == ["main.s0"]


def test_slices_of_another_rack_do_not_share_spares() -> None:
    found = index_of(
        run_of(Task(name="job", groups=(SHARED,)), part("shared", 0, 1, [1], [3]), part("shared", 1, 2, [1]))
    )
    assert [one.key for one in found.pool(found.slices["shared.s1"])] == ["shared.s1"]


def test_a_member_recovers_by_its_group_and_a_node_by_the_group_that_owns_it(index: RunIndex) -> None:
    assert index.policy(index.by_name[MemberName("beside/0")]) == BESIDE.recovery
    assert index.node_attempts(name(1, 3)) == OWNER.recovery.node_attempts
    assert index.node_attempts(NodeName("elsewhere")) == 0, "a node that the run gave back gets no second chance"


def test_the_driver_of_every_member_is_the_first_of_its_group() -> None:
    with_driver, without = index_of(driven().run), index_of(make_run())
    assert {driver.name for one in with_driver.members if (driver := with_driver.driver(one))} == {DRIVER}
    assert {without.driver(one) for one in without.members} == {None}


def test_a_run_that_only_ends_or_moves_its_head_keeps_its_index(run: Run, index: RunIndex) -> None:
    assert index_of(replace(run, wanted=Wanted.NOTHING, head_at=name(2, 1))) is index


def test_after_a_resize_members_and_slices_are_those_of_the_new_placement_and_former_nodes_stay_known(run: Run) -> None:
    before = index_of(run)
    groups = tuple(replace(one, topology=replace(one.topology, slices=1)) for one in run.task.groups)
    slices = tuple(one for one in run.placement.slices if one.index == 0)
    after = index_of(replace(run, task=replace(run.task, groups=groups), placement=Placement(slices=slices)))
    assert names(after.members) == ["main/0", "main/1", "beside/0", "beside/1", "shared/0"]
    assert after.slices.keys() == {"main.s0", "beside.s0", "shared.s0"}
    assert name(2, 1) in before.slice_of
    assert name(2, 1) not in after.slice_of
    assert after.racks.keys() == {"r1", "r3"}
    assert after.nodes[name(2, 1)].rack == "r2", "its lease is still to be released"
    assert after.node_attempts(name(2, 1)) == 0


def test_a_relocated_slice_is_found_by_its_new_nodes(run: Run) -> None:
    moved = tuple(part("shared", 1, 4, [7]) if one.key == "shared.s1" else one for one in run.placement.slices)
    nodes = (*run.fleet.nodes, Node(name=name(4, 7), rack=RackName("r4"), access=Access(address="a")))
    after = index_of(replace(run, placement=Placement(slices=moved), fleet=replace(run.fleet, nodes=nodes)))
    assert after.slice_of[name(4, 7)].key == "shared.s1"
    assert [one.key for one in after.pool(after.slices["shared.s1"])] == ["shared.s1"]
