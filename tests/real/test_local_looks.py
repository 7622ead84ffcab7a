"""Looks at real agents, of which one hangs: nobody waits for it, and it is told apart from the others."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.core.model.actions import Acquire, PowerOff, Release, Unit
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Seen, Sighting, Unseen
from launcher.core.model.receipt import Result
from launcher.core.model.run import Run
from launcher.core.model.task import Group, TopologyRule
from launcher.ports import Nodes
from launcher.runtime import relay
from launcher.transport.agent import connection
from launcher.transport.nodes import ShellNodes
from launcher.transport.open import open_nodes
from tests.real import local
from tests.real.local import REASON, ok

N1, N2, N3 = (NodeName(f"r1-n{at}") for at in (1, 2, 3))


class Kept:
    """Three nodes whose agents live; nothing else was started."""

    def __init__(self, home: Path) -> None:
        fleet = local.inventory(home, racks=1, nodes=3)
        group = Group(name="main", topology=TopologyRule(), gpus=4, run="true")
        self.run: Run = local.place(fleet, f"looks-{os.getpid()}", group)
        self.nodes: Nodes = open_nodes(home, fleet, "somebody@here")
        for name in (N1, N2, N3):
            ok(self.nodes.perform(self.run, Acquire(reason=REASON, node=name)))

    def agent(self, node: NodeName) -> int:
        """Return the process of a node's agent."""
        mark = f"NVLAUNCH_AGENT={self.run.id}:{node}".encode()
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if folder.name.isdecimal() and mark in (folder / "environ").read_bytes().split(b"\0"):
                    return int(folder.name)
        raise LookupError(node)


@pytest.fixture
def kept(home: Path) -> Iterator[Kept]:
    made = Kept(home)
    yield made
    for name in (N1, N2, N3):
        ok(made.nodes.perform(made.run, Release(reason=REASON, node=name)))
    made.nodes.close()


def test_a_agent_that_hangs_holds_up_nobody_and_is_seen_again_when_it_goes_on(kept: Kept) -> None:
    kept.nodes.look(kept.run)
    stopped = kept.agent(N1)
    os.kill(stopped, signal.SIGSTOP)
    try:
        longest, deadline = 0.0, time.monotonic() + 30
        while True:
            begun = time.monotonic()
            seen = kept.nodes.look(kept.run)
            longest = max(longest, time.monotonic() - begun)
            assert isinstance(seen.nodes[N2], Seen)
            assert isinstance(seen.nodes[N3], Seen)
            view = seen.nodes[N1]
            if isinstance(view, Unseen) and N1 in seen.reached:
                break
            assert time.monotonic() < deadline, seen
            time.sleep(0.2)
        assert longest < 2.0
        assert "did not answer within" in view.message
        assert ", since " in view.message
        assert seen.reached[N1].answers, "its machine is this one"
        assert seen.reached[N1].by in (N2, N3)
    finally:
        os.kill(stopped, signal.SIGCONT)
    back = time.monotonic()
    while not isinstance(kept.nodes.look(kept.run).nodes[N1], Seen):
        assert time.monotonic() - back < 10
        time.sleep(0.1)


def test_a_killed_agent_is_seen_as_gone(kept: Kept) -> None:
    os.kill(kept.agent(N1), signal.SIGKILL)
    deadline = time.monotonic() + 10
    while kept.nodes.look(kept.run).nodes[N1] != Seen():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_what_asks_the_agents_may_die_and_is_started_again(kept: Kept) -> None:
    before = kept.nodes.look(kept.run)
    children = Path(f"/proc/{os.getpid()}/task")
    pids = {pid for task in children.iterdir() for pid in (task / "children").read_text().split()}
    for pid in pids:
        if b"Asks the agents of a machine" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(int(pid), signal.SIGKILL)
    deadline = time.monotonic() + 10
    while kept.nodes.look(kept.run).nodes != before.nodes:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_agents_and_the_heads_agent_hear_each_other(kept: Kept) -> None:
    nodes = kept.nodes
    assert isinstance(nodes, ShellNodes)
    ok(nodes._provision.ensure_agent(kept.run, nodes._addresses.head(kept.run)))

    def until(holds: Callable[[Sighting], bool]) -> Sighting:
        deadline = time.monotonic() + 20
        while not holds(seen := nodes.look(kept.run)):
            assert time.monotonic() < deadline, seen
            time.sleep(0.1)
        return seen

    try:
        until(lambda seen: all(_silence(seen, node) is not None for node in (N1, N2, N3)))
        seen = until(lambda seen: all(_heard(seen, node) < 3 for node in (N1, N2, N3)))
        assert all((_silence(seen, node) or 0.0) < 3 for node in (N1, N2, N3))
        stopped = kept.agent(N2)
        os.kill(stopped, signal.SIGSTOP)
        try:
            seen = until(lambda seen: _heard(seen, N2) > 5)
            assert _heard(seen, N1) < 3
        finally:
            os.kill(stopped, signal.SIGCONT)
        until(lambda seen: _heard(seen, N2) < 3)
    finally:
        ok(nodes.perform(kept.run, Release(reason=REASON, node=kept.run.head, unit=Unit.HEAD)))
    gone = time.monotonic()
    while time.monotonic() - gone < 5:
        seen = nodes.look(kept.run)
        assert all((_silence(seen, node) or 0.0) < 4 for node in (N1, N2, N3)), "its machine answers all the same"
        time.sleep(0.5)


def test_nodes_are_seen_through_the_heads_agent_and_asked_themselves_where_it_misses_them(kept: Kept) -> None:
    nodes = kept.nodes
    assert isinstance(nodes, ShellNodes)
    poller, clients = nodes._poller, [nodes._addresses.slot(kept.run, name) for name in (N1, N2, N3)]
    ok(nodes._provision.ensure_agent(kept.run, nodes._addresses.head(kept.run)))

    def look() -> tuple[Sighting, int]:
        """Look; return how many nodes have answered themselves."""
        begun = time.monotonic()
        seen = nodes.look(kept.run)
        assert all(isinstance(seen.nodes[name], Seen) for name in (N2, N3))
        return seen, sum(unit.of >= begun for unit in poller.standing(clients))

    deadline = time.monotonic() + 30
    while look()[1]:
        assert time.monotonic() < deadline, "the head's agent never has all of them"
        time.sleep(0.2)
    asked = sum(look()[1] for _ in range(30))
    assert asked <= 10, f"{asked} of 90: in turn alone"
    stopped = kept.agent(N1)
    os.kill(stopped, signal.SIGSTOP)
    begun = time.monotonic()
    try:
        while isinstance(look()[0].nodes[N1], Seen):
            assert time.monotonic() - begun < 10
            time.sleep(0.2)
        assert time.monotonic() - begun < 6.0, "as soon as if it was always asked"
        assert poller.standing(clients)[0].missed, "by us, not by the head alone"
    finally:
        os.kill(stopped, signal.SIGCONT)
    while not isinstance(look()[0].nodes[N1], Seen):
        assert time.monotonic() - begun < 30
        time.sleep(0.1)
    os.kill(kept.agent(N1), signal.SIGKILL)
    begun = time.monotonic()
    while look()[0].nodes[N1] != Seen():
        assert time.monotonic() - begun < 8, "an agent that is gone"
        time.sleep(0.1)
    ok(nodes.perform(kept.run, Release(reason=REASON, node=kept.run.head, unit=Unit.HEAD)))


def _heard(seen: Sighting, node: NodeName) -> float:
    return local.head(seen).heard.get(node, float("inf"))


def _silence(seen: Sighting, node: NodeName) -> float | None:
    return local.agent(seen, node).head_silent


def test_power_is_switched_off_by_the_inventorys_command_alone(kept: Kept, tmp_path: Path) -> None:
    action = PowerOff(reason=REASON, node=N1)
    assert kept.nodes.perform(kept.run, action).result is Result.FAILED
    script = tmp_path / "fence"
    script.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/said\necho "switch of $1" >&2\nexit "$2"\n')
    script.chmod(0o700)

    def with_command(status: int) -> Run:
        command = f"{script} 'of {{node}} at {{address}}' {status}"
        return replace(kept.run, fleet=replace(kept.run.fleet, fence_command=command))

    done = kept.nodes.perform(with_command(0), action)
    assert (done.result, done.stage) == (Result.POWERED_OFF, "power_off")
    assert (tmp_path / "said").read_text() == f"of {N1} at 127.0.41.1 0\n"
    refused = kept.nodes.perform(with_command(3), action)
    assert refused.result is Result.FAILED
    assert refused.message == f"`fence_command` ended with 3: switch of of {N1} at 127.0.41.1"


def test_a_node_whose_agent_is_just_starting_is_not_taken_for_a_free_one(home: Path) -> None:
    fleet = local.inventory(home, racks=1, nodes=1)
    run = local.place(fleet, f"starts-{os.getpid()}", Group(name="main", topology=TopologyRule(), run="true"))
    nodes = open_nodes(home, fleet, "somebody@here")
    assert isinstance(nodes, ShellNodes)
    site = nodes._addresses.slot(run, N1)
    nodes._provision.put(run, site)
    scratch = Path(site.layout.scratch)
    scratch.mkdir(mode=0o700)
    try:
        with (scratch / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # as whoever starts an agent does
            view = nodes.look(run).nodes[N1]
            assert isinstance(view, Unseen)
            assert "the agent is starting" in view.message
        view = nodes.look(run).nodes[N1]
        assert isinstance(view, Seen)
        assert (view.agent, view.leftovers) == (None, 0)
    finally:
        ok(nodes.perform(run, Release(reason=REASON, node=N1)))
        nodes.close()


def test_a_machine_that_is_slow_to_look_for_leftovers_is_waited_for_and_asked_once(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (tmp_path / relay.BEGUN).touch()
    slow = 'import time; time.sleep(4); print(\'{"ok": true, "agent": null, "leftovers": 0}\')'
    (package / "__main__.py").write_text(slow)
    where = {"socket": str(tmp_path / "none"), "package": str(package), "root": str(tmp_path)}
    asked = {"key": ["r", "n"], "question": {"op": "status"}, "limit": connection.AGENT_S, **where}
    line = json.dumps(asked).encode() + b"\n"
    argv = [sys.executable, "-EsS", "-c", Path(relay.__file__).read_text()]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin
        assert program.stdout
        program.stdin.write(line)
        program.stdin.flush()
        signs = 0
        while not (said := program.stdout.readline()).strip():
            assert said, "it ended"
            signs += 1
        assert json.loads(said)["answer"]["leftovers"] == 0
        assert signs >= 2, "a connection without a word for so long would have been given up"
        (package / "__main__.py").write_text("raise SystemExit('asked again')")
        program.stdin.write(line)
        program.stdin.close()
        assert json.loads(program.stdout.readline())["answer"]["leftovers"] == 0
