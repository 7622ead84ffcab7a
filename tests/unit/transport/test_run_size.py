"""What a node costs the launcher does not depend on how many others its run has. Work is counted, not timed."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from launcher.core.model.actions import Join, Signal
from launcher.core.model.receipt import Result
from launcher.core.model.run import GangName, Run
from launcher.core.model.task import Group, RecoveryPolicy, RestartWith, TopologyRule
from launcher.transport.agent.addresses import Addresses
from launcher.transport.nodes import ShellNodes
from tests import agents
from tests.agents import REASON, Agents

SMALL, LARGE = 64, 256
ALLOWED = 1.02
SLACK = 20
"""Lines more than that, for what waits a turn longer."""


class Bench:
    """A run whose nodes are all acquired, and a shell that counts."""

    def __init__(self, home: Path, size: int, *groups: Group) -> None:
        self.run: Run = agents.make_run(size, *groups)
        self.size = size
        self.shell = Agents(self.run)
        self.nodes = ShellNodes(Addresses(home, self.run.fleet, self.shell), self.shell, "me@here")
        self.slots = agents.slots(self.run)
        self.act(agents.start_head())
        for slot in self.slots:
            self.act(agents.acquire(slot))

    def act(self, action: Any) -> None:
        """Do an action, which has to go well."""
        answer = self.nodes.perform(self.run, action)
        assert answer.result is Result.DONE, answer

    def cost(self, act: Callable[[], object]) -> tuple[int, int]:
        """Return how many lines of ours are run, and how many bytes sent."""
        lines, sent = 0, self.shell.sent

        def line(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal lines
            lines += event == "line"
            return line

        before = sys.gettrace()
        sys.settrace(line)
        try:
            act()
        finally:
            sys.settrace(before)
        return lines, self.shell.sent - sent


ONE = (Group(name="main", topology=TopologyRule(), gpus=4, run="train", setup="prepare"),)
TWO = tuple(replace(ONE[0], name=name, envs={"A": "x" * 500}) for name in ("actor", "learner"))
DRIVEN = (replace(ONE[0], run="", driver="drive"),)


@pytest.fixture(scope="module", params=[ONE, TWO, DRIVEN], ids=["one group", "two groups", "a driver"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Bench, Bench]:
    """A small run and a large one, alike; each test acts on both."""
    home = tmp_path_factory.mktemp("runs")
    small, large = (Bench(home / str(size), size, *request.param) for size in (SMALL, LARGE))
    return small, large


def flat(small: tuple[int, int], large: tuple[int, int], *, nodes: int = 1) -> None:
    """Check that the large run costs no more a node; `nodes` is how many times as many nodes it concerns."""
    assert small[0]
    assert large[0] <= ALLOWED * nodes * small[0] + SLACK, "lines run"
    assert large[1] <= ALLOWED * nodes * small[1], "bytes sent"


def test_to_prepare_a_node(pair: tuple[Bench, Bench]) -> None:
    small, large = (bench.cost(lambda bench=bench: bench.act(agents.prepare(bench.slots[-1]))) for bench in pair)
    flat(small, large)


def test_to_start_a_raylet(pair: tuple[Bench, Bench]) -> None:
    small, large = (
        bench.cost(lambda bench=bench: bench.act(Join(reason=REASON, slot=bench.slots[-1]))) for bench in pair
    )
    flat(small, large)


def test_to_signal_one_gang_on_a_node(pair: tuple[Bench, Bench]) -> None:
    def signal(bench: Bench) -> None:
        bench.act(Signal(reason=REASON, node=bench.slots[-1].node, signal="TERM", gang=GangName("run")))

    small, large = (bench.cost(lambda bench=bench: signal(bench)) for bench in pair)
    flat(small, large)


def test_to_start_all_ranks(pair: tuple[Bench, Bench]) -> None:
    small, large = (bench.cost(lambda bench=bench: bench.act(agents.start(bench.run))) for bench in pair)
    flat(small, large, nodes=LARGE // SMALL)


def test_to_look_at_a_run(pair: tuple[Bench, Bench]) -> None:
    for bench in pair:
        bench.nodes.look(bench.run)
    small, large = (bench.cost(lambda bench=bench: bench.nodes.look(bench.run)) for bench in pair)
    flat(small, large, nodes=LARGE // SMALL)


def test_what_ranks_share_is_sent_to_the_head_once_for_all_gangs(tmp_path: Path) -> None:
    alone = replace(ONE[0], recovery=RecoveryPolicy(restart_with=RestartWith.MEMBER))
    sent = []
    for size in (SMALL, LARGE):
        bench = Bench(tmp_path / str(size), size, alone)
        bench.act(agents.start(bench.run, "main/0"))
        sent.append(bench.cost(lambda bench=bench: bench.act(agents.start(bench.run, "main/1")))[1])
    assert sent[1] <= ALLOWED * sent[0]
