"""What programs of a run see: their own variables, those of inventory and task, and the addresses of the others."""

import json
from dataclasses import replace

import pytest

from launcher.core.control.resized_record import first_slots
from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Slice
from launcher.core.model.run import Member, MemberName, Run, RunId, RunName, Slot
from launcher.core.model.run_index import index_of
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place
from launcher.runtime import protocol_files
from launcher.setup.environ import RunEnvironment, long_lists
from tests.unit.setup.colocated import make_colocated

NODES = tuple(
    Node(
        name=NodeName(f"r1-n{at}"),
        rack=RackName("r1"),
        access=Access(address=f"10.0.1.{at}"),
        domain="6f1c.32766",
        env={"NCCL_IB_HCA": "mlx5", "STEPS": "1"},
    )
    for at in (1, 2)
)

SLOTS = tuple(Slot(member=MemberName(f"main/{at}"), node=node.name, generation=3) for at, node in enumerate(NODES))


def make_run(*, gpus: int = 4) -> Run:
    names = tuple(node.name for node in NODES)
    part = Slice(group="main", index=0, place="r1", rack=RackName("r1"), domain="6f1c.32766", nodes=names)
    rule = TopologyRule(slices=1, nodes_per_slice=2)
    group = Group(name="main", topology=rule, gpus=gpus, run="true", envs={"STEPS": "7"})
    fleet = Inventory(name="hall", transport=Transport.SSH, nodes=NODES)
    task = Task(name="job", groups=(group,))
    return Run(id=RunId("id1"), name=RunName("job"), task=task, placement=Placement(slices=(part,)), fleet=fleet)


def rank(
    run: Run, member: Member, slots: tuple[Slot, ...], *, attempt: int = 1, restarts: int = 0, master_port: int = 1
) -> dict[str, str]:
    """Return the variables of a rank, whole."""
    environment = RunEnvironment(run)
    shared = environment.shared(slots)
    node = index_of(run).nodes[next(slot.node for slot in slots if slot.member == member.name)]
    return shared.whole(
        environment.rank(shared, node, member, attempt=attempt, restarts=restarts, master_port=master_port)
    )


def test_a_rank_has_its_own_and_skypilots_variables() -> None:
    run = make_run()
    member = list(run.members())[1]
    of = rank(run, member, SLOTS, attempt=4, restarts=2, master_port=7001)
    assert of["NVLAUNCH_NODE_RANK"] == of["SKYPILOT_NODE_RANK"] == of["NODE_RANK"] == "1"
    assert of["NVLAUNCH_NUM_NODES"] == of["SKYPILOT_NUM_NODES"] == of["NNODES"] == "2"
    assert of["NVLAUNCH_NODE_IPS"] == of["SKYPILOT_NODE_IPS"] == "10.0.1.1\n10.0.1.2"
    assert of["NVLAUNCH_NUM_GPUS_PER_NODE"] == of["SKYPILOT_NUM_GPUS_PER_NODE"] == "4"
    assert (of["MASTER_ADDR"], of["MASTER_PORT"]) == ("10.0.1.1", "7001")
    assert (of["NVLAUNCH_ATTEMPT"], of["NVLAUNCH_RESTARTS"]) == ("4", "2")
    assert "CUDA_VISIBLE_DEVICES" not in of


def test_addresses_follow_a_slot_to_its_new_holder() -> None:
    run = make_run()
    swapped = (replace(SLOTS[0], node=NODES[1].name), replace(SLOTS[1], node=NODES[0].name))
    of = rank(run, next(run.members()), swapped, attempt=2, restarts=0, master_port=7001)
    assert of["NVLAUNCH_NODE_IPS"] == "10.0.1.2\n10.0.1.1"
    assert of["MASTER_ADDR"] == "10.0.1.2"


def test_the_id_for_checkpoints_stays_over_restarts() -> None:
    run = make_run()
    member = next(run.members())
    ids = {
        rank(run, member, SLOTS, attempt=attempt, restarts=attempt, master_port=1)["NVLAUNCH_TASK_ID"]
        for attempt in range(3)
    }
    assert len(ids) == 1
    environment = RunEnvironment(run)
    assert ids == {environment.at_first.whole(environment.setup(NODES[0], member))["SKYPILOT_TASK_ID"]}


def test_only_a_part_of_a_node_is_named_to_cuda() -> None:
    run = make_run(gpus=2)
    of = rank(run, next(run.members()), SLOTS)
    assert of["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_the_task_goes_before_the_inventory() -> None:
    run = make_run()
    environment = RunEnvironment(run)
    setup = environment.setup(NODES[0], next(run.members()))
    assert protocol_files.given(environment.at_first.document, setup) == {"NCCL_IB_HCA": "mlx5", "STEPS": "7"}


def variables(run: Run, name: str) -> dict[str, str]:
    return rank(run, index_of(run).by_name[MemberName(name)], tuple(first_slots(run).values()))


def test_no_gpu_is_shown_to_two_members_of_a_node_and_none_to_who_asks_for_none() -> None:
    run = make_colocated()
    assert variables(run, "prefill/1")["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert variables(run, "decode/1")["CUDA_VISIBLE_DEVICES"] == "2"
    assert variables(run, "router/0")["CUDA_VISIBLE_DEVICES"] == ""


def test_ranks_and_addresses_are_those_of_the_group_and_not_of_the_node() -> None:
    run = make_colocated()
    found = variables(run, "decode/1")
    assert (found["NODE_RANK"], found["NNODES"], found["NVLAUNCH_NODE_IPS"]) == ("1", "2", "10.0.0.1\n10.0.0.2")
    assert found["NVLAUNCH_GROUP_ROUTER_IPS"] == "10.0.0.1"


def test_a_rank_beside_others_sees_all_of_this_and_nothing_else() -> None:
    assert variables(make_colocated(), "decode/1") == {
        "A": "it's $HOME",
        "CUDA_VISIBLE_DEVICES": "2",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "1",
        "NNODES": "2",
        "NODE_RANK": "1",
        "NVLAUNCH_ATTEMPT": "1",
        "NVLAUNCH_DOMAIN": "r1",
        "NVLAUNCH_GROUP": "decode",
        "NVLAUNCH_GROUP_PREFILL_IPS": "10.0.0.1\n10.0.0.2",
        "NVLAUNCH_GROUP_ROUTER_IPS": "10.0.0.1",
        "NVLAUNCH_NODE_IPS": "10.0.0.1\n10.0.0.2",
        "NVLAUNCH_NODE_RANK": "1",
        "NVLAUNCH_NUM_GPUS_PER_NODE": "1",
        "NVLAUNCH_NUM_NODES": "2",
        "NVLAUNCH_NUM_SLICES": "1",
        "NVLAUNCH_RACK": "r1",
        "NVLAUNCH_RESTARTS": "0",
        "NVLAUNCH_RUN": "job",
        "NVLAUNCH_SLICE": "0",
        "NVLAUNCH_SLICE_RANK": "1",
        "NVLAUNCH_TASK_ID": "nvlaunch-id1",
        "PET_MASTER_ADDR": "10.0.0.1",
        "PET_MASTER_PORT": "1",
        "PET_NNODES": "2",
        "PET_NODE_RANK": "1",
        "PET_NPROC_PER_NODE": "1",
        "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2",
        "SKYPILOT_NODE_RANK": "1",
        "SKYPILOT_NUM_GPUS_PER_NODE": "1",
        "SKYPILOT_NUM_NODES": "2",
        "SKYPILOT_TASK_ID": "nvlaunch-id1",
    }


def test_options_of_torchrun_that_the_task_sets_stay_and_a_rank_without_gpus_is_one_process() -> None:
    run = make_run(gpus=0)
    (group,) = run.task.groups
    chosen = replace(group, envs={"PET_NNODES": "1", "MASTER_PORT": "5"})
    run = replace(run, task=replace(run.task, groups=(chosen,)))
    of = rank(run, next(run.members()), SLOTS, master_port=7001)
    assert (of["PET_NNODES"], of["PET_NPROC_PER_NODE"], of["PET_MASTER_PORT"]) == ("1", "1", "7001")
    assert of["NNODES"] == "2"


def test_a_setup_sees_all_of_this_and_nothing_else() -> None:
    environment = RunEnvironment(make_run())
    assert environment.at_first.whole(environment.setup(NODES[1], list(make_run().members())[1])) == {
        "NCCL_IB_HCA": "mlx5",
        "STEPS": "7",
        "NVLAUNCH_DOMAIN": "6f1c.32766",
        "NVLAUNCH_GROUP": "main",
        "NVLAUNCH_RACK": "r1",
        "NVLAUNCH_RUN": "job",
        "NVLAUNCH_TASK_ID": "nvlaunch-id1",
        "SKYPILOT_NUM_NODES": "2",
        "SKYPILOT_SETUP_NODE_IPS": "10.0.1.1\n10.0.1.2",
        "SKYPILOT_SETUP_NODE_RANK": "1",
        "SKYPILOT_SETUP_NUM_GPUS_PER_NODE": "4",
        "SKYPILOT_TASK_ID": "nvlaunch-id1",
    }


def test_what_ranks_share_is_made_again_only_for_other_holders() -> None:
    environment = RunEnvironment(make_run())
    assert environment.shared(SLOTS) is environment.at_first
    assert environment.shared(tuple(replace(slot, generation=9) for slot in SLOTS)) is environment.at_first
    swapped = (replace(SLOTS[0], node=NODES[1].name), replace(SLOTS[1], node=NODES[0].name))
    assert environment.shared(swapped).name != environment.at_first.name


@pytest.mark.parametrize(("reserve", "group"), [(False, None), (True, "main.s1")])
def test_a_driver_is_told_its_slices_with_nodes_and_labels(reserve: bool, group: str | None) -> None:
    nodes = tuple(
        Node(
            name=NodeName(f"{rack}-n{at}"),
            rack=RackName(rack),
            access=Access(address=f"10.0.{rack[1:]}.{at}"),
            domain=f"d-{rack}",
        )
        for rack in ("r1", "r2")
        for at in (1, 2, 3)
    )
    fleet = Inventory(name="hall", transport=Transport.SSH, nodes=nodes)
    rule = TopologyRule(slices=2, nodes_per_slice=2)
    task = Task(name="t", groups=(Group(name="main", topology=rule, gpus=4, driver="python a.py", reserve=reserve),))
    placement = place(task, fleet, {})
    assert isinstance(placement, Placement)
    run = Run(id=RunId("id"), name=RunName("t"), task=task, placement=placement, fleet=fleet)
    holders = zip(run.members(), placement.nodes, strict=True)
    slots = tuple(Slot(member=member.name, node=node, generation=1) for member, node in holders)
    first, second = json.loads(RunEnvironment(run).slices(slots))
    assert [node["name"] for node in first["nodes"] + second["nodes"]] == list(placement.nodes)
    assert second["placement_group"] == group
    rack = second["rack"]
    assert (second["group"], second["slice"], second["domain"]) == ("main", 1, f"d-{rack}")
    assert second["labels"]["ray.io/gpu-domain"] == f"d-{rack}"
    assert second["nodes"][0]["labels"]["nvlaunch.io/slot"] == "main-2"
    assert (second["nodes"][0]["rank"], second["nodes"][0]["gpus"]) == (2, 4)
    assert second["nodes"][0]["address"].startswith(f"10.0.{rack[1:]}.")


@pytest.mark.parametrize(
    ("nodes", "script", "named"),
    [
        (8_200, "head -n 1 <<<$SKYPILOT_NODE_IPS", True),
        (8_200, "cat $NVLAUNCH_NODE_IPS_FILE", False),
        (7_000, "echo $NVLAUNCH_NODE_IPS", False),
    ],
)
def test_a_script_that_reads_a_list_too_long_for_a_variable_is_named(nodes: int, script: str, named: bool) -> None:
    access = Access(address="10.100.100.100")
    fleet = Inventory(
        name="hall",
        transport=Transport.SSH,
        nodes=tuple(replace(NODES[0], name=NodeName(f"n{at}"), access=access) for at in range(nodes)),
    )
    group = Group(name="main", topology=TopologyRule(slices=nodes, nodes_per_slice=1), run=script)
    assert long_lists(Task(name="job", groups=(group,)), fleet) == ((("main", "run"),) if named else ())
