"""IMEX on the nodes of a run, on hosts with stand-ins of NVIDIA's tools that count what is done to the service."""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.config.inventory.read import read_inventory
from launcher.core.model.actions import Acquire, Prepare, Reason, Release, Why
from launcher.core.model.inventory import ImexMode
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Slice
from launcher.core.model.receipt import Answer, Result
from launcher.core.model.run import Member, MemberName, Run, RunId, RunName
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.ports import Nodes
from launcher.transport.open import open_nodes
from tests.desk import Desk
from tests.rig import Host, Rig

REASON = Reason(why=Why.START, message="a test asks for it")
LIST = "/etc/nvidia-imex/nodes_config.cfg"
CHANNEL = "/dev/nvidia-caps-imex-channels/channel0"
UNIT = "nvidia-imex"


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """One rack of five trays."""
    with Rig(1, 5, nvidia=True, python=sys.executable, name="imex") as made:
        for host in made.hosts.values():
            host.run(["sh", "-c", f"mkdir -p {CHANNEL.rpartition('/')[0]} && touch {CHANNEL} && chmod 666 {CHANNEL}"])
        yield made


@pytest.fixture(autouse=True)
def fresh(rig: Rig) -> None:
    """No daemon, no list, no calls counted, sudo that works."""
    for host in rig.hosts.values():
        host.set_hardware(sudo="works", units={UNIT: "inactive"}, imex_hang=0, imex_nodes={}, apps=())
        host.run(["sh", "-c", f"rm -f {LIST} /etc/nvidia-imex/config.cfg /var/lib/rig/units/{UNIT}/*start"])


class Launch:
    """A run on some trays of the rack, and what came of making each of them ready."""

    def __init__(self, nodes: Nodes, run: Run) -> None:
        self.nodes = nodes
        self.run = run

    def prepare(self) -> dict[str, Answer]:
        """Take the leases and make ready, tray by tray; spares are not made ready."""
        return {member.name: self._ready(member.name, node) for member, node in self._slots()}

    def _slots(self) -> list[tuple[Member, NodeName]]:
        return list(zip(self.run.members(), self.run.placement.slices[0].nodes, strict=True))

    def _ready(self, member: MemberName, node: NodeName) -> Answer:
        assert self.nodes.perform(self.run, Acquire(reason=REASON, node=node)).result is Result.DONE
        deadline = time.monotonic() + 60
        while True:
            answer = self.nodes.perform(self.run, Prepare(reason=REASON, node=node, member=member))
            if answer.result is Result.DONE or time.monotonic() > deadline:
                return answer

    def end(self) -> None:
        for node in self.run.placement.nodes:
            self.nodes.perform(self.run, Release(reason=REASON, node=node))
        self.nodes.close()


Begin = Callable[..., Launch]


@pytest.fixture
def launch(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    """Answers a launch on trays of the rack by their numbers."""
    (tmp_path / ".ssh").mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / "rack.yaml").write_text(rig.inventory())
    fleet = read_inventory(tmp_path / "rack.yaml")
    made: list[Launch] = []

    def begin(mode: ImexMode, trays: tuple[int, ...], spares: tuple[int, ...] = ()) -> Launch:
        names = [node.name for node in fleet.nodes]
        part = Slice(
            group="main",
            index=0,
            place=fleet.nodes[0].rack,
            rack=fleet.nodes[0].rack,
            domain=fleet.nodes[0].domain,
            nodes=tuple(names[at - 1] for at in trays),
            spares=tuple(names[at - 1] for at in spares),
        )
        topology = TopologyRule(slices=1, nodes_per_slice=len(trays), spares=len(spares))
        task = Task(name="job", groups=(Group(name="main", topology=topology, gpus=4, run="true"),))
        placement = Placement(slices=(part,))
        own = replace(fleet.cut_down(placement.nodes), imex=mode)
        run = Run(id=RunId(f"imex-{len(made)}"), name=RunName("job"), task=task, placement=placement, fleet=own)
        made.append(Launch(open_nodes(tmp_path / "home", own, "somebody@here"), run))
        return made[-1]

    yield begin
    for one in made:
        one.end()


def hosts(rig: Rig) -> list[Host]:
    return list(rig.hosts.values())


def calls(rig: Rig) -> dict[str, tuple[int, int]]:
    """How often the service was started, and started again, on each host where it was."""
    counted = {host.name: (host.unit_calls(UNIT, "start"), host.unit_calls(UNIT, "restart")) for host in hosts(rig)}
    return {name: count for name, count in counted.items() if count != (0, 0)}


def run_domain(*members: Host) -> None:
    """Let a domain of these hosts run, as a site does at boot."""
    listed = "".join(f"{host.address}\n" for host in members)
    for host in members:
        host.write(LIST, listed, user="root")
        host.set_hardware(units={UNIT: "active"})


def test_a_domain_that_runs_is_adopted_and_never_started_again(rig: Rig, launch: Begin) -> None:
    run_domain(*hosts(rig))
    for mode in (ImexMode.ADOPT, ImexMode.MANAGE):
        one = launch(mode, (1, 2), (3,))
        for answer in one.prepare().values():
            assert answer.result is Result.DONE, answer
            assert answer.notes == ("IMEX adopted: the running domain of 5 has all 2 nodes of the slice",)
            assert answer.warnings == ()
            assert "IMEX adopted" in answer.said
        one.end()
    assert calls(rig) == {}


def test_manage_starts_it_once_on_each_node_with_one_list_of_the_whole_rack(rig: Rig, launch: Begin) -> None:
    one = launch(ImexMode.MANAGE, (1, 2, 3), (4,))
    for _ in range(2):
        for answer in one.prepare().values():
            assert (answer.result, answer.warnings) == (Result.DONE, ()), answer
    first, second, third, fourth, fifth = hosts(rig)
    assert calls(rig) == {host.name: (1, 0) for host in (first, second, third)}
    whole = "".join(f"{host.address}\n" for host in hosts(rig))
    assert [host.run(["cat", LIST]).stdout for host in (first, second, third)] == [whole] * 3
    config = first.run(["cat", "/etc/nvidia-imex/config.cfg"]).stdout.splitlines()
    assert {"SERVER_PORT=50000", "IMEX_CMD_PORT=50005", "IMEX_WAIT_FOR_QUORUM=RECOVERY"} <= set(config)
    for host in (fourth, fifth):
        assert host.run(["test", "-e", LIST], check=False).returncode == 1


def test_where_sudo_asks_the_commands_are_told_and_the_launch_goes_on(rig: Rig, launch: Begin) -> None:
    for host in hosts(rig):
        host.set_hardware(sudo="asks")
    one = launch(ImexMode.MANAGE, (1, 2))
    answers = one.prepare()
    assert {answer.result for answer in answers.values()} == {Result.DONE}
    assert calls(rig) == {}
    (warning,) = {warning for answer in answers.values() for warning in answer.warnings}
    assert "`sudo -n` is refused" in warning
    line = warning.splitlines()[-1].strip().replace("sudo ", "", 1)
    for host in hosts(rig)[:2]:
        host.run(["sh", "-c", line])
    assert {answer.warnings for answer in one.prepare().values()} == {()}


def test_adopt_warns_where_nothing_runs_and_touches_nothing(rig: Rig, launch: Begin) -> None:
    for answer in launch(ImexMode.ADOPT, (1, 2)).prepare().values():
        assert answer.result is Result.DONE
        assert "systemctl start nvidia-imex" in answer.warnings[0]
    assert calls(rig) == {}


def test_a_slice_of_one_node_needs_none(rig: Rig, launch: Begin) -> None:
    (answer,) = launch(ImexMode.MANAGE, (1,), (2,)).prepare().values()
    assert answer.notes == ("IMEX off: a slice of one node does not need it",)
    assert answer.warnings == ()
    assert calls(rig) == {}


def test_a_node_of_another_run_in_the_rack_is_not_touched(rig: Rig, launch: Begin) -> None:
    run_domain(*hosts(rig)[3:])
    theirs = hosts(rig)[3].run(["cat", LIST]).stdout
    launch(ImexMode.ADOPT, (4, 5)).prepare()
    for answer in launch(ImexMode.MANAGE, (1, 2)).prepare().values():
        assert answer.notes == ("IMEX started: it was not running",)
    assert calls(rig) == {host.name: (1, 0) for host in hosts(rig)[:2]}
    assert hosts(rig)[3].run(["cat", LIST]).stdout == theirs


def test_another_list_is_replaced_only_where_nobody_uses_the_gpus(rig: Rig, launch: Begin) -> None:
    first, second, third = hosts(rig)[:3]
    run_domain(first, third)
    run_domain(second, third)
    second.set_hardware(apps=((4711, "python", 1000),))
    answers = list(launch(ImexMode.MANAGE, (1, 2)).prepare().values())
    assert [answer.result for answer in answers] == [Result.DONE, Result.DONE]
    assert "IMEX restarted" in answers[0].notes[0]
    assert "not restarted: `python` (4711) would lose" in answers[1].warnings[0]
    assert calls(rig) == {first.name: (0, 1)}


def test_a_question_that_hangs_holds_nobody_up_for_long(rig: Rig, launch: Begin) -> None:
    run_domain(*hosts(rig))
    for host in hosts(rig):
        host.set_hardware(imex_hang=-1)
    begun = time.monotonic()
    answers = launch(ImexMode.ADOPT, (1, 2)).prepare()
    assert time.monotonic() - begun < 60
    for answer in answers.values():
        assert answer.result is Result.DONE
        assert "by its file" in answer.notes[0]
    assert calls(rig) == {}


TASK = """
name: shares
resources: {accelerators: GB300:4}
topology: {slices: 1, nodes_per_slice: 2, spares: 1}
run: "true"
"""


def test_up_tells_what_an_operator_has_to_do_and_goes_on(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir(mode=0o700)
    desk = Desk(tmp_path, rig.inventory(), HOME=str(tmp_path))
    up = desk.run("up", str(desk.task("shares", TASK)), "-y", "-i", str(desk.inventory))
    assert up.returncode == 0, up.stderr
    assert up.stderr.count("IMEX does not run, and the inventory does not say `imex: manage`") == 1
    listed = " ".join(f'"{host.address}"' for host in hosts(rig))
    assert listed in up.stderr
    assert "IMEX unchanged: IMEX does not run" in desk.run("events", "shares").stdout
    assert calls(rig) == {}
