"""Whatever one node answers, the real loop goes on: over stand-in agents, one of which lies."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.admission.store_retry import ControllerLog, StoreRetry
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import HeadSeen, Seen, Unseen
from launcher.core.model.receipt import Result
from launcher.core.model.run import RunName
from launcher.drive.execute import Executor, Inline
from launcher.drive.loop import Loop
from launcher.ports import Completed
from launcher.runtime.protocol import PROTOCOL, StatusReply
from launcher.store.store import Store
from launcher.transport.agent import connection, poller, replies
from launcher.transport.agent.addresses import Addresses
from launcher.transport.nodes import ShellNodes
from tests import agents
from tests.agents import Agents, Wire
from tests.effort import drawn

LIAR = "10.64.0.25"
"""The address of the node that lies: one with a rank."""
HEAD = "10.0.0.1"
FUZZ = drawn(12)

DEEP = b"[" * 50_000
ODD_LINES = (
    b'{"key": %s, "answer": ' + DEEP + b"]" * 50_000 + b"}",
    b'{"key": %s, "answer": ' + DEEP,
    b'{"key": %s, "answer": {"ok": NaN}}',
    b'{"key": %s, "answer": {"ok": true, "agent": 1' + b"0" * 10_000 + b"}}",
    b'{"key": %s, "answer": {"ok": true, "ok": false}}',
    b'{"key": %s, "answer": {"ok": true, "message": "\xff\xfe"}}',
    b'{"key": %s, "answer": null}',
    b'{"key": %s, "message": 7}',
    b'{"key": %s}',
    b'{"key": [[], {}], "answer": {}}',
    b"{",
    b"\x00" * 100,
    b"",
)


class Lying(Agents):
    """Agents, one of which answers with `said`: the bytes of a line, or a reply that is put into one."""

    def __init__(self, run: agents.Run, liar: str) -> None:
        super().__init__(run)
        self.liar = liar
        self.said: object = None
        self.more: list[bytes] = []
        self.hung_up = 0
        self.printed: bytes | None = None
        self.need = ""
        self._tables = json.dumps(agents._head_status(run)["supervisor"]).encode()

    def reply(self, at: Any, question: dict[str, Any]) -> bytes:
        """Return what an agent says once it was started; the head's supervisor has tables."""
        if question["op"] == "status" and at.address not in self._begun:
            return b'{"ok": true, "absent": true}'
        if question["op"] == "prepare" and self.need and at.address == self.liar:
            return json.dumps({"ok": True, "need": self.need, "machine": "x"}).encode()
        return self._tables if question["op"] == "supervisor" else super().reply(at, question)

    def run(self, at: Any, argv: Any, **more: Any) -> Completed:
        """Return what a program on a machine prints; on the liar's, `printed`."""
        if self.printed is None or at.address != self.liar:
            return super().run(at, argv, **more)
        return Completed(status=0, stdout=self.printed, stderr=b"")

    def converse(self, at: Any, argv: Any, *, timeout: float, knock: float) -> Wire:
        return LyingWire(self, at) if at.address == self.liar else super().converse(at, argv, timeout=1, knock=1)


class LyingWire(Wire):
    """The connection of the liar."""

    def give_up(self) -> None:
        assert isinstance(self._agents, Lying)
        self._agents.hung_up += 1
        super().give_up()

    def send(self, data: bytes) -> None:
        lying = self._agents
        assert isinstance(lying, Lying)
        for line in data.splitlines():
            key = json.dumps(json.loads(line)["key"]).encode()
            if lying.said is None or json.loads(line)["question"]["op"] != "status":
                super().send(line)
            elif isinstance(lying.said, bytes):
                self._say(lying.said.replace(b"%s", key) + b"\n")
            else:
                self._say(b'{"key": %s, "answer": %s}\n' % (key, json.dumps(lying.said).encode()))
            for more in lying.more:
                self._say(more)


class Clock:
    """Time that passes with each look."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        self.at += 1.0
        return self.at

    def wall(self) -> float:
        return time.time()

    def wait(self, until: float, wake: Any) -> None:
        raise AssertionError("ticks are made one by one")


class Stage:
    """The real loop and store over agents that answer at once."""

    def __init__(self, home: Path, liar: str = LIAR) -> None:
        run = agents.make_run(16)
        self.store = Store(home)
        made = self.store.launch(
            name=RunName("job"), task=run.task, fleet=run.fleet, decide=lambda _: run.placement, source="x", at=0.0
        )
        self.run, _ = self.store.load(made.id)
        self.shell = Lying(self.run, liar)
        self.nodes = ShellNodes(Addresses(home, self.run.fleet, self.shell), self.shell, "me@here")  # type: ignore[arg-type]
        clock, executor = Clock(), Executor(self.nodes, Inline())
        self.loop = Loop(self.store, self.nodes, clock, executor, made.id, StoreRetry(ControllerLog()))

    def tick(self, said: object = None) -> str:
        """Let the liar say this, decide once, and return the status message."""
        self.shell.said = said
        return self.loop.tick().status_message

    def close(self) -> None:
        self.loop._health.close()
        self.nodes.close()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.close()


def node_status(**fields: object) -> dict[str, object]:
    return {**agents._node_status("main/15"), "protocol": PROTOCOL, **fields}


def until_running(stage: Stage) -> None:
    for _ in range(50):
        if "16 of 16 ranks running" in stage.tick():
            return
    raise AssertionError(stage.tick())


@pytest.mark.parametrize("line", ODD_LINES, ids=[str(line[:24]) for line in ODD_LINES])
def test_an_odd_line_of_one_node_leaves_the_others_seen_and_the_loop_going(
    stage: Stage, line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poller, "PATIENCE_S", 0.1)
    monkeypatch.setattr(poller, "FIRST_S", 0.5)
    until_running(stage)
    for _ in range(3):
        stage.tick(line)
    seen = stage.nodes.look(stage.run)
    assert [name for name, view in seen.nodes.items() if not isinstance(view, Seen)] in ([], ["r000-n15"])
    until_running(stage)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (node_status(ray={"phase": "bogus", "generation": 0, "message": ""}), "`phase` is none of absent, running"),
        (node_status(ranks=None), "`ranks` is no list"),
        (node_status(protocol=PROTOCOL + 1), f"protocol {PROTOCOL + 1}, not {PROTOCOL}"),
        (node_status(head_silence=1e300), "`head_silence` is no possible number"),
        ({"ok": True, "agent": 7}, "no `setup`"),
        ({}, "the reply has no `ok`"),
        ([], "the reply is no object"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_the_status_names_the_node_and_what_is_odd(stage: Stage, said: object, message: str) -> None:
    until_running(stage)
    assert f"r000-n15: odd reply: {message}" in stage.tick(said)
    assert "odd" not in stage.tick()


@pytest.mark.parametrize(
    ("need", "message"), [("images", "the node asks for images"), ("rclone", "no rclone for the architecture")]
)
def test_a_node_that_asks_for_what_it_cannot_need_fails_alone(stage: Stage, need: str, message: str) -> None:
    until_running(stage)
    stage.shell.need = need
    answer = stage.nodes.perform(stage.run, agents.prepare(agents.slots(stage.run)[15]))
    assert answer.result is Result.FAILED
    assert message in answer.message


def test_messages_and_tails_are_cut_and_can_be_stored(stage: Stage) -> None:
    until_running(stage)
    rank = {"member": "main/15", "attempt": 1, "running": False, "exit_code": 1, "tail": ["\ud800" * 10_000] * 1000}
    stage.tick(node_status(ranks=[rank]))
    (row,) = replies.read(StatusReply, node_status(ranks=[rank]))["ranks"]
    assert (len(row["tail"]), {len(line) for line in row["tail"]}) == (40, {4000})
    "".join(row["tail"]).encode()


@pytest.mark.parametrize("more", [b"x" * 20_000, b"\n" * (connection.STRAYS + 2)], ids=["no-end", "not-asked-for"])
def test_a_node_that_sends_too_much_is_hung_up_on(stage: Stage, more: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "LINE", 10_000)
    stage.shell.more = [more]
    deadline = time.monotonic() + 10
    while not stage.shell.hung_up:
        assert time.monotonic() < deadline
        stage.nodes.look(stage.run)


def test_one_agent_of_another_version_does_not_end_the_controller(stage: Stage) -> None:
    until_running(stage)
    said = stage.tick({"ok": False, "protocol": PROTOCOL + 1, "message": "refused"})
    assert "16 of 16 ranks running" in said or "r000-n15: odd reply" in said


def test_what_a_node_says_of_a_head_elsewhere_is_no_word_about_this_one(stage: Stage) -> None:
    until_running(stage)
    told = {"head_silence": 60.0, "head_unheard": 61.0}

    def says(**more: object) -> tuple[float | None, float | None]:
        stage.shell.said = node_status(**told, **more)
        view = stage.nodes.look(stage.run).nodes[NodeName("r000-n15")]
        assert isinstance(view, Seen)
        assert view.agent is not None
        return view.agent.head_silent, view.agent.head_unheard

    assert says(followed="10.99.99.99") == (None, None)
    assert says(followed=HEAD) == says() == (60.0, 61.0)


def test_an_odd_head_is_unseen_and_says_why(tmp_path: Path) -> None:
    stage = Stage(tmp_path, HEAD)
    until_running(stage)
    stage.shell.said = {"ok": True, "agent": 1, "ray": agents._head_status(stage.run)["ray"], "supervisor": {"ok": 3}}
    found = stage.nodes.look(stage.run).head
    assert isinstance(found, Unseen)
    assert (found.odd, found.message) == (True, "odd reply: `ok` is neither true nor false")
    stage.tick(stage.shell.said)
    stage.shell.said = None
    assert isinstance(stage.nodes.look(stage.run).head, HeadSeen)
    stage.close()


values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(-2, 3),
        st.floats(),
        st.text(max_size=6),
        st.sampled_from(["main/0", "main/15", "running", "done", "failed", "main.s0", "CREATED", "\ud800", "r000-n15"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=8,
)


def paths(value: object, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield each place in a reply."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*at, key)
        yield from paths(inner, (*at, key))


def changed(reply: dict[str, Any], path: tuple[Any, ...], value: object, *, drop: bool) -> dict[str, Any]:
    """Return a reply with another value in one place, or without it."""
    copy: Any = json.loads(json.dumps(reply))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    if drop:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return dict(copy)


@st.composite
def lies(draw: st.DrawFn, reply: dict[str, Any]) -> object:
    """Draw what comes in place of a reply."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(values)
    if kind == 1:
        return draw(st.sampled_from(ODD_LINES))
    if kind == 2:
        return draw(st.binary(max_size=40)).replace(b"\n", b"")
    said = reply
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(paths(said)) or [("ok",)]))
        said = changed(said, path, draw(values), drop=draw(st.integers(0, 4)) == 0)
    return said


SAMPLE = agents.make_run(16)
ANY_NODE = st.lists(lies({**agents._node_status("main/15"), "protocol": PROTOCOL}), min_size=1, max_size=4)
ANY_HEAD = st.lists(lies({**agents._head_status(SAMPLE), "protocol": PROTOCOL}), min_size=1, max_size=3)


@FUZZ
@given(ANY_NODE)
def test_whatever_a_node_answers_the_loop_goes_on(tmp_path_factory: pytest.TempPathFactory, said: list[object]) -> None:
    play(Stage(tmp_path_factory.mktemp("home")), said)


@FUZZ
@given(ANY_HEAD)
def test_whatever_a_head_answers_the_loop_goes_on(tmp_path_factory: pytest.TempPathFactory, said: list[object]) -> None:
    play(Stage(tmp_path_factory.mktemp("home"), HEAD), said)


@FUZZ
@given(
    st.one_of(lies({"ok": True, "block": 6400, "need": "workdir", "left": [1]}), st.binary(max_size=20)), st.booleans()
)
def test_whatever_programs_on_a_node_print_the_loop_goes_on(
    tmp_path_factory: pytest.TempPathFactory, said: object, head: bool
) -> None:
    stage = Stage(tmp_path_factory.mktemp("home"), HEAD if head else LIAR)
    stage.shell.printed = said if isinstance(said, bytes) else json.dumps(said).encode()
    play(stage, [None] * 4)


def play(stage: Stage, said: list[object]) -> None:
    """Tick over these answers; any error but one of the agents' version ends the test."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PATIENCE_S", "FIRST_S"):
            patch.setattr(poller, name, 0.05)
        try:
            for one in (None, *said, None):
                stage.tick(one)
        finally:
            stage.close()
