"""A person's commands beside ranks, and their files back, on local nodes: agents are real, Ray is not needed."""

import io
import os
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher.core.model.actions import Acquire, Kill, Level, Prepare, Release
from launcher.core.model.observation import Phase
from launcher.core.model.run import GangName, MemberName, Run
from launcher.core.model.task import Group, TopologyRule
from launcher.errors import LaunchError, RemoteError
from launcher.ports import Command, Nodes, Stream
from tests.real import local
from tests.real.local import REASON, Stand

RANK0 = MemberName("main/0")
MARK = b"NVLAUNCH_MARK=beside:"


@pytest.fixture(scope="module")
def stand(home: Path) -> Iterator[Stand]:
    """One claimed and prepared node, and one that is not."""
    group = Group(name="main", topology=TopologyRule(), gpus=4, run="true", setup="true", envs={"COLOUR": "blue"})
    secrets = home / "runs" / "beside" / "secrets.json"
    secrets.parent.mkdir(parents=True)
    secrets.write_text('{"TOKEN": "hush-4711"}')
    run = local.place(local.inventory(home, racks=1, nodes=2), "beside", group, secrets=("TOKEN",))
    made = Stand(home, run)
    node = run.placement.nodes[0]
    local.ok(made.nodes.perform(run, Acquire(reason=REASON, node=node)))
    local.ok(made.nodes.perform(run, Prepare(reason=REASON, node=node, member=RANK0)))
    made.until(lambda seen: local.agent(seen, node).setup.phase is Phase.DONE)
    yield made
    made.take_down()
    made.nodes.close()
    assert marked() == []


def marked() -> list[int]:
    """The processes of the run, by their mark."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if MARK in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass  # gone meanwhile
    return found


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 15
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Heard:
    """What a command wrote, and how it ended."""

    def __init__(self, nodes: Nodes, run: Run, command: Command) -> None:
        self.out = self.err = b""
        self.order: list[bytes] = []
        self.status: int | None = None
        self.error: LaunchError | None = None
        self._nodes, self._run, self.command = nodes, run, command

    def hear(self, stream: Stream, part: bytes) -> None:
        self.order.append(part)
        if stream is Stream.OUT:
            self.out += part
        else:
            self.err += part

    def run(self) -> "Heard":
        try:
            self.status = self._nodes.exec_command(self._run, self._run.placement.nodes[0], self.command, self.hear)
        except LaunchError as error:
            self.error = error
        return self


def begin(stand: Stand, *argv: str, timeout: float | None = 20.0, token: str = "t1") -> Heard:
    return Heard(stand.nodes, stand.run, Command(token=token, argv=argv, member=RANK0, timeout=timeout))


@pytest.mark.parametrize("status", [0, 1, 3, 126, 137, 255])
def test_an_exit_status_comes_back(stand: Stand, status: int) -> None:
    assert begin(stand, "sh", "-c", f"exit {status}").run().status == status


def test_death_by_a_signal_and_a_program_that_is_not_there(stand: Stand) -> None:
    assert begin(stand, "sh", "-c", "kill -SEGV $$").run().status == 139
    absent = begin(stand, "no-such-program").run()
    assert (absent.status, absent.err) == (127, b"`no-such-program` is not found on this node\n")


def test_arguments_and_bytes_arrive_as_they_are(stand: Stand) -> None:
    words = ("a b", "$HOME", "'", '"', "", "*", "\n", "ü", "-x", "`id`", "\\")
    heard = begin(stand, "printf", "%s|", *words).run()
    assert heard.out.decode() == "".join(f"{word}|" for word in words)
    big = begin(stand, "head", "-c", "3000000", "/dev/zero").run()
    assert (len(big.out), big.status) == (3_000_000, 0)
    apart = begin(stand, "sh", "-c", "echo out; echo err >&2; cat").run()
    assert (apart.out, apart.err, apart.status) == (b"out\n", b"err\n", 0)


def test_it_has_the_variables_and_the_folder_of_the_rank_and_no_secret(stand: Stand) -> None:
    lines = begin(stand, "env").run().out.decode().splitlines()
    assert "COLOUR=blue" in lines
    assert f"HOME={os.environ['HOME']}" in lines
    assert not any("hush-4711" in line or line.startswith("RAY_") for line in lines)
    assert begin(stand, "pwd").run().out.decode().strip().endswith(f"{stand.run.placement.nodes[0]}/beside/workdir")


def test_a_shell_opens_in_the_folder_of_the_rank(stand: Stand) -> None:
    program = stand.nodes.visit(stand.run, stand.run.placement.nodes[0], RANK0)
    said = subprocess.run(program, input=b"pwd; echo $TOKEN; exit 5\n", capture_output=True, cwd="/", timeout=30)
    assert said.returncode == 5
    assert said.stdout.decode().splitlines()[0].endswith("/beside/workdir")
    assert b"hush" not in said.stdout


def test_output_comes_while_the_command_runs_and_stop_ends_it(stand: Stand) -> None:
    heard = begin(stand, "sh", "-c", "trap '' TERM; echo begun; setsid sleep 300 & sleep 300", timeout=None)
    thread = threading.Thread(target=heard.run)
    thread.start()
    until(lambda: heard.out == b"begun\n")
    stand.nodes.stop_command(stand.run, stand.run.placement.nodes[0], heard.command)
    thread.join(15)
    assert not thread.is_alive()
    assert heard.status == 137
    assert marked() == []


def test_a_command_over_its_time_is_ended_with_all_that_it_started(stand: Stand) -> None:
    script = "trap '' TERM; env -i setsid sleep 301 & setsid sleep 300 & echo on; sleep 300"
    heard = begin(stand, "sh", "-c", script, timeout=1.0).run()
    assert isinstance(heard.error, RemoteError)
    assert heard.error.message == "the command was ended after its time"
    assert heard.out == b"on\n"
    assert marked() == []
    assert not alive("sleep", "301"), "one that cleared its environment"


def test_what_it_leaves_running_ends_with_it(stand: Stand) -> None:
    heard = begin(stand, "sh", "-c", "sleep 302 & env -i setsid sleep 302 & echo done").run()
    assert (heard.status, heard.out) == (0, b"done\n")
    assert not alive("sleep", "302")


def test_a_reader_that_goes_away_ends_it(stand: Stand) -> None:
    class GoneError(LaunchError):
        pass

    def hear(stream: Stream, part: bytes) -> None:
        raise GoneError("enough")

    command = Command(token="t2", argv=("sh", "-c", "echo x; sleep 303"), member=RANK0)
    with pytest.raises(GoneError):
        stand.nodes.exec_command(stand.run, stand.run.placement.nodes[0], command, hear)
    until(lambda: not alive("sleep", "303"))


def test_it_ends_with_the_run_and_not_with_a_rank(stand: Stand) -> None:
    node = stand.run.placement.nodes[0]
    heard = begin(stand, "sleep", "304", timeout=None)
    thread = threading.Thread(target=heard.run)
    thread.start()
    until(lambda: alive("sleep", "304"))
    rank = Kill(reason=REASON, node=node, level=Level.RANK, member=RANK0, gang=GangName("run"), attempt=9)
    local.ok(stand.nodes.perform(stand.run, rank))
    assert alive("sleep", "304")
    local.ok(stand.nodes.perform(stand.run, Release(reason=REASON, node=node)))
    thread.join(15)
    assert heard.status in (137, 143) or isinstance(heard.error, RemoteError)
    assert not alive("sleep", "304")
    again = begin(stand, "true").run()
    assert isinstance(again.error, RemoteError)
    assert again.error.message == "the agent is no longer running"


def alive(*argv: str) -> bool:
    wanted = "\0".join((*argv, "")).encode()
    return any(_cmdline(entry) == wanted for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _cmdline(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


def fetched(stand: Stand, path: str) -> tuple[dict[str, tarfile.TarInfo], tuple[str, ...]]:
    parts: list[bytes] = []
    left_out = stand.nodes.fetch(stand.run, stand.run.placement.nodes[0], path, parts.append)
    with tarfile.open(fileobj=io.BytesIO(b"".join(parts))) as archive:
        return {entry.name: entry for entry in archive}, left_out


def test_a_folder_comes_back_also_after_the_end(stand: Stand, tmp_path: Path) -> None:
    node = stand.run.placement.nodes[0]
    local.ok(stand.nodes.perform(stand.run, Release(reason=REASON, node=node)))
    workdir = stand.home / "nodes" / node / "beside" / "workdir"
    out = workdir / "out put"
    (out / "deep").mkdir(parents=True)
    (out / "deep" / "ü.bin").write_bytes(b"x" * 70_000)
    (out / "run.sh").write_text("true")
    (out / "run.sh").chmod(0o755)
    os.link(out / "run.sh", out / "same.sh")
    (out / "latest").symlink_to("deep")
    os.mkfifo(out / "pipe")
    (workdir / "short").symlink_to("out put")
    names, left_out = fetched(stand, "out put")
    assert set(names) == {"out put"} | {
        f"out put/{name}" for name in ("deep", "deep/ü.bin", "run.sh", "same.sh", "latest")
    }
    assert names["out put/same.sh"].isreg()
    assert names["out put/latest"].linkname == "deep"
    assert names["out put/run.sh"].mode == 0o755
    assert left_out == (f"{out / 'pipe'}: not a file",)
    assert "short/run.sh" in fetched(stand, "short")[0]
    with pytest.raises(RemoteError, match="No such file or directory"):
        fetched(stand, "nothing")
