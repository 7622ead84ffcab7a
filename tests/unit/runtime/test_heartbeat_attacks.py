"""Whoever reaches the port of heartbeats changes nothing for the run: real sockets, and a clock that the tests move."""

import contextlib
import importlib
import itertools
import random
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import drawn
from tests.unit.runtime.test_heartbeat import HERE, KEY, LIMIT, Head, Slot, Time, exchange, follow

heartbeat = importlib.import_module("launcher.runtime.heartbeat")
server = importlib.import_module("launcher.runtime.heartbeat_server")
handshake = importlib.import_module("launcher.runtime.handshake")
files = importlib.import_module("launcher.runtime.protocol_files")

FUZZ = drawn(60)


@contextlib.contextmanager
def stranger(head: Head, address: str = HERE) -> Iterator[socket.socket]:
    """A connection of somebody who knows no key."""
    with socket.create_connection((HERE, head.port), timeout=5, source_address=(address, 0)) as link:
        yield link


def turns(head: Head, clock: Time, seconds: float) -> None:
    """Let time pass at the head, in rounds."""
    for _ in range(int(seconds / server.ROUND_S)):
        clock.now += server.ROUND_S
        head.listener.step(0.0)


def with_slots(head: Head, clock: Time, *names: str) -> list[Slot]:
    slots = [Slot(name, clock) for name in names]
    for slot in slots:
        follow(slot, head)
    return slots


def test_twenty_ghosts_cut_no_head_off(clock: Time, head: Head) -> None:
    slots = with_slots(head, clock, "n1", "n2")
    for name in (f"ghost-{number}" for number in range(20)):
        with stranger(head) as link, head.serving():
            greeting = link.recv(1024)
            theirs = greeting.strip().removeprefix(handshake.GREETING)
            forged = handshake.Session(b"guessed", theirs, b"0" * 32, at_head=False)
            link.sendall(forged.sign(b"%s %s" % (b"0" * 32, name.encode().hex().encode())))
            assert link.recv(1024) == b""
    for _ in range(int(LIMIT) + 3):
        clock.now += 1
        exchange(slots, head)
    assert set(head.listener.ages()) == {"n1", "n2"}
    assert (head.cuts, [slot.stopped for slot in slots]) == (0, [[], []])


@pytest.mark.parametrize(
    "line", [b"n1\n", b"\tn1\n", b"n1 \n", b"beat " + b"0" * 32 + b"\n", b"ok\n", b"\n", b"\x00\n"]
)
def test_lines_of_a_run_without_keys_are_no_heartbeats(clock: Time, head: Head, line: bytes) -> None:
    (slot,) = with_slots(head, clock, "n1")
    clock.now += 10
    with stranger(head, "127.0.0.9") as link, head.serving():
        link.recv(1024)
        link.sendall(line)
        assert link.recv(1024) == b""
    assert head.listener.ages() == {"n1": 10.0}, "neither forgotten nor heard"
    exchange([slot], head)
    assert head.listener.ages() == {"n1": 0.0}


def test_a_node_cannot_speak_for_another(clock: Time, head: Head) -> None:
    with_slots(head, clock, "n1", "n2")
    clock.now += 10
    thief = Slot("n1", clock, KEY)
    thief.beat._key = files.node_key(KEY, "n2")
    with head.serving():
        assert not thief.beat.follow(HERE, head.port)
    assert set(head.listener.ages()) == {"n1", "n2"}
    with head.serving():
        thief.beat.leave()
    assert set(head.listener.ages()) == {"n1", "n2"}


class Recorder:
    """Stands between a node and the head, and keeps what both say."""

    def __init__(self, head: Head) -> None:
        self.said: list[bytes] = []
        self._server = socket.create_server((HERE, 0))
        self.port = self._server.getsockname()[1]
        self._head = head.port
        threading.Thread(target=self._pass, daemon=True).start()

    def _pass(self) -> None:
        node = self._server.accept()[0]
        with socket.create_connection((HERE, self._head)) as head, node, contextlib.suppress(OSError):
            node.sendall(head.recv(1024))
            while said := node.recv(1024):
                self.said.append(said)
                head.sendall(said)
                node.sendall(head.recv(1024))


def test_a_recorded_handshake_is_worth_nothing(clock: Time, head: Head) -> None:
    recorder, slot = Recorder(head), Slot("n1", clock)
    with head.serving():
        assert slot.beat.follow(HERE, recorder.port)
        slot.beat.step()
        slot.beat.leave()
    assert len(recorder.said) == 3
    with_slots(head, clock, "n1")
    clock.now += 10
    for said in (b"".join(recorder.said), *recorder.said):
        with stranger(head, "127.0.0.9") as link, head.serving():
            link.recv(1024)
            link.sendall(said)
            assert link.recv(1024) == b""
    assert head.listener.ages() == {"n1": 10.0}


def test_what_is_sent_twice_on_one_connection_ends_it_and_counts_once(clock: Time, head: Head) -> None:
    with stranger(head) as link:
        with head.serving():
            link_greeting = link.recv(1024).strip()
            session, hello = handshake.answered(link_greeting, files.node_key(KEY, "n1"), "n1")
            link.sendall(hello)
            assert session.word(link.recv(1024).strip()) == b"ok"
            beat = session.sign(b"beat")
            link.sendall(beat)
            assert session.word(link.recv(1024).strip()) == b"ok"
        clock.now += 10
        with head.serving():
            link.sendall(beat)
            assert link.recv(1024) == b""
    assert head.listener.ages() == {"n1": 10.0}


@pytest.mark.parametrize("reply", [b"stop\n", b"stop " + b"0" * 32 + b"\n", b"ok\n", b"x" * 5000, b"\xff\n", b""])
def test_nobody_but_the_head_can_stop_a_node(clock: Time, head: Head, reply: bytes) -> None:
    """Somebody has taken the head's port: its machine answers, and that is all."""
    (slot,) = with_slots(head, clock, "n1")
    slot.beat._hang_up()
    false = socket.create_server((HERE, 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                link = false.accept()[0]
                link.sendall(handshake.greeting(handshake.nonce()))
                link.recv(1024)
                link.sendall(reply)
                link.close()

    threading.Thread(target=serve, daemon=True).start()
    slot.beat._head = (HERE, false.getsockname()[1])
    for _ in range(20):
        clock.now += 1
        slot.beat.step()
    assert slot.stopped == []
    fresh = Slot("n2", clock)
    assert not fresh.beat.follow(HERE, false.getsockname()[1]), "nothing is started for a head that proves nothing"
    false.shutdown(socket.SHUT_RDWR)
    false.close()


def test_slow_and_silent_connections_go_after_a_while(clock: Time, head: Head) -> None:
    (slot,) = with_slots(head, clock, "n1")
    with contextlib.ExitStack() as held:
        links = [held.enter_context(stranger(head)) for _ in range(20)]
        for _ in range(int(server.HELLO_S) + 2):
            clock.now += 1
            for link in links:
                with contextlib.suppress(OSError):
                    link.send(b"a")
            exchange([slot], head)
        assert len(head.listener._selector.get_map()) == 2, "the port, and the node"
    assert head.listener.ages()["n1"] == 0.0


def test_a_flood_leaves_room_for_nodes_and_proves_no_silence(clock: Time, head: Head) -> None:
    """A thousand connections: those of nodes stay, new ones of nodes are taken, and nobody is taken for silent."""
    old, lost = with_slots(head, clock, "n1", "n2")
    with contextlib.ExitStack() as held, head.serving():
        for number in range(1000):
            held.enter_context(stranger(head, f"127.0.{number % 7}.2"))
            if number % 100 == 0:
                old.beat.step()
        fresh = Slot("n3", clock)
        assert fresh.beat.follow(HERE, head.port)
        old.beat.step()
        assert len(head.listener._selector.get_map()) <= server.STRANGERS + 10
    assert head.cuts == 0
    assert set(head.listener.ages()) == {"n1", "n2", "n3"}
    assert (old.stopped, lost.stopped, fresh.stopped) == ([], [], [])


def test_while_the_queue_cannot_be_emptied_nobody_is_silent(
    clock: Time, head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node whose connection the kernel dropped from a full queue takes the head's machine for alive."""
    with_slots(head, clock, "n1")
    monkeypatch.setattr(server, "AT_ONCE", 3)
    clock.now += 20
    with contextlib.ExitStack() as held:
        for _ in range(5):
            held.enter_context(stranger(head, "127.0.0.9"))
        head.listener.step(1.0)
        assert (head.listener.ages(), head.listener.listening) == ({"n1": 0.0}, 0.0)
        clock.now += 1
        head.listener.step(1.0)
        assert head.listener.ages() == {"n1": 1.0}


def test_a_connection_that_is_closed_without_a_proof_counts_for_the_nodes_of_its_address(
    clock: Time, head: Head
) -> None:
    with_slots(head, clock, "n1")
    clock.now += 20
    with stranger(head):
        head.listener.step(1.0)
    head.listener.step(1.0)
    assert head.listener.ages() == {"n1": 0.0}
    assert head.listener.listening == 0.0, "it may have been that of a node that is not known yet"


def test_a_run_of_an_older_version_is_served_as_before(clock: Time) -> None:
    head = Head(clock, key=None)
    slots = [Slot(name, clock, key=None) for name in ("n1", "n2")]
    for slot in slots:
        follow(slot, head)
    clock.now += 1
    exchange(slots[:1], head)
    assert head.listener.ages() == {"n1": 0.0, "n2": 1.0}
    with socket.create_connection((HERE, head.port), timeout=5) as link, head.serving():
        link.sendall(b"n2\n")
        assert link.recv(64) == b"ok\n"
        link.sendall(b"\tn2\n")
        assert link.recv(64) == b"ok\n"
    assert set(head.listener.ages()) == {"n1"}
    head.close()


def test_a_node_with_a_key_believes_no_head_without_one_and_the_other_way_round(
    clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "REPLY_S", 0.1)
    for of_head, of_node in ((None, KEY), (KEY, None)):
        head = Head(clock, key=of_head)
        with head.serving():
            assert not Slot("n1", clock, key=of_node).beat.follow(HERE, head.port)
        assert head.listener.ages() == {}
        head.close()


@FUZZ
@given(
    st.lists(st.one_of(st.binary(max_size=80), st.sampled_from([b"\n", b"n1\n", b"beat \n", b" " * 2000])), max_size=5)
)
def test_any_bytes_at_the_port_change_nothing(said: list[bytes]) -> None:
    clock = Time()
    head = Head(clock)
    (slot,) = with_slots(head, clock, "n1")
    clock.now += 10
    with stranger(head, "127.0.0.9") as link:
        for part in said:
            with contextlib.suppress(OSError):
                link.sendall(part)
            head.listener.step(0.0)
    head.listener.step(0.0)
    assert head.listener.ages() == {"n1": 10.0}
    slot.beat._hang_up()
    head.close()


@FUZZ
@given(st.lists(st.binary(max_size=80), max_size=4), st.booleans())
def test_any_bytes_of_a_false_head_stop_no_node(said: list[bytes], proper: bool) -> None:
    clock = Time()
    slot = Slot("n1", clock)
    ours, theirs = socket.socketpair()
    slot.beat._link, slot.beat._head = ours, (HERE, 9)
    slot.beat._count(clock.now, handshake.OK)
    if proper:
        slot.beat._session = handshake.Session(b"k", b"a", b"b", at_head=False)
    with theirs:
        for part in said:
            theirs.sendall(part)
    for _ in range(3):
        slot.beat.step()
    slot.beat._hang_up()
    assert slot.stopped == []


def test_proofs_differ_with_key_side_number_and_nonce() -> None:
    sides = itertools.product((b"1", b"2"), (b"a", b"b"), (b"c", b"d"), (True, False))
    lines = {handshake.Session(key, head, node, at_head=side).sign(b"ok") for key, head, node, side in sides}
    assert len(lines) == 16
    session = handshake.Session(b"1", b"a", b"c", at_head=True)
    assert len({session.sign(b"ok") for _ in range(100)}) == 100
    noise = random.Random(1).randbytes(40)
    assert handshake.Session(b"1", b"a", b"c", at_head=True).word(noise) is None
