"""What the launcher does where an agent is of another version."""

from dataclasses import replace
from pathlib import Path

import pytest

from launcher.core.model.observation import AgentReport, Seen
from launcher.core.model.receipt import Result
from launcher.core.model.run import Wanted
from launcher.errors import LaunchError
from launcher.runtime.protocol import PROTOCOL
from launcher.transport.agent.addresses import Addresses
from launcher.transport.nodes import ShellNodes
from tests import agents
from tests.agents import Agents


@pytest.fixture
def run(tmp_path: Path) -> agents.Run:
    return agents.make_run(16)


@pytest.fixture
def nodes(run: agents.Run, tmp_path: Path) -> ShellNodes:
    """Nodes whose agents are of another version."""
    shell = Agents(run, protocol=PROTOCOL + 1)
    return ShellNodes(Addresses(tmp_path, run.fleet, shell), shell, "me@here")


def test_a_run_is_not_driven_past_agents_of_another_version(run: agents.Run, nodes: ShellNodes) -> None:
    with pytest.raises(LaunchError, match=rf"protocol {PROTOCOL + 1}, not {PROTOCOL}") as caught:
        nodes.look(run)
    assert "`job`" in caught.value.message
    assert any("version of nvlaunch that started it" in hint for hint in caught.value.hints)


def test_a_run_that_is_to_end_is_ended_whatever_version_its_agents_are(run: agents.Run, nodes: ShellNodes) -> None:
    seen = nodes.look(replace(run, wanted=Wanted.NOTHING))
    assert set(seen.nodes.values()) == {Seen(agent=AgentReport())}
    answer = nodes.perform(run, agents.release(agents.slots(run)[0]))
    assert answer.result is Result.KILLED


def test_an_action_on_an_agent_of_another_version_fails_with_the_reason(run: agents.Run, nodes: ShellNodes) -> None:
    nodes.perform(run, agents.acquire(agents.slots(run)[0]))
    answer = nodes.perform(run, agents.prepare(agents.slots(run)[0]))
    assert answer.result is Result.FAILED
    assert "agent of `r000-n00`: protocol" in answer.message
