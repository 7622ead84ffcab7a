"""Statuses on their way to the head's agent: real sockets, and a clock that the tests move."""

import json
import socket

import pytest

from launcher.runtime import handshake, protocol_views
from launcher.runtime.own_status import OwnStatus
from launcher.runtime.protocol import StatusReply
from launcher.runtime.protocol_files import node_key
from launcher.runtime.protocol_views import DIRECT, FRESH_S, GONE, MOST_TEXT, packed, unpacked
from launcher.runtime.status_board import ANSWER, StatusBoard
from tests.unit.runtime.test_heartbeat import HERE, KEY, LIMIT, POPULATION, Head, Time, exchange, follow, heartbeat


class Telling:
    """A node's agent whose status the test sets."""

    def __init__(self, name: str, clock: Time) -> None:
        self.says = "idle"
        self.hangs = False
        self.stopped: list[str] = []
        self.own = OwnStatus(self._make, clock)
        key = node_key(KEY, name)
        self.beat = heartbeat.Heartbeat(name, key, LIMIT, self.stopped.append, lambda _: None, clock, status=self.own)

    def _make(self) -> StatusReply:
        return {"ok": True, "member": self.says}

    def make(self) -> None:
        """Make the status, as the agent's own thread does."""
        if not self.hangs:
            self.own.numbered()


def shown(head: Head, name: str = "n1") -> str:
    """What the head has of a node."""
    rows = {row["name"]: row["data"] for row in board(head).since("", 0)["rows"]}
    return str(json.loads(unpacked(rows[name]))["member"]) if rows.get(name) else ""


def board(head: Head) -> StatusBoard:
    found = head.listener._board
    assert isinstance(found, StatusBoard)
    return found


def late(head: Head) -> dict[str, float]:
    return board(head).since("", 0)["late"]


@pytest.fixture
def node(clock: Time, head: Head) -> Telling:
    made = Telling("n1", clock)
    made.make()
    follow(made, head)  # type: ignore[arg-type]  # it has what is asked of a slot
    exchange([made], head)  # type: ignore[list-item]
    head.listener.step(0.05)
    return made


def beat(node: Telling, head: Head) -> None:
    """A heartbeat, and what follows it."""
    exchange([node], head)  # type: ignore[list-item]
    head.listener.step(0.05)


def test_a_status_follows_a_heartbeat_and_only_when_it_has_changed(node: Telling, head: Head, clock: Time) -> None:
    assert shown(head) == "idle"
    number = board(head).since("", 0)["number"]
    node.make()
    beat(node, head)
    assert board(head).since("", 0)["number"] == number
    node.says = "training"
    node.make()
    beat(node, head)
    assert shown(head) == "training"


def test_heartbeats_confirm_a_status_and_one_that_is_not_made_any_more_grows_old(
    node: Telling, head: Head, clock: Time
) -> None:
    for _ in range(8):
        clock.now += 0.5
        node.make()
        beat(node, head)
    assert late(head) == {}
    node.hangs = True
    for _ in range(8):
        clock.now += 0.5
        beat(node, head)
    assert head.listener.ages() == {"n1": 0.0}, "its heartbeats go on"
    assert 4.0 <= late(head)["n1"] <= 5.0
    assert node.stopped == []


def test_a_newer_status_that_has_not_come_yet_is_not_confirmed(node: Telling, head: Head, clock: Time) -> None:
    node.says = "failed"
    node.make()
    lines = node.beat._lines
    assert lines is not None
    assert lines.beat(clock()) == handshake.BEAT


def test_a_status_counts_for_nothing(node: Telling, head: Head, clock: Time) -> None:
    """Neither as a heartbeat, for the head or for others who may count the node as lost."""
    clock.now += 5.0
    head.listener.step(0.0)
    link, session = node.beat._link, node.beat._session
    assert link is not None
    assert session is not None
    link.sendall(session.sign(b"state 1 1 " + packed({"ok": True, "member": "still here"}).encode()))
    head.listener.step(0.2)
    assert shown(head) == "still here"
    assert head.listener.ages() == {"n1": 5.0}
    assert head.listener._early["n1"] <= clock.now - 5.0


def test_a_new_connection_is_told_everything(node: Telling, head: Head, clock: Time) -> None:
    node.beat._hang_up()
    other = Head(clock)
    assert shown(other) == ""
    try:
        follow(node, other)  # type: ignore[arg-type]
        beat(node, other)
        assert shown(other) == "idle"
    finally:
        other.close()


def test_a_node_speaks_for_itself_alone(node: Telling, head: Head, clock: Time) -> None:
    other = Telling("n2", clock)
    other.says = "other"
    other.make()
    follow(other, head)  # type: ignore[arg-type]
    beat(other, head)
    assert (shown(head, "n1"), shown(head, "n2")) == ("idle", "other")
    forged = socket.create_connection((HERE, head.port), timeout=2)
    head.listener.step(0.05)
    own, theirs = handshake.nonce(), forged.recv(1024).removeprefix(handshake.GREETING).strip()
    session = handshake.Session(node_key(KEY, "n2"), theirs, own, at_head=False)
    forged.sendall(session.sign(b"%s %s" % (own, b"n1".hex().encode())))  # the name of one, the key of another
    forged.sendall(session.sign(b"state 1 1 " + packed({"ok": True, "member": "forged"}).encode()))
    for _ in range(5):
        head.listener.step(0.05)
    assert (shown(head, "n1"), shown(head, "n2")) == ("idle", "other")
    forged.close()


@pytest.mark.parametrize(
    "word",
    [
        b"state",
        b"state 1 1",
        b"state x 1 abc",
        b"state 1 -1 abc",
        b"state 1 1 \xff",
        b"state 1 1 " + b"x" * (MOST_TEXT + 1),
    ],
    ids=["bare", "no-data", "no-age", "negative", "no-text", "too-long"],
)
def test_a_line_that_is_no_status_ends_its_connection(node: Telling, head: Head, word: bytes) -> None:
    link, session = node.beat._link, node.beat._session
    assert link is not None
    assert session is not None
    link.sendall(session.sign(word))
    for _ in range(4):
        head.listener.step(0.05)
    assert shown(head) == "idle"
    assert "n1" not in head.listener._links


def test_a_node_that_has_left_has_no_status(node: Telling, head: Head) -> None:
    with head.serving():
        node.beat.leave()
    (row,) = board(head).since("", 0)["rows"]
    assert (row["name"], row["data"]) == ("n1", GONE)


def test_changes_come_in_order_and_in_parts_and_another_epoch_is_told_everything() -> None:
    clock = Time()
    made = StatusBoard(clock)
    data = b"x" * MOST_TEXT
    names = [f"n{at}" for at in range(ANSWER // MOST_TEXT + 10)]
    for name in names:
        assert made.put(name, b"state 100 50 " + data, clock())
    first = made.since("", 0)
    assert first["more"]
    assert sum(len(row["data"]) for row in first["rows"]) <= ANSWER
    rest = made.since(first["epoch"], first["number"])
    assert not rest["more"]
    assert [row["name"] for row in (*first["rows"], *rest["rows"])] == names
    assert made.put("n0", b"state 0 0 " + data, clock())
    (row,) = made.since(rest["epoch"], rest["number"])["rows"]
    assert row["name"] == "n0"
    assert len(made.since("another", rest["number"])["rows"]) == len(first["rows"])


def test_ages_are_those_of_the_node_from_the_earliest_time_that_its_line_can_have_come() -> None:
    clock = Time()
    made = StatusBoard(clock)
    made.put("n1", b"state 4000 300 abc", clock.now - 0.2)
    clock.now += 1.0
    (row,) = made.since("", 0)["rows"]
    assert row["made"] == pytest.approx(5.2)
    assert made.since("", 0)["late"] == {}
    clock.now += 0.1 + FRESH_S
    assert made.since("", 0)["late"]["n1"] == pytest.approx(1.6 + FRESH_S, abs=0.11)
    made.confirm("n1", b"beat 200", clock.now)
    assert made.since("", 0)["late"] == {}
    made.confirm("n1", b"beat", clock.now + 60)
    clock.now += 60
    assert made.since("", 0)["late"]["n1"] == pytest.approx(60.2)


def test_what_unpacks_to_more_than_it_may_is_none() -> None:
    bomb = packed({"ok": True, "message": "x" * (protocol_views.MOST_BYTES - 100)})
    assert len(bomb) < MOST_TEXT, "it is small as long as it is packed"
    assert len(unpacked(bomb)) <= protocol_views.MOST_BYTES
    assert packed({"ok": True, "message": "x" * protocol_views.MOST_BYTES}) == DIRECT
    for bad in ("", "-", "%%%", bomb[: len(bomb) // 8 * 4], "AAAA"):
        with pytest.raises(ValueError, match=r"."):
            unpacked(bad)


def test_the_head_goes_on_without_a_key_and_without_statuses() -> None:
    clock = Time()
    head = Head(clock, key=None)
    made = heartbeat.Heartbeat("n1", None, LIMIT, lambda _: None, lambda _: None, clock, status=None)
    with head.serving():
        assert made.follow(HERE, head.port)
    assert head.listener.ages() == {"n1": 0.0}
    assert board(head).since("", 0)["rows"] == []
    head.close()
    assert POPULATION > LIMIT
