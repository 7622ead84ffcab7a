"""A person's commands beside ranks, files back, and a terminal, over SSH through a bastion; no Ray is needed."""

import io
import json
import os
import pty
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.config.inventory.read import read_inventory
from launcher.core.model.actions import Acquire, Prepare, Reason, Release, Why
from launcher.core.model.placement import Placement, Slice
from launcher.core.model.receipt import Result
from launcher.core.model.run import MemberName, Run, RunId, RunName
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.errors import RemoteError
from launcher.ports import Command, Nodes, Stream
from launcher.runtime.protocol_files import SHARED
from launcher.transport.open import open_nodes
from tests.rig import Host, Rig
from tests.rig.witness import until

REASON = Reason(why=Why.START, message="a test asks for it")
RANK0 = MemberName("main/0")


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """Two trays behind a bastion."""
    with Rig(1, 2, bastion=True, python=sys.executable, name="person") as made:
        yield made


@pytest.fixture
def host(rig: Rig) -> Host:
    return rig["r01-n01"]


class Slot:
    """A run that has a tray, and the way there."""

    def __init__(self, home: Path, run: Run) -> None:
        self.home, self.run = home, run
        self.node = run.placement.nodes[0]
        self.nodes = self.open()

    def open(self) -> Nodes:
        return open_nodes(self.home, self.run.fleet, "somebody@here")

    def exec(self, *argv: str, timeout: float | None = 30.0, nodes: Nodes | None = None) -> tuple[int, bytes, bytes]:
        heard = {Stream.OUT: b"", Stream.ERR: b""}

        def hear(stream: Stream, part: bytes) -> None:
            heard[stream] += part

        command = Command(token="t1", argv=argv, member=RANK0, timeout=timeout)
        status = (nodes or self.nodes).exec_command(self.run, self.node, command, hear)
        return status, heard[Stream.OUT], heard[Stream.ERR]


@pytest.fixture
def slot(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slot]:
    """A run on the first tray, ready."""
    (tmp_path / ".ssh").mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / "rack.yaml").write_text(rig.inventory())
    fleet = read_inventory(tmp_path / "rack.yaml")
    first = fleet.nodes[0]
    part = Slice(
        group="main", index=0, place=first.rack, rack=first.rack, domain=first.domain, nodes=(first.name,), spares=()
    )
    group = Group(name="main", topology=TopologyRule(), gpus=4, run="true", envs={"COLOUR": "blue"})
    placement = Placement(slices=(part,))
    task = Task(name="job", groups=(group,))
    own = fleet.cut_down(placement.nodes)
    made = Slot(
        tmp_path / "home", Run(id=RunId("person-1"), name=RunName("job"), task=task, placement=placement, fleet=own)
    )
    assert made.nodes.perform(made.run, Acquire(reason=REASON, node=made.node)).result is Result.DONE
    answer = made.nodes.perform(made.run, Prepare(reason=REASON, node=made.node, member=RANK0))
    assert answer.result is Result.DONE, answer
    yield made
    made.nodes.perform(made.run, Release(reason=REASON, node=made.node))
    made.nodes.close()


def lives(host: Host, *argv: str) -> bool:
    return any(process.argv == argv and process.state != "Z" for process in host.processes())


def test_status_streams_and_arguments_come_through(slot: Slot) -> None:
    words = ("a b", "$HOME", "'", '"', "", "*", "\n", "ü", "-x", "`id`", "\\", "!", "%h")
    status, out, _ = slot.exec("printf", "%s|", *words)
    assert (status, out.decode()) == (0, "".join(f"{word}|" for word in words))
    assert slot.exec("sh", "-c", "echo out; echo err >&2; exit 255") == (255, b"out\n", b"err\n")
    status, out, _ = slot.exec("head", "-c", "8000000", "/dev/zero")
    assert (status, len(out)) == (0, 8_000_000)
    lines = slot.exec("env")[1].decode().splitlines()
    assert "COLOUR=blue" in lines
    assert "NVLAUNCH_RUN=job" in lines


def test_nothing_is_left_when_the_time_is_over(slot: Slot, host: Host) -> None:
    with pytest.raises(RemoteError, match="ended after its time"):
        slot.exec("sh", "-c", "trap '' TERM; env -i setsid sleep 301 & sleep 302", timeout=1.0)
    assert not lives(host, "sleep", "301")
    assert not lives(host, "sleep", "302")


def test_stop_ends_it_and_so_does_a_launcher_that_is_gone(slot: Slot, host: Host) -> None:
    for end in ("stop", "gone"):
        nodes = slot.open()
        ended: list[object] = []

        def run(nodes: Nodes = nodes, ended: list[object] = ended) -> None:
            try:
                ended.append(slot.exec("sleep", "303", timeout=None, nodes=nodes)[0])
            except RemoteError as error:
                ended.append(error.stage)

        thread = threading.Thread(target=run)
        thread.start()
        until(lambda: lives(host, "sleep", "303"))
        if end == "stop":
            slot.nodes.stop_command(slot.run, slot.node, Command(token="t1", argv=("sleep", "303"), member=RANK0))
        else:
            nodes.close()
        until(lambda: not lives(host, "sleep", "303"))
        thread.join(20)
        assert len(ended) == 1
        nodes.close()


def test_files_come_back(slot: Slot, host: Host) -> None:
    slot.exec("sh", "-c", "mkdir -p out/deep && head -c 3000000 /dev/zero > out/deep/zeros && ln -s deep out/latest")
    parts: list[bytes] = []
    assert slot.nodes.fetch(slot.run, slot.node, "out", parts.append) == ()
    with tarfile.open(fileobj=io.BytesIO(b"".join(parts))) as archive:
        sizes = {entry.name: entry.size for entry in archive}
    assert sizes == {"out": 0, "out/deep": 0, "out/deep/zeros": 3_000_000, "out/latest": 0}
    with pytest.raises(RemoteError, match="No such file or directory"):
        slot.nodes.fetch(slot.run, slot.node, "~/nothing", parts.append)


@pytest.mark.parametrize("pinned", [True, False], ids=["pinned host key", "learnt host key"])
def test_a_terminal_opens_beside_the_rank_without_a_question(slot: Slot, host: Host, pinned: bool) -> None:
    if not pinned:
        node = slot.run.fleet.nodes[0]
        free = replace(node, access=replace(node.access, host_key=None))
        slot.run = replace(slot.run, fleet=replace(slot.run.fleet, nodes=(free,)))
    variables = {"shared": "@", "group": "main", "node": {"COLOUR": "blue"}, "own": {"NODE_RANK": "0"}, "addresses": {}}
    spec = f"printf %s '{json.dumps({'variables': variables})}' | sed s/@/$(ls ../{SHARED} | head -n 1)/"
    begun = f"mkdir -p ../ranks/main-0/7 && {spec} > ../ranks/main-0/7/spec.json"
    assert slot.exec("sh", "-c", begun)[0] == 0
    program = slot.nodes.visit(slot.run, slot.node, RANK0)
    assert program[0] == "ssh"
    ours, theirs = pty.openpty()
    with subprocess.Popen(program, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
        os.close(theirs)
        os.write(ours, b"tty >/dev/null && echo at-$COLOUR-$NODE_RANK-$(basename $PWD)-$(hostname); exit\n")
        said = b""
        try:
            while part := os.read(ours, 4096):
                said += part
        except OSError:
            pass  # the other side is closed
        process.wait(20)
    os.close(ours)
    assert f"at-blue-0-workdir-{host.name}".encode() in said, said
    assert b"yes/no" not in said
