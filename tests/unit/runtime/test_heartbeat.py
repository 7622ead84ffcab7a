"""Who hears whom, and who stops for it: real sockets, and a clock that the tests move."""

import contextlib
import importlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

heartbeat = importlib.import_module("launcher.runtime.heartbeat")
listener = importlib.import_module("launcher.runtime.heartbeat_server")
deadlines = importlib.import_module("launcher.runtime.deadline")
reach = importlib.import_module("launcher.runtime.connectivity")

files = importlib.import_module("launcher.runtime.protocol_files")
handshake = importlib.import_module("launcher.runtime.handshake")

HERE = "127.0.0.1"
KEY = bytes(range(32))
LIMIT = 15.0
POPULATION = 60.0


class Time:
    """A clock that a test moves by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Slot:
    """A slot's agent: what it was told to stop for, and until when its ranks may live."""

    def __init__(self, name: str, clock: Time, key: bytes | None = KEY) -> None:
        self.stopped: list[str] = []
        self.until = 0.0
        own = key and files.node_key(key, name)
        self.beat = heartbeat.Heartbeat(name, own, LIMIT, self.stopped.append, self._publish, clock)

    def _publish(self, moment: float) -> None:
        self.until = moment


class Head:
    """A head's agent. Its `listener` is stepped when a slot waits for its word."""

    def __init__(self, clock: Time, key: bytes | None = KEY) -> None:
        self.cuts = 0
        self.ends = float("inf")
        self.publish: Callable[[float], None] = lambda _: None
        self.listener = listener.HeartbeatServer(key, LIMIT, POPULATION, self._cut, self._publish, clock)
        self.port = self.listener.listen(HERE, 0)

    def _cut(self) -> None:
        self.cuts += 1

    def _publish(self, moment: float) -> None:
        self.ends = moment
        self.publish(moment)

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Read and answer while a slot asks."""
        done = threading.Event()

        def serve() -> None:
            while not done.is_set():
                self.listener.step(0.005)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def close(self) -> None:
        for key in list((self.listener._selector.get_map() or {}).values()):  # also where it was closed before
            key.fileobj.close()
        self.listener._selector.close()


def follow(slot: Slot, head: Head) -> None:
    with head.serving():
        assert slot.beat.follow(HERE, head.port)


def exchange(slots: list[Slot], head: Head) -> None:
    """Each slot says its name, and reads the word."""
    with head.serving():
        for slot in slots:
            slot.beat.step()


def lost() -> Callable[..., socket.socket]:
    """A network that answers nothing."""

    def connect(*_: object, **__: object) -> socket.socket:
        raise TimeoutError

    return connect


def test_a_slot_stops_when_the_heads_host_has_answered_nothing_for_long(
    clock: Time, head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = Slot("n1", clock)
    follow(slot, head)
    assert slot.until == clock.now + LIMIT
    slot.beat._hang_up()
    monkeypatch.setattr(socket, "create_connection", lost())
    clock.now += LIMIT - 0.1
    assert slot.beat.step() <= 0.1 + heartbeat.LEAST_S, "the next look is not later than the end"
    assert slot.stopped == []
    clock.now += 0.1
    slot.beat.step()
    assert len(slot.stopped) == 1
    clock.now += 60
    slot.beat.step()
    assert len(slot.stopped) == 1, "one silence, one stop"
    assert slot.beat.silence == pytest.approx(LIMIT + 60)


def test_a_slot_that_was_stopped_itself_stops_before_it_asks_again(clock: Time, head: Head) -> None:
    slot = Slot("n1", clock)
    follow(slot, head)
    clock.now += LIMIT + 1
    slot.beat.step()
    assert len(slot.stopped) == 1, "others gave it up while it could not ask: that somebody answers now is too late"


def test_a_head_process_that_is_down_stops_nobody(clock: Time, head: Head) -> None:
    slot = Slot("n1", clock)
    follow(slot, head)
    head.close()
    for _ in range(60):
        clock.now += 1
        slot.beat.step()
    assert slot.stopped == []
    assert slot.beat.silence == 0.0


def test_a_head_process_that_hangs_stops_nobody_and_nobody_is_taken_for_silent(
    clock: Time, head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "REPLY_S", 0.02)
    slot = Slot("n1", clock)
    follow(slot, head)
    for _ in range(20):
        clock.now += 1
        slot.beat.step()
    assert slot.stopped == []
    assert head.listener.ages() == {"n1": 0.0}, "while the listener stands still, nobody grows older"
    head.listener.step(0.0)
    assert head.listener.ages()["n1"] == 0.0


def test_the_head_says_how_long_ago_it_heard_each(clock: Time, head: Head) -> None:
    slots = [Slot("n1", clock), Slot("n2", clock)]
    for slot in slots:
        follow(slot, head)
    clock.now += 10
    exchange(slots[:1], head)
    assert head.listener.ages() == {"n1": 0.0, "n2": 10.0}
    assert head.listener.listening == 10.0


def test_a_slot_without_a_head_is_silent_about_it(clock: Time) -> None:
    slot = Slot("n1", clock)
    assert slot.beat.silence is None
    clock.now += 100
    slot.beat.step()
    assert slot.stopped == []


def test_no_raylet_is_started_for_a_head_that_does_not_answer(clock: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    slot = Slot("n1", clock)
    monkeypatch.setattr(socket, "create_connection", lost())
    assert not slot.beat.follow(HERE, 9)
    assert slot.beat.silence is None


@pytest.mark.parametrize(
    ("heard", "cut"),
    [({"n1", "n2", "n3"}, False), ({"n1", "n2"}, False), ({"n1"}, True), (set(), True)],
    ids=["most", "a-tie-goes-to-the-head", "fewer-than-half", "nobody"],
)
def test_a_head_that_hears_too_few_is_cut_off_and_says_so(clock: Time, head: Head, heard: set[str], cut: bool) -> None:
    slots = {name: Slot(name, clock) for name in ("n1", "n2", "n3", "n4")}
    for slot in slots.values():
        follow(slot, head)
    for _ in range(int(LIMIT) + 2):
        clock.now += 1
        exchange([slots[name] for name in sorted(heard)], head)
        head.listener.step(0.0)
    assert head.cuts == int(cut)
    clock.now += 1
    exchange([slots["n1"]], head)
    assert bool(slots["n1"].stopped) is cut


def test_a_head_is_cut_off_before_others_may_take_it_for_lost(clock: Time, head: Head) -> None:
    """Whatever a slot that no longer hears the head reports, the head has ended itself by then."""
    margin = 3.0
    slots = [Slot(name, clock) for name in ("n1", "n2", "n3")]
    for slot in slots:
        follow(slot, head)
    for _ in range(5):
        clock.now += 1
        exchange(slots, head)
    while head.cuts == 0:
        clock.now += listener.ROUND_S
        head.listener.step(0.0)
        assert min(slot.beat.silence or 0.0 for slot in slots[1:]) < LIMIT + margin - 1


def test_nodes_that_left_a_minute_ago_are_not_missed(clock: Time, head: Head) -> None:
    slots = [Slot(name, clock) for name in ("n1", "n2", "n3", "n4", "n5")]
    for slot in slots:
        follow(slot, head)
    for gone in (2, 3):
        for _ in range(int(POPULATION) + 1):
            clock.now += 1
            exchange(slots[gone:], head)
    assert head.cuts == 0


def test_nodes_that_were_let_go_of_are_not_missed(clock: Time, head: Head) -> None:
    slots = [Slot(name, clock) for name in ("n1", "n2", "n3")]
    for slot in slots:
        follow(slot, head)
    with head.serving():
        for slot in slots[:2]:
            slot.beat.leave()
    for _ in range(int(LIMIT) + 2):
        clock.now += 1
        exchange(slots, head)
    assert head.cuts == 0
    assert set(head.listener.ages()) == {"n3"}
    assert slots[0].stopped == []
    assert slots[0].beat.silence is None


def test_a_head_that_nobody_serves_is_not_cut_off(clock: Time, head: Head) -> None:
    clock.now += 100
    head.listener.step(0.0)
    assert head.cuts == 0


def test_a_head_that_is_started_again_misses_nobody_of_before(clock: Time, head: Head) -> None:
    follow(Slot("n1", clock), head)
    clock.now += LIMIT + 1
    head.listener.step(0.0)
    assert (head.cuts, head.listener.cut_off) == (1, True)
    head.listener.begin()
    head.listener.step(0.0)
    assert (head.cuts, head.listener.cut_off) == (1, False)


def test_a_node_without_a_slot_listens_too_where_it_is_told_to(clock: Time, head: Head) -> None:
    spare = Slot("n9", clock)
    spare.beat.hint(HERE, head.port)
    exchange([spare], head)
    assert head.listener.ages() == {"n9": 0.0}
    clock.now += 2
    spare.beat.hint(HERE, head.port)
    exchange([spare], head)
    assert spare.beat.silence == 0.0


def test_what_a_stranger_says_ends_nothing(clock: Time, head: Head) -> None:
    with socket.create_connection((HERE, head.port)) as stranger:
        stranger.sendall(b"\xff" * 5000)
        for _ in range(30):
            head.listener.step(0.0)
    head.listener.step(0.0)
    assert head.listener.ages() == {}
    slot = Slot("n1", clock)
    follow(slot, head)
    assert head.listener.ages() == {"n1": 0.0}


def test_a_machine_answers_by_refusing_and_not_by_silence() -> None:
    with socket.socket() as probe:
        probe.bind((HERE, 0))
        refusing = probe.getsockname()[1]
    with contextlib.ExitStack() as held:
        full = held.enter_context(socket.socket())
        full.bind((HERE, 0))
        full.listen(0)  # the kernel drops what knocks at a full queue, as a dead host does
        for _ in range(3):
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        silent = full.getsockname()[1]
        targets = {"refuses": (HERE, [refusing]), "silent": (HERE, [silent]), "one-port": (HERE, [silent, refusing])}
        assert reach.answering(targets, limit=0.3) == {"refuses", "one-port"}


def test_what_was_found_is_answered_at_the_next_question() -> None:
    asked = reach.Connectivity()
    target = {"n1": (HERE, [9])}
    assert asked.probe(target) == {}
    deadline = time.monotonic() + 10
    while not asked.probe(target) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert asked.probe(target) == {"n1": True}
    assert asked.probe({}) == {}


def beside(slot: Slot, head: Head, folder: Path, heard: list[Slot]) -> None:
    """The slot's agent on the head's own machine; it follows the head as `heard` do."""
    published = deadlines.Deadline(folder / "head-deadline")
    head.publish = published.put
    for one in heard:
        follow(one, head)
    with head.serving():
        assert slot.beat.follow(HERE, head.port, deadlines.WatchedDeadline(folder / "head-deadline"))
    head.listener.step(0.0)


@pytest.mark.parametrize("ends", ["ends", "hangs"])
def test_a_slot_beside_a_head_that_ends_or_hangs_stops_when_that_would_have(
    clock: Time, head: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    monkeypatch.setattr(heartbeat, "REPLY_S", 0.02)
    slot, others = Slot("n1", clock), [Slot("n2", clock), Slot("n3", clock)]
    beside(slot, head, tmp_path, others)
    assert slot.beat.head_bound
    for _ in range(20):
        clock.now += 1
        exchange([slot, *others], head)
    last = clock.now
    if ends == "ends":
        head.close()
    while clock.now < last + LIMIT:
        clock.now += 0.5
        for one in (slot, *others):
            one.beat.step()
        assert slot.stopped == [] or clock.now >= last + LIMIT - 2, "the head learns of time once a second here"
        assert slot.until <= last + LIMIT, "nor may its ranks live longer, should it be stopped itself"
    assert len(slot.stopped) == 1
    assert [other.stopped for other in others] == [[], []], "other machines only learn that they are refused"


def test_a_slot_beside_a_head_counts_from_what_that_heard_last(clock: Time, head: Head, tmp_path: Path) -> None:
    """A head that ends while it is cut off does not leave its slot more time than it had itself."""
    slot, others = Slot("n1", clock), [Slot("n2", clock), Slot("n3", clock)]
    beside(slot, head, tmp_path, others)
    cut = clock.now
    while clock.now < cut + LIMIT - 2:
        clock.now += 1
        exchange([slot], head)
    head.close()
    clock.now = cut + LIMIT - 1
    slot.beat.step()
    assert slot.stopped == []
    clock.now = cut + LIMIT
    slot.beat.step()
    assert len(slot.stopped) == 1


def test_a_slot_beside_a_head_that_is_started_again_in_time_goes_on(clock: Time, head: Head, tmp_path: Path) -> None:
    slot = Slot("n1", clock)
    beside(slot, head, tmp_path, [Slot("n2", clock)])
    clock.now += LIMIT + 5  # of the other one nothing was heard; the head itself answers
    head.publish(clock.now - 1)
    slot.beat._answered = clock.now - 1
    exchange([slot], head)
    assert slot.stopped == []


def test_a_slot_that_follows_a_head_elsewhere_is_bound_to_it_no_more(clock: Time, head: Head, tmp_path: Path) -> None:
    slot = Slot("n1", clock)
    beside(slot, head, tmp_path, [])
    follow(slot, head)
    assert not slot.beat.head_bound
    head.close()
    for _ in range(60):
        clock.now += 1
        slot.beat.step()
    assert slot.stopped == []


def test_a_refusal_is_an_answer_that_takes_no_heartbeat(clock: Time, head: Head) -> None:
    slot = Slot("n1", clock)
    follow(slot, head)
    assert slot.beat.followed == HERE
    head.close()
    slot.beat.step()  # the open connection ends: something may have read what was sent on it
    for _ in range(20):
        clock.now += 1
        slot.beat.step()
    assert (slot.beat.silence, slot.beat.unheard) == (0.0, 20.0)


@pytest.mark.parametrize("heard", [1, 2, 3, 4, 5])
def test_the_head_publishes_when_it_is_cut_off_if_it_hears_nothing_more(clock: Time, head: Head, heard: int) -> None:
    slots = [Slot(f"n{at}", clock) for at in range(heard)]
    for slot in slots:
        follow(slot, head)
        clock.now += 1
        head.listener.step(0.0)
    published = head.ends
    while head.cuts == 0:
        clock.now += listener.ROUND_S
        head.listener.step(0.0)
    assert published <= clock.now <= published + 2 * listener.ROUND_S
    assert head.ends == clock.now
