"""How Ray is started."""

from dataclasses import replace

import pytest

from launcher.core.model.inventory import Access, GpuDriver, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Slice
from launcher.core.model.run import MemberName, Run, RunId, RunName, Slot
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.setup import environ, layout, ports, ray

NODES = tuple(
    Node(
        name=NodeName(f"r1-n{at}"),
        rack=RackName("r1"),
        access=Access(address=f"10.0.1.{at}"),
        domain="6f1c.32766",
        places={"block": "b1"},
        gpu_driver=GpuDriver.NVIDIA,
        env={"NCCL_IB_HCA": "mlx5", "STEPS": "1"},
    )
    for at in (1, 2)
)


def make_run(*, within: str = "rack", gpus: int = 4) -> Run:
    names = tuple(node.name for node in NODES)
    part = Slice(group="main", index=0, place="r1", rack=RackName("r1"), domain="6f1c.32766", nodes=names)
    rule = TopologyRule(slices=1, nodes_per_slice=2, within=within)
    group = Group(name="main", topology=rule, gpus=gpus, run="true", envs={"STEPS": "7"})
    fleet = Inventory(name="hall", transport=Transport.SSH, nodes=NODES, levels=("block", "rack"))
    task = Task(name="job", groups=(group,))
    return Run(id=RunId("id1"), name=RunName("job"), task=task, placement=Placement(slices=(part,)), fleet=fleet)


SLOTS = tuple(Slot(member=MemberName(f"main/{at}"), node=node.name, generation=3) for at, node in enumerate(NODES))


def test_a_raylet_carries_its_levels_its_domain_its_slot_and_its_generation() -> None:
    run = make_run()
    assert ray.labels(run, SLOTS[1], list(run.members())[1]) == {
        "nvlaunch.io/block": "b1",
        "nvlaunch.io/rack": "r1",
        "ray.io/gpu-domain": "6f1c.32766",
        "nvlaunch.io/slot": "main-1",
        "nvlaunch.io/generation": "3",
    }


@pytest.mark.parametrize(
    ("level", "label"),
    [("rack", "ray.io/gpu-domain"), ("block", "nvlaunch.io/block"), ("any", None), ("node", None)],
)
def test_a_slice_is_packed_on_the_label_of_its_level(level: str, label: str | None) -> None:
    run = make_run(within=level)
    assert ray.within(run, run.placement.slices[0]) == ({label: "STRICT_PACK"} if label else {})


def test_nothing_is_placed_on_a_head_and_every_port_is_pinned() -> None:
    of = ports.heads().ports(7680)
    at = ray.At(address="10.0.1.1", ports=of, temp_dir="/tmp/nvl-1/ray", shared=False)
    argv = ray.head_argv(at)
    assert {"--num-cpus=0", "--num-gpus=0", "--port=7680", "--node-ip-address=10.0.1.1"} <= set(argv)
    pinned = {int(one.partition("=")[2]) for one in argv if "port" in one.partition("=")[0]}
    assert {
        of.gcs,
        of.dashboard,
        of.node_manager,
        of.object_manager,
        of.metrics,
        of.agent_http,
        of.agent_grpc,
    } <= pinned
    assert all(of.gcs <= port < of.gcs + ports.NARROW for port in pinned)


def test_every_process_of_ray_is_told_how_to_authenticate_and_only_the_head_has_storage() -> None:
    head, slot = ray.environment(head=True), ray.environment(head=False)
    assert head["RAY_AUTH_MODE"] == slot["RAY_AUTH_MODE"] == "token"
    assert {name for name in head if name not in slot} == {"RAY_gcs_storage", "RAY_gcs_storage_path"}
    # Equal on both sides, or the server takes a client's keepalive for an attack.
    assert all(head[name] == slot[name] for name in slot)


def test_the_path_of_a_socket_of_ray_stays_below_the_limit_of_the_kernel() -> None:
    lay = layout.remote(RunId("a-run-with-a-very-long-name-" * 4), "node-with-a-long-name" * 3)
    session = "session_2026-11-29_22-00-12_771799_4194304"
    assert len(f"{lay.ray}/{session}/sockets/plasma_store.1") < 107
    assert len(lay.socket) < 107


def test_units_of_a_run_and_runs_on_a_node_have_folders_of_their_own() -> None:
    found = {layout.remote(RunId(run), where).scratch for run in ("a", "b") for where in ("n1", "n2", "@head")}
    assert len(found) == 6


def test_a_rank_has_its_own_and_skypilots_variables() -> None:
    run = make_run()
    member = list(run.members())[1]
    of = environ.rank(run, member, SLOTS, attempt=4, restarts=2, master_port=7001)
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
    of = environ.rank(run, next(run.members()), swapped, attempt=2, restarts=0, master_port=7001)
    assert of["NVLAUNCH_NODE_IPS"] == "10.0.1.2\n10.0.1.1"
    assert of["MASTER_ADDR"] == "10.0.1.2"


def test_the_id_for_checkpoints_stays_over_restarts() -> None:
    run = make_run()
    member = next(run.members())
    ids = {
        environ.rank(run, member, SLOTS, attempt=attempt, restarts=attempt, master_port=1)["NVLAUNCH_TASK_ID"]
        for attempt in range(3)
    }
    assert len(ids) == 1
    assert ids == {environ.setup(run, NODES[0], member)["SKYPILOT_TASK_ID"]}


def test_only_a_part_of_a_node_is_named_to_cuda() -> None:
    run = make_run(gpus=2)
    of = environ.rank(run, next(run.members()), SLOTS, attempt=1, restarts=0, master_port=1)
    assert of["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_the_task_goes_before_the_inventory() -> None:
    run = make_run()
    assert environ.given(run, NODES[0], next(run.members())) == {"NCCL_IB_HCA": "mlx5", "STEPS": "7"}
