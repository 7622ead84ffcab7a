"""Containers under real agents, without Ray: how they are made, entered, killed, found again and removed."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import md5
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from launcher.core.model.actions import Acquire, Prepare
from launcher.core.model.container import Container, Engine, ImageSource
from launcher.core.model.nodeset import NodeName
from launcher.core.model.receipt import Result
from launcher.core.model.task import Group, TopologyRule
from launcher.ports import Command, Stream
from launcher.runtime import deadline, rpc
from launcher.runtime.protocol import PROTOCOL
from launcher.setup import layout
from tests.containers.docker import Docker, rootfs
from tests.containers.podman import Podman
from tests.containers.registry import Registry
from tests.real import local

ODD = "a'b\"c $HOME `id` \\\n\n  two lines\t\u00fc\U0001f600 " + "x" * 100_000
SECRET = "hush 'quoted' $x\nline"
SETUP = 'echo "set up in $(grep ^ID= /etc/os-release)"; echo setup >>/var/made'
AMPLE_S = 30.0


class Site:
    """A run with containers on local nodes, and its ranks, started as drivers are: by the agent alone."""

    def __init__(
        self, home: Path, run: str, docker: Docker | Podman, container: Container, *, racks: int = 1, nodes: int = 1
    ):
        self.docker = docker
        self.home = home
        group = Group(
            name="main", topology=TopologyRule(), run=RUN, setup=SETUP, envs={"ODD": ODD}, container=container
        )
        fleet = local.inventory(home, racks=racks, nodes=nodes)
        run = f"{run}-{uuid4().hex[:6]}"
        placed = local.place(fleet, run, group, secrets=("SECRET",))
        self.stand = local.Stand(home, placed)
        self.run = placed
        folder = home / "runs" / run
        folder.mkdir(parents=True)
        (folder / "secrets.json").write_text(json.dumps({"SECRET": SECRET}))

    def prepare(self, *nodes: str, ends: str = "done") -> None:
        """Acquire and prepare nodes, all if none is named, until their setups have ended."""
        slots = [slot for slot in self.stand.slots if not nodes or slot.node in nodes]
        for slot in slots:
            local.ok(self.stand.nodes.perform(self.run, Acquire(reason=local.REASON, node=slot.node)))
        with ThreadPoolExecutor() as pool:
            acts = [Prepare(reason=local.REASON, node=slot.node, member=slot.member) for slot in slots]
            for answer in pool.map(lambda act: self.stand.nodes.perform(self.run, act), acts):
                local.ok(answer)
        self.stand.until(
            lambda seen: all(local.agent(seen, slot.node).setup.phase.value in ("done", "failed") for slot in slots),
            AMPLE_S,
        )
        seen = self.stand.nodes.look(self.run)
        for slot in slots:
            assert local.agent(seen, slot.node).setup.phase.value == ends, self.log(slot.node)

    def folder(self, node: str = "r1-n1") -> Path:
        """The run's folder on a node."""
        return Path(layout.local(str(self.home), self.run.id, node).root)

    def memory(self, node: str = "r1-n1") -> Path:
        """The agent's folder in memory."""
        return Path("/dev/shm") / Path(layout.local(str(self.home), self.run.id, node).scratch).name

    def log(self, node: str = "r1-n1") -> str:
        """What provisioning wrote."""
        return (self.folder(node) / "log" / "provision.log").read_text()

    def ask(self, node: str = "r1-n1", **request: Any) -> dict[str, Any]:
        """Ask an agent."""
        socket = Path(layout.local(str(self.home), self.run.id, node).socket)
        return dict(rpc.ask(socket, {"protocol": PROTOCOL, **request}, timeout=30))

    def start(self, attempt: int, script: str | None = None, node: str = "r1-n1") -> None:
        """Start an attempt of the rank of a node."""
        (self.folder(node) / "scripts" / "main.run.sh").write_text(script or RUN)
        slot = next(slot for slot in self.stand.slots if slot.node == node)
        member = next(one for one in self.run.members() if one.name == slot.member)
        document = next((self.folder(node) / "shared").iterdir()).name
        own = {"NVLAUNCH_GROUP": "main", "NODE_RANK": str(member.rank)}
        variables = {"shared": document, "group": "main", "node": {"OF_NODE": "here"}, "own": own, "addresses": {}}
        spec = {
            "member": member.name,
            "gang": "run",
            "attempt": attempt,
            "script": "scripts/main.run.sh",
            "variables": variables,
            "secrets": ["SECRET"],
        }
        mark = layout.local(str(self.home), self.run.id, node).mark(0, member, attempt)
        reply = self.ask(node, op="drive", label=member.label, spec=spec, mark=mark)
        assert reply["ok"], reply

    def end(self, attempt: int, node: str = "r1-n1") -> int | None:
        """The exit code of an attempt, once it has ended."""
        slot = next(slot for slot in self.stand.slots if slot.node == node)

        def ended(seen: Any) -> bool:
            report = local.rank(seen, slot, attempt)
            return report is not None and not report.running

        found = local.rank(self.stand.until(ended, AMPLE_S), slot, attempt)
        assert found is not None
        return found.exit_code

    def rank(self, attempt: int, name: str, node: str = "r1-n1") -> Path:
        """A file of an attempt of the rank of a node."""
        at = next(slot for slot in self.stand.slots if slot.node == node).member.replace("/", "-")
        return self.folder(node) / "ranks" / at / str(attempt) / name

    def pid(self, attempt: int, node: str = "r1-n1") -> int:
        """The program of an attempt, as soon as it has begun."""
        return int(self.line(attempt, "pid ", node))

    def line(self, attempt: int, begin: str, node: str = "r1-n1") -> str:
        """The rest of the line of a log that begins so, as soon as it is there."""
        until(lambda: any(one.startswith(begin) for one in self.lines(attempt, node)), lambda: self.all_logs(node))
        return next(one for one in self.lines(attempt, node) if one.startswith(begin)).removeprefix(begin)

    def all_logs(self, node: str) -> str:
        """All that ranks and their parents wrote on a node."""
        return "\n".join(f"{path}: {path.read_text()}" for path in sorted(self.folder(node).glob("ranks/*/*/*log")))

    def lines(self, attempt: int, node: str = "r1-n1") -> list[str]:
        """The complete lines of a log."""
        path = self.rank(attempt, "log", node)
        return path.read_text().split("\n")[:-1] if path.exists() else []

    def containers(self, *more: str) -> list[str]:
        """The containers of this run by id, those that run."""
        return self.docker.said(
            "ps", "-q", "--no-trunc", "--filter", f"label=nvlaunch.run={self.run.id}", *more
        ).split()


# It says what it is, and goes on.
RUN = """
echo "pid $$"
echo "made $(cat /var/made | grep -c .)"
while :; do sleep 0.1; done
"""


def until(holds: Callable[[], bool], said: Callable[[], object] = str) -> None:
    deadline = time.monotonic() + AMPLE_S
    while not holds():
        assert time.monotonic() < deadline, said()
        time.sleep(0.05)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


IMAGE = Container(image="box:1", engine=Engine.DOCKER)
IMAGES = {Engine.DOCKER: IMAGE, Engine.PODMAN: Container(image="localhost/box:1", engine=Engine.PODMAN)}


@pytest.fixture(scope="module", autouse=True)
def _env(docker: Docker, podman: Podman) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**docker.env, **podman.env}.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module", params=list(IMAGES), ids=lambda engine: engine.value)
def site(
    request: pytest.FixtureRequest, docker: Docker, podman: Podman, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """One node with a container, for tests that leave it as it was."""
    engine: Engine = request.param
    client = docker if engine is Engine.DOCKER else podman
    made = Site(tmp_path_factory.mktemp("home"), f"box-{engine.value}", client, IMAGES[engine])
    made.prepare()
    yield made
    made.stand.take_down()
    assert made.containers("--all") == []


def test_setup_and_ranks_are_inside_with_their_variables_byte_for_byte(site: Site) -> None:
    assert "set up in ID=box" in site.log()
    said = 'printf %s "$ODD" | md5sum; printf %s "$SECRET" | md5sum; cat /etc/os-release; pwd; umask; id -u; env'
    site.start(1, f"{said}; exit 7")
    assert site.end(1) == 7
    lines = site.lines(1)
    for value in (ODD, SECRET):
        assert f"{md5(value.encode()).hexdigest()}  -" in lines
    for line in ("ID=box", "BOX=of-the-image", "OF_NODE=here", "NODE_RANK=0", str(site.folder() / "workdir")):
        assert line in lines, lines
    assert not [line for line in lines if line.startswith(("LOGNAME=", "DOCKER_HOST=", "NVLAUNCH_HOME_INSIDE="))]
    kept = [path for path in Path("/dev/shm").glob("nvl-*/main-0.1/env") if path.stat().st_size]
    assert kept == []  # secrets are not kept once they are read


def test_a_command_runs_inside(site: Site) -> None:
    heard: list[tuple[Stream, bytes]] = []
    command = Command(token="t1", argv=("sh", "-c", "cat /etc/os-release; exit 5"), member=site.stand.slots[0].member)
    code = site.stand.nodes.exec_command(site.run, NodeName("r1-n1"), command, lambda *part: heard.append(part))
    assert code == 5
    assert b"ID=box" in b"".join(data for _, data in heard)
    assert list(site.memory().glob("exec.*")) == []


def test_a_terminal_opens_inside_and_leaves_nothing_once_it_closes(site: Site) -> None:
    program = site.stand.nodes.visit(site.run, NodeName("r1-n1"), site.stand.slots[0].member)
    ours, theirs = pty.openpty()
    with subprocess.Popen(program, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as shell:
        os.close(theirs)
        os.write(ours, b"grep ^ID= /etc/os-release; exit 5\n")
        said = b""
        with contextlib.suppress(OSError):  # a terminal that nobody has open any more
            while part := os.read(ours, 65536):
                said += part
        assert shell.wait(30) == 5
    os.close(ours)
    assert b"ID=box" in said
    assert list(site.memory().glob("exec.*")) == []
    assert list(site.memory().glob("setup.*")) == []


def test_the_stop_signal_reaches_the_program_which_has_its_grace_time(site: Site) -> None:
    site.start(2, "trap 'sleep 1; echo told; exit 9' USR1; echo pid $$; while :; do sleep 0.1; done")
    site.pid(2)
    assert site.ask(op="signal", signal="USR1")["count"] >= 1
    assert site.end(2) == 9
    assert "told" in site.lines(2)


def test_a_program_that_is_killed_has_the_code_of_a_shell(site: Site) -> None:
    site.start(3)
    os.kill(site.pid(3), signal.SIGKILL)
    assert site.end(3) == 128 + signal.SIGKILL


def test_a_kill_of_a_rank_finds_children_that_hide_and_spares_the_container(site: Site) -> None:
    before = site.containers()
    site.start(4, "(setsid env -i PATH=\"$PATH\" bash -c 'echo hidden $$; exec sleep 900' &)\n" + RUN)
    pids = [site.pid(4), int(site.line(4, "hidden "))]
    reply = site.ask(op="kill", level="rank", member=site.stand.slots[0].member, attempt=4, grace=0)
    assert reply["ok"], reply
    assert all(gone(pid) for pid in pids)
    assert site.containers() == before


def test_ranks_outlive_the_engine_and_begin_again_once_it_is_back(site: Site) -> None:
    before = site.containers()
    site.start(5)
    pid = site.pid(5)
    site.docker.kill()
    os.kill(pid, signal.SIGTERM)  # its end is seen without the engine
    assert site.end(5) == 128 + signal.SIGTERM
    site.docker.start()
    site.start(6)
    site.pid(6)
    assert site.containers() == before
    site.ask(op="kill", level="rank", member=site.stand.slots[0].member, attempt=6, grace=0)


def test_a_container_that_was_killed_is_started_again_with_what_setup_made(site: Site) -> None:
    (identity,) = site.containers()
    site.start(7)
    site.pid(7)
    os.kill(int(site.docker.said("inspect", "--format", "{{.State.Pid}}", identity)), signal.SIGKILL)
    if isinstance(site.docker, Docker):
        assert site.end(7) == 128 + signal.SIGKILL
    else:  # Podman leaves the other processes of a container alone that shares the node's
        site.ask(op="kill", level="rank", member=site.stand.slots[0].member, attempt=7, grace=0)
    site.start(8)
    assert site.line(8, "made ") == "1"
    assert site.containers() == [identity]
    site.ask(op="kill", level="rank", member=site.stand.slots[0].member, attempt=8, grace=0)


def test_a_container_that_vanished_is_made_again_and_set_up(site: Site) -> None:
    (identity,) = site.containers()
    site.docker.client("rm", "-f", identity)
    site.start(9)
    assert site.line(9, "made ") == "1"
    (other,) = site.containers()
    assert other != identity
    assert any("set up in ID=box" in line for line in site.lines(9))
    site.ask(op="kill", level="rank", member=site.stand.slots[0].member, attempt=9, grace=0)


def test_a_terminal_is_a_shell_inside_with_the_variables_of_the_rank(site: Site) -> None:
    site.start(10)
    site.pid(10)
    program = site.stand.nodes.visit(site.run, NodeName("r1-n1"), site.stand.slots[0].member)
    leader, follower = pty.openpty()
    with subprocess.Popen(
        program,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
        env={**os.environ, "TERM": "vt52"},
    ) as shell:
        os.close(follower)
        typed = '[ -t 0 ] && echo "it-is-a-""terminal $TERM $OF_NODE $(cat /mark)"; pwd; exit 5\n'
        os.write(leader, typed.encode())
        shown = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(leader, 4096):
                shown += part
        assert shell.wait(AMPLE_S) == 5, shown
    os.close(leader)
    assert b"it-is-a-terminal vt52 here one" in shown
    assert str(site.folder() / "workdir").encode() in shown
    site.ask(op="kill", level="rank", member=site.stand.slots[0].member, attempt=10, grace=0)


@pytest.mark.parametrize("engine", list(IMAGES), ids=lambda engine: engine.value)
def test_what_is_mounted_again_in_the_workdir_is_seen_inside(
    docker: Docker, podman: Podman, tmp_path: Path, engine: Engine
) -> None:
    def mount(*words: str) -> None:
        subprocess.run(["mount", *words], check=True)

    mount("--bind", str(tmp_path), str(tmp_path))
    try:
        mount("--make-shared", str(tmp_path))  # as systemd makes all of a node
        client = docker if engine is Engine.DOCKER else podman
        site = Site(tmp_path, f"box-m-{engine.value}", client, IMAGES[engine])
        bucket = site.folder() / "workdir" / "bucket"
        bucket.mkdir(parents=True)
        mount("-t", "tmpfs", "none", str(bucket))
        (bucket / "first").touch()
        site.prepare()
        subprocess.run(["umount", "--lazy", str(bucket)], check=True)
        mount("-t", "tmpfs", "none", str(bucket))
        (bucket / "second").touch()
        site.start(1, f"ls {bucket}")
        assert site.end(1) == 0
        assert site.lines(1) == ["second"]
        site.stand.take_down()
    finally:
        subprocess.run(["umount", "--lazy", "--recursive", str(tmp_path)], check=True)


def test_nothing_is_left_after_down_although_the_agent_was_killed(docker: Docker, tmp_path: Path) -> None:
    other = Site(tmp_path, "box-2", docker, IMAGE)
    other.prepare()
    other.start(1)
    pid = other.pid(1)
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and b"NVLAUNCH_AGENT=box-2-" in _environ(entry):
            os.kill(int(entry.name), signal.SIGKILL)
    other.stand.take_down()
    assert gone(pid)
    assert other.containers("--all") == []


def _environ(entry: Path) -> bytes:
    try:
        return (entry / "environ").read_bytes()
    except OSError:
        return b""


def test_a_hung_engine_keeps_no_node_and_the_next_run_removes_its_records(docker: Docker, tmp_path: Path) -> None:
    hung = Site(tmp_path, "box-3", docker, IMAGE)
    hung.prepare()
    hung.start(1)
    pid = hung.pid(1)
    assert docker.process
    os.kill(docker.process.pid, signal.SIGSTOP)
    try:
        answers = hung.stand.take_down()
    finally:
        os.kill(docker.process.pid, signal.SIGCONT)
    assert gone(pid)
    assert [answer.result for answer in answers][:1] == [Result.KILLED]
    assert "containers of the run are not removed yet" in str(answers[0].warnings)
    later = Site(tmp_path, "box-4", docker, IMAGE)
    later.prepare()
    until(lambda: hung.containers("--all") == [])
    later.stand.take_down()


def test_an_archive_is_sent_to_each_node_once(docker: Docker, tmp_path: Path) -> None:
    archive = tmp_path / "box.tar"
    docker.client("save", "-o", str(archive), "box:1")
    site = Site(
        tmp_path,
        "box-5",
        docker,
        replace(IMAGE, image=str(archive), source=ImageSource.SENT),
        racks=2,
        nodes=3,
    )
    site.prepare()
    assert len(site.containers()) == 6
    for slot in site.stand.slots:
        (found,) = (site.folder(slot.node) / "images" / "main").iterdir()
        assert found.stat().st_size == archive.stat().st_size
        assert "set up in ID=box" in site.log(slot.node)
    site.stand.take_down()
    assert site.containers("--all") == []


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("127.0.0.1:9/none:1", "the registry cannot be reached from the node"),
        ("/nowhere/box.tar", "`/nowhere/box.tar` is not a file on this node"),
    ],
)
def test_an_image_that_cannot_be_had_fails_setup_with_the_reason(
    docker: Docker, tmp_path: Path, image: str, said: str
) -> None:
    source = ImageSource.ON_NODES if image.startswith("/") else ImageSource.REGISTRY
    site = Site(
        tmp_path, f"box-{md5(image.encode()).hexdigest()[:4]}", docker, replace(IMAGE, image=image, source=source)
    )
    site.prepare(ends="failed")
    assert said in site.log()
    site.stand.take_down()


def test_a_tag_that_moves_gives_no_node_another_image(docker: Docker, tmp_path: Path) -> None:
    registry = Registry()
    try:
        first = registry.put("latest", rootfs(tmp_path / "one.tar", "first"))
        image = f"{registry.address}/box:latest"
        site = Site(tmp_path, "box-6", docker, replace(IMAGE, image=image), nodes=3)
        site.prepare("r1-n1", "r1-n2")
        registry.put("latest", rootfs(tmp_path / "two.tar", "second"))
        docker.client(
            "rmi", "--force", docker.said("images", "--quiet", f"{registry.address}/box").split()[0], check=False
        )
        site.prepare("r1-n3")  # as of a spare, or of a replacement a week later
        assert registry.pulls[-1] == first or registry.pulls.count("latest") <= 2
        for slot in site.stand.slots:
            site.start(1, "cat /mark; env | grep ^BOX=", node=slot.node)
            assert site.end(1, slot.node) == 0
            assert site.lines(1, slot.node) == ["first", "BOX=of-the-registry"]
        site.stand.take_down()
        assert site.containers("--all") == []
    finally:
        registry.close()


def test_an_image_that_differs_between_nodes_is_an_error_that_names_both(docker: Docker, tmp_path: Path) -> None:
    root = rootfs(tmp_path / "one.tar", "first")
    here = docker.said("import", str(root), "differs:1")
    site = Site(tmp_path, "box-7", docker, replace(IMAGE, image="differs:1"), nodes=2)
    site.prepare("r1-n1")
    other = docker.said("import", str(rootfs(tmp_path / "two.tar", "second")), "differs:1")
    site.prepare("r1-n2", ends="failed")
    assert here in site.log("r1-n2")
    assert other in site.log("r1-n2")
    site.stand.take_down()


def test_a_tag_that_the_registry_does_not_have_is_named(docker: Docker, tmp_path: Path) -> None:
    registry = Registry()
    try:
        site = Site(tmp_path, "box-8", docker, replace(IMAGE, image=f"{registry.address}/box:none"))
        site.prepare(ends="failed")
        assert "the registry has no such image or tag" in site.log()
        site.stand.take_down()
    finally:
        registry.close()


def test_a_rank_ends_at_its_deadline_although_engine_and_agent_are_stopped(docker: Docker, tmp_path: Path) -> None:
    site = Site(tmp_path, "box-9", docker, IMAGE)
    site.prepare()
    site.start(1)
    pid = site.pid(1)
    scratch = Path(layout.local(str(site.home), site.run.id, "r1-n1").scratch).name
    agent = int(site.ask(op="status")["agent"])
    assert docker.process
    stopped = (docker.process.pid, agent)
    for each in stopped:
        os.kill(each, signal.SIGSTOP)
    try:
        deadline.Deadline(Path("/dev/shm", scratch, "deadline")).put(deadline.now() + 1.0)
        until(lambda: gone(pid))
    finally:
        for each in stopped:
            os.kill(each, signal.SIGCONT)
    site.stand.take_down()
    assert site.containers("--all") == []
