"""Who is asked in a look: the head's agent for all nodes, and those nodes directly that are in doubt.

The real transport over stand-in agents, whose head keeps statuses on the board of a real one.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.core.model.inventory import Access
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import NodeView, Seen, Unseen
from launcher.core.model.run import Run
from launcher.core.model.task import Group, RecoveryPolicy, TopologyRule
from launcher.ports import Completed
from launcher.runtime.protocol import PROTOCOL
from launcher.runtime.protocol_views import packed, without_texts
from launcher.runtime.status_board import StatusBoard
from launcher.transport.agent import direct, poller
from launcher.transport.agent.addresses import Addresses
from launcher.transport.agent.unit_view import UnitStanding
from launcher.transport.nodes import ShellNodes
from tests import agents
from tests.agents import Agents, Wire

HEAD = "10.0.0.1"
SIZE = 96
N5 = NodeName("r000-n05")
FAILED: dict[str, Any] = {
    "ranks": [{"member": "main/5", "attempt": 1, "running": False, "exit_code": 1, "ended_ago": 0.2, "tail": ["bad"]}]
}


class Heard(Agents):
    """Agents that the head's agent hears, too; what each says can be changed, for both or for one of them."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.board = StatusBoard(time.monotonic)
        self.asked: Counter[str] = Counter()
        self.silent: set[str] = set()
        self.missed: dict[str, float] = {}
        self._versions: Counter[str] = Counter()
        self._said: dict[str, dict[str, Any]] = {}
        self._names = {node.access.address: node.name for node in run.fleet.nodes}
        members = {slot.node: slot.member for slot in agents.slots(run)}
        for node in run.fleet.nodes:
            self.says(node.name, **agents._node_status(members[node.name]))

    def says(self, node: str, *, to_head: bool = True, **fields: Any) -> None:
        """Let the agent of a node say something else from now on."""
        self._versions[node] += 1
        own = {"protocol": PROTOCOL, **self._said.get(node, {}), **fields}
        self._said[node] = {**own, "version": ["f" * 16, self._versions[node]]}
        if to_head:
            self.head_has(node)

    def head_has(self, node: str, **fields: Any) -> None:
        """Let the head have what the node says, or this."""
        data = packed(without_texts({**self._said[node], **fields})).encode()
        assert self.board.put(node, b"state 0 0 " + data, time.monotonic())

    def gone(self, node: str) -> None:
        """Let the agent of a node be gone, of which the head has not heard."""
        self._said[node] = {"ok": True, "agent": None, "leftovers": 0}

    def reply(self, at: Access, question: dict[str, Any]) -> bytes:
        name = self._names.get(at.address, "")
        if question["op"] == "views":
            for node in self._said:
                self.board.confirm(node, b"beat 0", time.monotonic() - self.missed.get(node, 0.0))
            answer = self.board.reply(tuple(question["since"]))
            for node, age in self.missed.items():
                answer["views"]["late"][node] = age
            return json.dumps(answer).encode()
        if question["op"] == "status" and name:
            self.asked[name] += 1
            return json.dumps(self._said[name]).encode()
        return super().reply(at, question)

    def run(self, at: Access, argv: Any, **more: Any) -> Completed:
        return super().run(at, argv, **more)

    def converse(self, at: Access, argv: Any, *, timeout: float, knock: float) -> Wire:
        return MuteWire(self, at)


class MuteWire(Wire):
    """A connection to a machine that may be silent."""

    def send(self, data: bytes) -> None:
        assert isinstance(self._agents, Heard)
        if self._at.address not in self._agents.silent:
            super().send(data)


class Stage:
    """One run of a steady fleet."""

    def __init__(self, home: Path, group: Group | None = None) -> None:
        self.run = agents.make_run(SIZE, *([group] if group else []))
        self.shell = Heard(self.run)
        self.addresses = {node.name: node.access.address for node in self.run.fleet.nodes}
        self.nodes = ShellNodes(Addresses(home, self.run.fleet, self.shell), self.shell, "me@here")  # type: ignore[arg-type]

    def look(self) -> dict[NodeName, NodeView]:
        """Look once; `asked` has afterwards who was asked directly."""
        self.shell.asked.clear()
        seen = self.nodes.look(self.run)
        self.warnings = seen.warnings
        return dict(seen.nodes)

    def forget(self) -> None:
        """Let the last word of each node itself be of long ago."""
        for client in self.nodes._observer._looks[self.run.id]._clients.values():
            self.nodes._poller._view(client).of -= 60.0

    @property
    def asked(self) -> set[str]:
        return set(self.shell.asked)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Whose first looks are over, and in which nobody is asked in turn."""
    monkeypatch.setattr(poller, "PATIENCE_S", 5.0)
    monkeypatch.setattr(direct, "SMALL_S", 1e9)
    monkeypatch.setattr(direct, "TURN_S", 1e9)
    made = Stage(tmp_path)
    made.look()
    assert len(made.asked) == SIZE, "nothing is known yet"
    made.look()
    yield made
    made.nodes.close()


def ended(view: NodeView) -> bool:
    """Whether a rank has ended on a node that is seen."""
    return isinstance(view, Seen) and view.agent is not None and any(not rank.running for rank in view.agent.ranks)


def test_in_a_steady_run_the_heads_agent_alone_is_asked(stage: Stage) -> None:
    for _ in range(5):
        views = stage.look()
        assert not stage.asked
        assert all(isinstance(view, Seen) for view in views.values())


def test_a_few_nodes_are_asked_in_turn_and_all_of_them_in_the_end() -> None:
    names = [NodeName(f"n{at}") for at in range(2000)]
    turns = direct.Turns(names, 0.0)
    told: Counter[str] = Counter()
    for second in range(1, int(direct.TURN_S) + 2):
        due = turns.due(float(second))
        assert len(due) <= direct.MOST_A_SECOND
        told.update(due)
    assert set(told) == set(names)
    few = direct.Turns(names[:10], 0.0)
    assert {name for second in range(1, 25) for name in few.due(float(second))} == set(names[:10])
    many = direct.Turns([NodeName(f"n{at}") for at in range(9984)], 0.0)
    assert max(len(many.due(float(second))) for second in range(1, 60)) <= direct.MOST_A_SECOND + 1


def test_what_ends_on_a_node_is_asked_for_and_seen_in_the_same_look(stage: Stage) -> None:
    stage.shell.says(N5, **FAILED)
    views = stage.look()
    assert stage.asked == {N5}
    assert [name for name, view in views.items() if ended(view)] == [N5]
    stage.look()
    assert not stage.asked, "it is known now"


def test_the_last_lines_of_a_program_come_from_its_node_and_stay(stage: Stage) -> None:
    stage.shell.says(N5, **FAILED)
    stage.look()
    stage.forget()
    view = stage.look()[N5]
    assert not stage.asked
    assert isinstance(view, Seen)
    assert view.agent is not None
    assert view.agent.ranks[0].tail == ("bad",)


def test_a_head_that_invents_an_end_is_caught_before_it_counts(stage: Stage) -> None:
    stage.shell.head_has(N5, **FAILED)
    views = stage.look()
    assert not any(ended(view) for view in views.values())
    assert len(stage.warnings) == 1
    assert "the head's agent changed a status on its way (`r000-n05`)" in stage.warnings[0]
    stage.look()
    assert len(stage.asked) == SIZE
    assert not stage.warnings, "it is said once"


def test_a_node_that_the_head_misses_is_asked_and_seen_by_its_own_word(stage: Stage) -> None:
    stage.shell.missed = {N5: 6.0}
    views = stage.look()
    assert stage.asked == {N5}
    assert isinstance(views[N5], Seen)


def test_a_node_that_the_head_misses_is_unseen_only_once_we_have_asked_it_in_vain(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poller, "PATIENCE_S", 0.3)
    stage.shell.missed, stage.shell.silent = {N5: 6.0}, {stage.addresses[N5]}
    look = stage.nodes._observer._looks[stage.run.id]
    before = UnitStanding(of=0.0, touched=0.0, failing=0.0, missed=False, acting=False, connected=False)
    stage.forget()
    views = stage.look()
    assert isinstance(views[N5], Unseen)
    assert sum(isinstance(view, Unseen) for view in views.values()) == 1
    assert look._is_streamed(N5, before, time.monotonic()), "its question waits for its turn: we have not missed it"
    assert not look._is_streamed(N5, before._replace(missed=True), time.monotonic())


def test_a_node_that_cannot_be_asked_is_unseen_whatever_the_head_says(stage: Stage) -> None:
    look = stage.nodes._observer._looks[stage.run.id]
    failing = UnitStanding(of=0.0, touched=0.0, failing=4.0, missed=True, acting=False, connected=False)
    at = look._stream.asked + 0.1
    assert not look._is_streamed(N5, failing, at)
    assert look._is_streamed(N5, failing._replace(failing=1.0), at), "one failed login is no silence"


def test_after_an_action_a_node_is_asked_itself_until_the_head_has_its_news(stage: Stage) -> None:
    slot = agents.slots(stage.run)[5]
    stage.nodes.perform(stage.run, agents.prepare(slot))
    stage.shell.says(N5, to_head=False, **FAILED)
    assert ended(stage.look()[N5])
    assert stage.asked == {N5}
    for _ in range(3):
        assert ended(stage.look()[N5]), "the head's older word is not shown again"
    stage.shell.head_has(N5)
    stage.look()
    assert ended(stage.look()[N5])
    assert not stage.asked


def test_an_agent_that_is_gone_is_not_shown_by_a_later_status_of_before(stage: Stage) -> None:
    """As after a release: a run would release the node again and again."""
    stage.shell.says(N5)
    stage.look()
    stage.nodes.perform(stage.run, agents.prepare(agents.slots(stage.run)[5]))
    stage.shell.gone(N5)
    for _ in range(3):
        view = stage.look()[N5]
        assert isinstance(view, Seen)
        assert view.agent is None


def test_an_action_on_all_nodes_does_not_open_a_connection_to_each(stage: Stage) -> None:
    look = stage.nodes._observer._looks[stage.run.id]
    with stage.nodes._poller.acting(list(look._clients.values())):
        pass
    stage.look()
    assert not stage.asked


def test_without_the_heads_agent_all_are_asked(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poller, "PATIENCE_S", 0.3)
    monkeypatch.setattr("launcher.transport.agent.run_look.SILENT_S", 0.1)
    stage.shell.silent = {HEAD}
    views = stage.look()
    assert len(stage.asked) == SIZE
    assert all(isinstance(view, Seen) for view in views.values())


def test_whoever_probes_a_node_out_of_sight_is_asked(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poller, "PATIENCE_S", 0.3)
    stage.shell.missed, stage.shell.silent = {N5: 6.0}, {stage.addresses[N5]}
    stage.forget()
    stage.look()
    stage.look()
    assert stage.asked == {"r001-n00", "r001-n01"}, "of another rack"


def test_where_seconds_of_silence_count_ranks_are_looked_at_themselves(tmp_path: Path) -> None:
    group = Group(name="main", topology=TopologyRule(), gpus=4, run="train", recovery=RecoveryPolicy(hang_after=5.0))
    made = Stage(tmp_path, group)
    for _ in range(3):
        made.look()
        assert len(made.asked) == SIZE
    made.nodes.close()


def test_a_new_node_changes_nothing_for_the_others(stage: Stage) -> None:
    (first, *_), run = stage.run.fleet.nodes, stage.run
    more = replace(first, name=NodeName("r000-n99"), access=replace(first.access, address="10.99.0.1"))
    stage.run = replace(run, fleet=replace(run.fleet, nodes=(*run.fleet.nodes, more)))
    stage.look()
    assert not stage.asked


def test_a_node_whose_health_was_read_is_asked_with_the_next_look_and_nobody_waits_for_it(stage: Stage) -> None:
    stage.nodes._observer.also_ask(stage.run, N5)
    stage.shell.head_has(N5, ray={"phase": "running", "generation": 7, "message": ""})
    stage.look()
    deadline = time.monotonic() + 10
    warnings = list(stage.warnings)
    while not warnings:
        assert time.monotonic() < deadline
        stage.look()
        warnings += stage.warnings
    assert "changed a status on its way" in warnings[0]
