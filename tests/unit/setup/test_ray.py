"""How Ray is started."""

import pytest

from launcher.core.model.inventory import Access, GpuDriver, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Slice
from launcher.core.model.run import MemberName, Run, RunId, RunName, Slot
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.setup import layout, ports, ray

NODES = tuple(
    Node(
        name=NodeName(f"r1-n{at}"),
        rack=RackName("r1"),
        access=Access(address=f"10.0.1.{at}"),
        domain="6f1c.32766",
        places={"block": "b1"},
        gpu_driver=GpuDriver.NVIDIA,
    )
    for at in (1, 2)
)


def make_run(within: str = "rack") -> Run:
    names = tuple(node.name for node in NODES)
    part = Slice(group="main", index=0, place="r1", rack=RackName("r1"), domain="6f1c.32766", nodes=names)
    rule = TopologyRule(slices=1, nodes_per_slice=2, within=within)
    group = Group(name="main", topology=rule, gpus=4, run="true")
    fleet = Inventory(name="hall", transport=Transport.SSH, nodes=NODES, levels=("block", "rack"))
    task = Task(name="job", groups=(group,))
    return Run(id=RunId("id1"), name=RunName("job"), task=task, placement=Placement(slices=(part,)), fleet=fleet)


SLOTS = tuple(Slot(member=MemberName(f"main/{at}"), node=node.name, generation=3) for at, node in enumerate(NODES))


def test_a_raylet_carries_its_levels_its_domain_its_slot_and_its_generation() -> None:
    run = make_run()
    assert ray.labels(run.fleet.levels, NODES[1], SLOTS[1], list(run.members())[1]) == {
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
    assert "--include-dashboard=false" in argv
    assert {"--include-dashboard=true", "--dashboard-host=127.0.0.1"} <= set(ray.head_argv(at, dashboard=True))
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
    head, slot = (ray.environment(head=one, tls=False) for one in (True, False))
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
