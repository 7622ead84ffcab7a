"""`exec` and `sync-down` as people type them, on local nodes: agents are real, Ray is not needed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from launcher.core.model.actions import Acquire, Prepare
from launcher.core.model.run import RunName
from launcher.core.model.task import Group, TopologyRule
from launcher.store.store import Store
from tests.real import local
from tests.real.local import REASON, Stand


@pytest.fixture(scope="module")
def desk(home: Path) -> Iterator[Stand]:
    """A run of two ranks that the command knows; both nodes are claimed and prepared."""
    group = Group(name="main", topology=TopologyRule(), gpus=4, run="true")
    wanted = local.place(local.inventory(home, racks=1, nodes=2), "x", group)
    placement = wanted.placement
    run = Store(home).launch(
        name=RunName("job"),
        task=wanted.task,
        fleet=wanted.fleet,
        decide=lambda _: placement,
        source="task.yaml",
        at=time.time(),
    )
    made = Stand(home, run)
    for slot in made.slots:
        local.ok(made.nodes.perform(run, Acquire(reason=REASON, node=slot.node)))
        local.ok(made.nodes.perform(run, Prepare(reason=REASON, node=slot.node, member=slot.member)))
    yield made
    made.take_down()
    made.nodes.close()


def begin(desk: Stand, *words: str) -> "subprocess.Popen[bytes]":
    env = {**os.environ, "NVLAUNCH_HOME": str(desk.home), "NO_COLOR": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "launcher.cli", *words],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(desk: Stand, *words: str) -> tuple[int, bytes, str]:
    with begin(desk, *words) as process:
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err.decode()


def test_one_output_passes_as_it_is_and_several_line_by_line(desk: Stand) -> None:
    assert run(desk, "exec", "job", "--", "printf", r"\000no line end") == (0, b"\0no line end", "")
    code, out, err = run(desk, "exec", "job", "--all", "--", "sh", "-c", "echo one; printf two; echo err >&2")
    assert code == 0
    assert sorted(out.splitlines()) == [f"[main/{rank}] {word}".encode() for rank in (0, 1) for word in ("one", "two")]
    assert sorted(err.splitlines()) == ["[main/0] err", "[main/1] err"]


def test_ranks_that_failed_are_named_each_with_its_code(desk: Stand) -> None:
    script = "case $PWD in *n2*) exit 7;; esac"
    code, _, err = run(desk, "exec", "job", "--all", "--", "sh", "-c", script)
    assert code == 1
    assert "error: `sh` failed on 1 of 2: main/1: exited with 7\n" in err
    assert run(desk, "exec", "job", "--", "sh", "-c", "exit 9")[2] == "error: `sh` failed on `main/0`: exited with 9\n"
    code, _, err = run(desk, "exec", "job", "--all", "--timeout", "1", "--", "sleep", "305")
    assert (code, "failed on 2 of 2: main/[0-1]: the command was ended after its time" in err) == (1, True)
    assert not sleeping("305")


def test_ctrl_c_ends_the_commands_on_the_nodes(desk: Stand) -> None:
    with begin(desk, "exec", "job", "--all", "--", "sh", "-c", "trap '' TERM INT; sleep 306") as process:
        until_sleeping("306", 2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"stopping `sh` on main/[0-1]" in err
    assert not sleeping("306")


def test_a_command_whose_launcher_is_killed_is_ended(desk: Stand) -> None:
    with begin(desk, "exec", "job", "--", "sleep", "307") as process:
        until_sleeping("307", 1)
        process.kill()
        process.communicate()
    deadline = time.monotonic() + 15
    while sleeping("307"):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_pipe_that_is_closed_ends_it_quietly(desk: Stand) -> None:
    with begin(desk, "exec", "job", "--", "sh", "-c", "yes; sleep 308") as process:
        assert process.stdout
        assert process.stdout.read(2) == b"y\n"
        process.stdout.close()
        assert process.wait(30) == 0
    assert not sleeping("308")


def test_files_come_back_below_the_ranks(desk: Stand, tmp_path: Path) -> None:
    script = "mkdir -p 'my out'; pwd > 'my out/where'; ln -s /etc/passwd 'my out/away'; ln -s where 'my out/here'"
    assert run(desk, "exec", "job", "--all", "--", "sh", "-c", script)[0] == 0
    code, _, err = run(desk, "sync-down", "job", "my out", str(tmp_path), "--all")
    assert code == 4
    assert "a link out of the target folder, to `/etc/passwd`" in err
    for rank in (0, 1):
        assert f"n{rank + 1}/" in (tmp_path / str(rank) / "my out" / "here").read_text()
        assert not (tmp_path / str(rank) / "my out" / "away").is_symlink()
    code, _, err = run(desk, "sync-down", "job", "nothing", str(tmp_path))
    assert code == 4
    assert "main/0: " in err
    assert "No such file or directory" in err


def test_many_at_once_do_not_mix_their_lines(desk: Stand) -> None:
    script = "i=0; while [ $i -lt 300 ]; do echo $PWD-$PWD; i=$((i+1)); done"
    with ThreadPoolExecutor(2) as pool:
        for code, out, _ in pool.map(lambda _: run(desk, "exec", "job", "--all", "--", "sh", "-c", script), range(2)):
            assert code == 0
            assert len(set(out.splitlines())) == 2


def sleeping(seconds: str) -> list[int]:
    wanted = f"sleep\0{seconds}\0".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cmdline").read_bytes() == wanted:
                found.append(int(entry.name))
        except OSError:
            pass  # gone meanwhile
    return found


def until_sleeping(seconds: str, count: int) -> None:
    deadline = time.monotonic() + 30
    while len(sleeping(seconds)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_ctrl_c_leaves_no_half_of_a_file(desk: Stand, tmp_path: Path) -> None:
    """The source never ends, as that of a file that grows faster than it is sent."""
    assert run(desk, "exec", "job", "--", "truncate", "-s", "1T", "endless")[0] == 0
    with begin(desk, "sync-down", "job", "endless", str(tmp_path)) as process:
        deadline = time.monotonic() + 30
        while not list(tmp_path.glob("0/.nvlaunch-*")):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 130
    assert list((tmp_path / "0").iterdir()) == []
