"""Nodes on which several groups have a member."""

from dataclasses import replace

from launcher.core.control.resized_record import first_slots
from launcher.core.model.inventory import Node
from launcher.core.model.run import MemberName, Run
from launcher.core.model.run_index import RunIndex, index_of
from launcher.core.model.task import RecoveryPolicy, RestartWith
from launcher.runtime import gpus
from launcher.setup import ports, ray
from launcher.setup.gpus import of_member
from tests.unit.setup.colocated import make_colocated


def test_one_raylet_serves_all_on_its_node_under_the_name_of_who_has_it() -> None:
    run = make_colocated()
    index, slots = index_of(run), first_slots(run)
    for member in index.members:
        slot = slots[member.name]
        labels = ray.labels(run.fleet.levels, index.nodes[slot.node], slot, member)
        assert labels[ray.SLOT] == f"prefill-{member.rank}"


def test_groups_on_one_node_meet_at_ports_of_their_own_and_not_at_those_of_the_attempt_before() -> None:
    block = ports.narrow().ports(ports.FIRST)
    for lanes in (2, 3, 5):
        for attempt in range(1, 12):
            met = [block.master_ports(attempt, lane, lanes)[0] for lane in range(lanes)]
            assert len(set(met)) == lanes
            assert set(met) <= set(range(block.master[0], block.master[1] + 1))
    two = [{block.master_ports(attempt, lane, 2)[0] for lane in range(2)} for attempt in (1, 2)]
    assert not two[0] & two[1]


def to_be_free(run: Run, node: Node, name: MemberName) -> range:
    return of_member(run, RunIndex(run), node, name)


def test_gpus_have_to_be_free_of_others_only_where_a_member_starts_again_alone() -> None:
    run = make_colocated()
    node, decode = run.fleet.nodes[0], MemberName("decode/0")
    assert to_be_free(run, node, decode) == range(4)
    apart = RecoveryPolicy(restart_with=RestartWith.GROUP)
    groups = tuple(replace(group, recovery=apart) for group in run.task.groups)
    run = replace(run, task=replace(run.task, groups=groups))
    assert to_be_free(run, node, decode) == range(2, 3)
    assert not to_be_free(run, node, MemberName("router/0"))
    tray = "".join(f"{at}, GPU-{at}\n" for at in range(4))
    apps = "GPU-0, 999999998, prefill\nGPU-2, 999999999, stranger\n"
    assert gpus.computing(tray, apps, 3, first=2) == ["`stranger` (pid 999999999) computes on GPU 2"]
