"""What `doctor` says of several nodes together, and of agents of runs that have ended."""

from dataclasses import replace

import pytest

from launcher.admission.doctor import Checkup, check_up, name_leftovers
from launcher.admission.node_checks import Examined
from launcher.cli.output.doctor import doctor_json, doctor_text
from launcher.core.model.container import Engine
from launcher.core.model.inventory import Access, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.probe.findings import CheckResult, Fact
from launcher.probe.folders import RUNS, FolderTrial
from launcher.probe.needs import NOTHING
from launcher.probe.node_facts import Facts
from launcher.probe.resources import NodeProcess
from launcher.probe.slurm import SlurmNode
from tests.facts import FACTS
from tests.unit.admission.test_engines import contained
from tests.unit.admission.test_preflight import Deaf, World, fleet, on, task

NAMES = (NodeName("r1-n1"), NodeName("r1-n2"))
NODE = Node(name=NodeName("r1-n1"), rack=RackName("r1"), access=Access(address="10.0.0.1"))
AGENT = NodeProcess(pid=7, user="ann", name="python3", ray=False, mark=None, agent="job-1:r1-n1")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"lease": "run `job` (job-1) of ann@here since 2026-01-01 10:00:00 UTC"}, True),
        ({"lease": None, "processes": (AGENT,)}, True),
        ({"lease": "run `job` (job-2) of ann@here since 2026-01-01 10:00:00 UTC"}, False),
        ({"lease": None}, False),
    ],
    ids=["lease", "agent", "lease of a run that goes on", "nothing"],
)
def test_an_agent_of_an_ended_run_is_bad_and_has_its_command(changes: dict[str, object], told: bool) -> None:
    facts = replace(FACTS, **changes)  # type: ignore[arg-type]
    found = Checkup(examined=(Examined(node=NODE, facts=facts, findings=()),), shared=(), reported={})
    named = name_leftovers(found, [("job-1", "job")])
    messages = [one.message for one in named.examined[0].findings]
    assert messages == (["agent of run `job`, which has ended; release it with nvlaunch down job-1"] if told else [])
    assert named.bad is told
    assert all(one.fact is Fact.LEFTOVERS and one.result is CheckResult.BAD for one in named.examined[0].findings)


NFS = FolderTrial(path=RUNS, at="/home/u", kind="nfs4", source="filer:/export/home", mount="/home")


def checked(**facts: Facts) -> Checkup:
    machines = fleet(3)
    return check_up(machines, machines.nodes, World({f"r1-{name}": one for name, one in facts.items()}), Deaf())


def test_a_home_that_nodes_share_is_told_once() -> None:
    shared = replace(FACTS, folders=(NFS,))
    found = checked(n1=shared, n2=shared)
    assert found.notes == ("home is the same on 2 nodes (r1-n[1-2]): nfs4, filer:/export/home",)
    assert "note: home is the same on 2 nodes" in doctor_text(found)
    assert doctor_json("hall", found)["notes"] == found.notes
    assert not found.bad


def test_homes_on_disks_of_their_own_and_a_home_alone_are_not_told() -> None:
    local = replace(FACTS, folders=(replace(NFS, kind="ext4", source="/dev/sda1"),))
    assert checked(n1=local, n2=local).notes == ()
    assert checked(n1=replace(FACTS, folders=(NFS,))).notes == ()


def test_nodes_of_slurm_are_told_once() -> None:
    slurm = replace(FACTS, slurm=SlurmNode(daemon=True))
    (note,) = checked(n1=slurm, n3=slurm).notes
    assert note.startswith("slurmd runs on r1-n[1,3]: reserve or drain them in Slurm")


def test_one_machine_under_two_names_is_bad_by_its_second_name() -> None:
    found = checked(n1=on("a"), n2=on("a"), n3=on("b"))
    assert [found.answer(one) for one in found.examined] == [CheckResult.GOOD, CheckResult.BAD, CheckResult.GOOD]
    assert "are one machine under 2 names" in doctor_text(found)


def test_local_racks_are_one_machine_and_may_be() -> None:
    machines = replace(fleet(2), transport=Transport.LOCAL)
    world = World({"r1-n1": on("a"), "r1-n2": on("a")})
    found = check_up(machines, machines.nodes, world, Deaf())
    assert not [shared for shared in found.shared if "one machine" in shared.finding.message]


def test_registries_without_a_login_are_told_once_and_are_not_bad() -> None:
    machines = fleet(2)
    work = contained(task(), image="registry.site:5000/team/box:1")
    found = check_up(machines, machines.nodes, World(), Deaf(), work)
    (note,) = found.notes
    assert note.startswith("no login to `registry.site:5000` on r1-n[1-2]")
    assert not found.bad
    logged_in = replace(FACTS, container_host=replace(FACTS.container_host, logins=("registry.site:5000",)))
    assert not check_up(machines, machines.nodes, World(dict.fromkeys(NAMES, logged_in)), Deaf(), work).notes
    for public in ("ubuntu:24.04", "nvcr.io/nvidia/pytorch:25.05-py3", "docker.io/library/ubuntu"):
        assert not check_up(machines, machines.nodes, World(), Deaf(), contained(task(), image=public)).notes
    assert check_up(machines, machines.nodes, World(), Deaf(), contained(task(), image="nvcr.io/own/box:1")).notes


def test_engines_are_looked_at_for_a_task_or_an_engine_of_the_inventory_alone() -> None:
    machines, world = fleet(1), World({"r1-n1": replace(FACTS, engines={Engine.DOCKER: "`docker` not found"})})
    assert not check_up(machines, machines.nodes, world, Deaf()).bad
    assert world.needs == NOTHING
    named = replace(machines, container_engine=Engine.DOCKER)
    assert check_up(named, named.nodes, world, Deaf()).bad
    assert check_up(machines, machines.nodes, world, Deaf(), contained(task())).bad
