"""Laws of colocated groups, checked on fleets small enough to try every choice."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Shortfall, Slice, Unavailable, UnavailableNodes
from launcher.core.model.run import Run, RunId, RunName
from launcher.core.model.run_index import index_of
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.colocation import colocate, first_gpu, max_colocated_slices, with_colocated_slices
from launcher.core.placement.place import place
from launcher.core.placement.replacement import replace_slice
from tests.effort import drawn
from tests.property.every_way import EveryWay
from tests.property.test_place_rules import groups, marked, tasks

LAWS = drawn(16)


@st.composite
def guests(draw: st.DrawFn, host: Group, name: str) -> Group:
    """A group on the nodes of another, which it may leave half empty."""
    size = draw(st.integers(1, host.topology.nodes_per_slice))
    rule = TopologyRule(nodes_per_slice=size, within=host.topology.within, nodes_of=host.name)
    slices = draw(st.integers(1, max_colocated_slices(rule, host.topology)))
    kind = draw(st.sampled_from([None, None, host.accelerator]))
    return Group(
        name=name, topology=replace(rule, slices=slices), gpus=draw(st.sampled_from([0, 1, 2])), accelerator=kind
    )


@st.composite
def shared(draw: st.DrawFn, *own: Group) -> Task:
    """A task with one or two guests on nodes of the first of these groups, in any order."""
    more = [draw(guests(own[0], name)) for name in ("x", "y")[: draw(st.integers(1, 2))]]
    return Task(name="t", groups=tuple(draw(st.permutations((*own, *more)))))


def alone(task: Task) -> Task:
    """The same said without guests: a host asks of each of its nodes what all that may sit there need together."""
    found = []
    for group in task.groups:
        if group.topology.nodes_of is None:
            more = [one for one in task.groups if one.topology.nodes_of == group.name]
            found.append(replace(group, gpus=group.gpus + sum(one.gpus for one in more)))
    return Task(name=task.name, groups=tuple(found))


def check(task: Task, inventory: Inventory, unavailable: UnavailableNodes, placed: Placement) -> None:
    """Assert that hosts are where they may be, and every guest on their nodes: one member a node, no GPU twice."""
    own = {group.name for group in task.groups if group.topology.nodes_of is None}
    rows = tuple(part for part in placed.slices if part.group in own)
    EveryWay(alone(task), inventory, unavailable).check(Placement(slices=rows))
    known = {node.name: node for node in inventory.nodes}
    used: dict[tuple[NodeName, int], str] = {}
    for group in task.groups:
        parts = [part for part in placed.slices if part.group == group.name]
        assert [part.index for part in parts] == list(range(group.topology.slices))
        names = [name for part in parts for name in part.nodes]
        assert len(names) == len(set(names)) == group.topology.nodes
        for name in names:
            for gpu in range(first_gpu(task, group), first_gpu(task, group) + group.gpus):
                assert gpu < known[name].gpus
                assert used.setdefault((name, gpu), group.name) == group.name, "one GPU is given twice"
        for part in parts if group.name not in own else ():
            hosts = [one for one in rows if one.group == group.topology.nodes_of and {*part.nodes} <= {*one.nodes}]
            assert len(hosts) == 1
            assert (part.rack, part.domain, part.spares) == (hosts[0].rack, hosts[0].domain, ())
            assert [name for name in hosts[0].nodes if name in part.nodes] == list(part.nodes), "ranks are out of order"


@LAWS
@given(st.data())
def test_one_host_with_guests_is_refused_only_where_no_choice_exists(data: st.DataObject) -> None:
    inventory, unavailable = data.draw(marked(9))
    task = data.draw(shared(data.draw(groups("main"))))
    found = place(task, inventory, unavailable)
    assert isinstance(found, Placement) == EveryWay(alone(task), inventory, unavailable).exists()
    if isinstance(found, Placement):
        check(task, inventory, unavailable, found)
        assert len(found.reasons) == len(found.slices)
    else:
        assert found.proven


@LAWS
@given(st.data())
def test_several_hosts_keep_their_rules_and_no_order_changes_the_answer(data: st.DataObject) -> None:
    inventory, unavailable = data.draw(marked(8))
    task = data.draw(shared(*data.draw(tasks()).groups))
    shuffled = replace(inventory, nodes=tuple(data.draw(st.permutations(inventory.nodes))))
    found, again = place(task, inventory, unavailable), place(task, shuffled, unavailable)
    assert found == again
    if isinstance(found, Placement):
        check(task, inventory, unavailable, found)
    else:
        assert found.proven
        assert not EveryWay(alone(task), inventory, unavailable).exists()


@LAWS
@given(st.data())
def test_a_host_that_is_placed_again_takes_its_guests_along(data: st.DataObject) -> None:
    inventory, unavailable = data.draw(marked(10))
    task = data.draw(shared(data.draw(groups("main"))))
    before = place(task, inventory, unavailable)
    assume(isinstance(before, Placement))
    assert isinstance(before, Placement)
    part = data.draw(st.sampled_from([part for part in before.slices if part.group == "main"]))
    after = replace_slice(
        task, inventory, {**unavailable, part.nodes[0]: Unavailable(unhealthy="failed")}, before, part
    )
    if isinstance(after, Shortfall):
        return
    slices = with_colocated_slices(task, [after if one.key == part.key else one for one in before.slices])
    check(task, inventory, unavailable, Placement(slices=slices))
    assert _slots(task, inventory, slices) == _slots(task, inventory, before.slices), "somebody else sits beside it"


def _slots(task: Task, inventory: Inventory, slices: tuple[Slice, ...]) -> dict[str, str | None]:
    """Who sits beside whom, as the members say and as their nodes do."""
    run = Run(id=RunId("t-1"), name=RunName("t"), task=task, placement=Placement(slices=slices), fleet=inventory)
    at = {member.name: index_of(run).slices[member.slice_key].nodes[member.slice_rank] for member in run.members()}
    for member in run.members():
        assert member.colocated_with is None or at[member.name] == at[member.colocated_with]
    return {member.name: member.colocated_with for member in run.members()}


@LAWS
@given(st.data())
def test_a_refusal_that_names_a_host_is_right(data: st.DataObject) -> None:
    inventory, unavailable = data.draw(marked(6))
    sizes = st.builds(TopologyRule, slices=st.integers(1, 2), nodes_per_slice=st.integers(1, 3))
    own = [Group(name=name, topology=data.draw(sizes), gpus=data.draw(st.integers(0, 3))) for name in ("a", "b")]
    task = Task(name="t", groups=tuple(own))
    found = place(task, inventory, unavailable)
    assume(isinstance(found, Shortfall))
    assert isinstance(found, Shortfall)
    other = next(group for group in own if group.name != found.group)
    changed = colocate(task, found.group, other)
    named = f"set `nodes_of: {other.name}` for `{found.group}`" in found.suggestions
    fits = (
        max_colocated_slices(task.group(found.group).topology, other.topology)
        >= task.group(found.group).topology.slices
    )
    assert named == (fits and isinstance(place(changed, inventory, unavailable), Placement))
