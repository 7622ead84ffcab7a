"""A rank's parent without a cluster: what it asks of the agent, and that no rank outlives what that said last."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

deadline = importlib.import_module("launcher.runtime.deadline")
procs = importlib.import_module("launcher.runtime.procs")
ranks = importlib.import_module("launcher.runtime.ranks")
shared = importlib.import_module("launcher.runtime.shared")
rpc = importlib.import_module("launcher.runtime.rpc")
PACKAGE = Path(rpc.__file__).parent
MARK = "r:n1:0:main/0:1"


class AgentReport:
    """What stands in for an agent: a process that may be stopped, and the answers that it would give."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(["sleep", "600"])
        self.deadline = deadline.Deadline(folder / "deadline")
        self.asked: list[dict[str, Any]] = []
        self.refusal = ""
        self.more: dict[str, Any] = {}
        socket = str(folder / "agent.sock")
        spec = {"run": "r", "place": "n1", "scratch": str(folder / "scratch"), "socket": socket}
        (folder / "agent.json").write_text(json.dumps(spec))
        (folder / "secrets.json").write_text("{}")
        (folder / "workdir").mkdir()
        document = {"envs": {"main": {}}, "addresses": {}}
        shared.keep(folder, "abc", lambda: zlib.compress(json.dumps(document).encode()))
        rpc.serve(Path(socket), self._reply)

    def _reply(self, question: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(question)
        if self.refusal:
            return {"ok": False, "message": self.refusal}
        base = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        paths = {"secrets": str(self.folder / "secrets.json"), "deadline": str(self.folder / "deadline")}
        return {"ok": True, "base": base, "agent": self.process.pid, **paths, **self.more}

    def begin(self, script: str) -> "subprocess.Popen[bytes]":
        (self.folder / "run.sh").write_text(script)
        own = self.folder / "ranks" / "main-0" / "1"
        own.mkdir(parents=True)
        variables = {"shared": "abc", "group": "main", "node": {}, "own": {}, "addresses": {}}
        spec = {"member": "main/0", "gang": "run", "attempt": 1, "script": "run.sh", "variables": variables}
        (own / "spec.json").write_text(json.dumps(spec))
        argv = [sys.executable, "-EsS", str(PACKAGE), "rank", str(self.folder), "main-0", "1"]
        return subprocess.Popen(argv, env={**os.environ, "NVLAUNCH_MARK": MARK}, stderr=subprocess.PIPE)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentReport]:
    made = AgentReport(tmp_path)
    yield made
    made.process.kill()
    made.process.wait()


def until(holds: Callable[[], bool], limit: float = 20.0) -> None:
    deadline = time.monotonic() + limit
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# A rank that writes as fast as it can, through a child that hides: no parent, no environment, a session of its own.
WRITES = """
(setsid env -i PATH="$PATH" bash -c 'while :; do date +%s.%N >> "$0"; done' "$PWD/../written" &)
echo "$NVLAUNCH_HEARTBEAT"
while :; do sleep 1; done
"""


def test_nothing_of_a_rank_writes_after_the_moment_that_its_stopped_agent_published(agent: AgentReport) -> None:
    rank = agent.begin(WRITES)
    written = agent.folder / "written"
    until(written.exists)
    agent.process.send_signal(signal.SIGSTOP)
    end = deadline.now() + 1.0
    agent.deadline.put(end)
    rank.wait(20)
    late = deadline.now() - end
    size = written.stat().st_size
    assert late < 3.0, "the margin of three seconds is for this"
    time.sleep(0.3)
    assert written.stat().st_size == size
    assert not (agent.folder / "ranks" / "main-0" / "1" / "exit.json").exists(), "it did not end by itself"


def test_a_rank_lives_while_its_moment_is_put_off(agent: AgentReport) -> None:
    rank = agent.begin(WRITES)
    for _ in range(8):
        agent.deadline.put(deadline.now() + 1.0)
        time.sleep(0.3)
    assert rank.poll() is None
    agent.process.kill()
    agent.process.wait()
    rank.wait(20)


def test_a_rank_that_was_killed_does_not_begin_and_is_told_why(agent: AgentReport) -> None:
    agent.refusal = "attempt 1 of `main/0` is over on this node: it was killed"
    rank = agent.begin("touch ../began")
    _, said = rank.communicate(timeout=20)
    assert rank.returncode == 4
    assert agent.refusal in said.decode()
    assert not (agent.folder / "began").exists()
    (asked,) = agent.asked
    assert (asked["member"], asked["generation"], asked["attempt"]) == ("main/0", 0, 1)


def test_a_rank_is_told_where_its_heartbeat_goes(agent: AgentReport) -> None:
    rank = agent.begin('touch "$NVLAUNCH_HEARTBEAT"')
    assert rank.wait(20) == 0
    assert (agent.folder / "ranks" / "main-0" / "1" / "heartbeat").exists()


# As most people write it: the program is a child of the shell, which a signal ends at once.
CHECKPOINTS = """
python3 -c '
import pathlib, signal, sys, time
def save(*_):
    time.sleep(1.5)
    pathlib.Path("../saved").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
pathlib.Path("../begun").touch()
time.sleep(600)
'
echo never
"""


@pytest.mark.parametrize("told", [True, False])
def test_a_rank_that_is_told_to_stop_has_ended_when_its_program_has(agent: AgentReport, told: bool) -> None:
    agent.deadline.put(deadline.now() + 60.0)
    rank = agent.begin(CHECKPOINTS)
    until((agent.folder / "begun").exists)
    if told:
        ranks.tell_to_stop(agent.folder, None)
    found = procs.scan(procs.Scope(run="r", place="n1", level="rank", member="main/0", attempt=1))
    procs.send([one for one in found if one.pid != rank.pid], signal.SIGTERM)
    assert rank.wait(20) == 0
    assert (agent.folder / "saved").exists() is told
    ended = json.loads((agent.folder / "ranks" / "main-0" / "1" / "exit.json").read_text())
    assert ended["code"] == 128 + signal.SIGTERM
    procs.kill(procs.Scope(run="r", place="n1"), grace=0)


def test_the_end_of_a_rank_that_cannot_be_written_down_is_told_to_the_agent(agent: AgentReport) -> None:
    rank = agent.begin("mkdir ../ranks/main-0/1/exit.json; exit 7")  # a folder in its place: no file can take that
    rank.wait(20)
    assert rank.returncode == 0
    (told,) = (asked for asked in agent.asked if asked["op"] == "ended")
    assert (told["member"], told["attempt"], told["end"]["code"]) == ("main/0", 1, 7)


def test_the_end_of_a_rank_is_kept_until_its_agent_takes_it(agent: AgentReport) -> None:
    rank = agent.begin("until [ -e go ]; do sleep 0.05; done; mkdir ../ranks/main-0/1/exit.json; exit 7")
    until((agent.folder / "ranks/main-0/1/state.json").exists)
    agent.refusal = "not now"
    (agent.folder / "workdir" / "go").touch()
    until(lambda: sum(asked["op"] == "ended" for asked in agent.asked) >= 2)
    assert rank.poll() is None, "it counts as running until somebody knows how it ended"
    agent.refusal = ""
    rank.wait(20)
    assert rank.returncode == 0


def test_a_rank_starts_with_what_bashrc_gives_and_the_umask_of_the_login(agent: AgentReport) -> None:
    agent.deadline.put(deadline.now() + 60)
    agent.more = {"login": True, "umask": 0o007}
    (agent.folder / ".bashrc").write_text("echo noise; greet() { echo hello; }; export Q=1\n")
    assert agent.begin("greet; echo $Q $(umask)").wait(20) == 0
    assert (agent.folder / "ranks/main-0/1/log").read_text() == "hello\n1 0007\n"
    assert (agent.folder / "ranks/main-0/1/exit.json").stat().st_mode & 0o077 == 0


def test_a_bashrc_that_leaves_is_named_in_the_log_of_the_rank(agent: AgentReport) -> None:
    agent.deadline.put(deadline.now() + 60)
    agent.more = {"login": True, "umask": 0o022}
    (agent.folder / ".bashrc").write_text("exit 3\n")
    assert agent.begin("echo ran").wait(20) == 0
    first, *rest = (agent.folder / "ranks/main-0/1/log").read_text().splitlines()
    assert first.startswith("nvlaunch: the login of `")
    assert first.endswith("ended with 3: `~/.bashrc`? It is left out")
    assert rest == ["ran"]
