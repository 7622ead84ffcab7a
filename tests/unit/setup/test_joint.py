"""What a node is told on which several groups have a member."""

import subprocess
from dataclasses import replace
from pathlib import Path

from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement
from launcher.core.model.run import Member, MemberName, Run, RunId, RunName, Slot
from launcher.core.model.task import Group, RecoveryPolicy, RestartWith, Task, TopologyRule
from launcher.core.placement.place import place
from launcher.runtime import gpus
from launcher.setup import environ, joint, ports, ray

GUEST = TopologyRule(nodes_per_slice=2, nodes_of="prefill")


def make_run(decode: int = 1) -> Run:
    groups = (
        Group(name="router", topology=replace(GUEST, nodes_per_slice=1), run="route"),
        Group(name="prefill", topology=TopologyRule(nodes_per_slice=2), gpus=2, run="prefill", setup="x"),
        Group(name="decode", topology=GUEST, gpus=decode, run="decode", setup="x", envs={"A": "it's $HOME"}),
    )
    nodes = tuple(
        Node(name=NodeName(f"n{at}"), rack=RackName("r1"), domain="r1", access=Access(address=f"10.0.0.{at}"))
        for at in (1, 2)
    )
    fleet = Inventory(name="hall", transport=Transport.SIM, nodes=nodes)
    task = Task(name="job", groups=groups)
    placement = place(task, fleet, {})
    assert isinstance(placement, Placement)
    return Run(id=RunId("id1"), name=RunName("job"), task=task, placement=placement, fleet=fleet)


def variables(run: Run, name: str) -> dict[str, str]:
    members = {member.name: member for member in run.members()}
    slots = tuple(
        Slot(member=member.name, node=run.slice_of(member).nodes[member.slice_rank]) for member in members.values()
    )
    return environ.rank(run, members[MemberName(name)], slots, attempt=1, restarts=0, master_port=1)


def test_no_gpu_is_shown_to_two_members_of_a_node_and_none_to_who_asks_for_none() -> None:
    run = make_run()
    assert variables(run, "prefill/1")["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert variables(run, "decode/1")["CUDA_VISIBLE_DEVICES"] == "2"
    assert variables(run, "router/0")["CUDA_VISIBLE_DEVICES"] == ""


def test_ranks_and_addresses_are_those_of_the_group_and_not_of_the_node() -> None:
    run = make_run()
    found = variables(run, "decode/1")
    assert (found["NODE_RANK"], found["NNODES"], found["NVLAUNCH_NODE_IPS"]) == ("1", "2", "10.0.0.1\n10.0.0.2")
    assert found["NVLAUNCH_GROUP_ROUTER_IPS"] == "10.0.0.1"


def test_one_raylet_serves_all_on_its_node_under_the_name_of_who_has_it() -> None:
    run = make_run()
    for member in run.members():
        slot = Slot(member=member.name, node=run.slice_of(member).nodes[member.slice_rank])
        assert ray.labels(run, slot, member)[ray.SLOT] == f"prefill-{member.rank}"


def test_groups_on_one_node_meet_at_ports_of_their_own_and_not_at_those_of_the_attempt_before() -> None:
    block = ports.narrow().ports(ports.FIRST)
    for lanes in (2, 3, 5):
        for attempt in range(1, 12):
            met = [block.master_port(attempt, lane, lanes) for lane in range(lanes)]
            assert len(set(met)) == lanes
            assert set(met) <= set(range(block.master[0], block.master[1] + 1))
    two = [{block.master_port(attempt, lane, 2) for lane in range(2)} for attempt in (1, 2)]
    assert not two[0] & two[1]


def test_gpus_have_to_be_free_of_others_only_where_a_member_starts_again_alone() -> None:
    run = make_run()
    node, decode = run.fleet.nodes[0], MemberName("decode/0")
    assert joint.gpus(run, node, decode) == range(4)
    apart = RecoveryPolicy(restart_with=RestartWith.GROUP)
    groups = tuple(replace(group, recovery=apart) for group in run.task.groups)
    run = replace(run, task=replace(run.task, groups=groups))
    assert joint.gpus(run, node, decode) == range(2, 3)
    assert not joint.gpus(run, node, MemberName("router/0"))
    tray = "".join(f"{at}, GPU-{at}\n" for at in range(4))
    apps = "GPU-0, 999999998, prefill\nGPU-2, 999999999, stranger\n"
    assert gpus.computing(tray, apps, 3, first=2) == ["`stranger` (pid 999999999) computes on GPU 2"]


def crew(run: Run) -> tuple[Member, ...]:
    return joint.crew(run, next(member for member in run.members() if member.name == "decode/0"))


def test_setups_run_one_after_the_other_each_with_its_own_variables(tmp_path: Path) -> None:
    run = make_run()
    members = crew(run)
    assert [member.name for member in members] == ["prefill/0", "router/0", "decode/0"]
    setups = {"prefill": "echo prefill ${A-none}", "decode": 'echo "$NVLAUNCH_GROUP $A"'}
    envs = {one.group: environ.setup(run, run.fleet.nodes[0], one) for one in members}
    for group, text in setups.items():
        (tmp_path / f"{group}.setup.sh").write_text(text)
    both = [member for member in members if member.group in setups]
    (tmp_path / "all.sh").write_text(joint.script(both, envs))
    done = subprocess.run(["bash", tmp_path / "all.sh"], capture_output=True, text=True, env={"PATH": "/bin:/usr/bin"})
    assert done.stdout == "prefill none\ndecode it's $HOME\n"


def test_a_setup_that_fails_keeps_the_others_from_running(tmp_path: Path) -> None:
    run = make_run()
    both = [member for member in crew(run) if member.group != "router"]
    (tmp_path / "prefill.setup.sh").write_text("exit 7")
    (tmp_path / "decode.setup.sh").write_text("echo ran")
    (tmp_path / "all.sh").write_text(joint.script(both, {"prefill": {}, "decode": {}}))
    done = subprocess.run(["bash", tmp_path / "all.sh"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7, "")
