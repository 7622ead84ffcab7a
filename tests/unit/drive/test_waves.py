"""Actions on many racks: bounded, in turn, and none waits for a rack that is slow."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager

import pytest

from launcher.core.model.receipt import Answer, Result
from launcher.drive.waves import AT_ONCE, EACH_SLOW, MOST, Waves

DONE = Answer(result=Result.DONE)
SOON_S = 30.0


class Machines:
    """Machines of which some do not answer until they are released; counts what is under way."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.now = self.most = 0
        self._news = threading.Condition()

    def silent(self) -> Answer:
        """Return once it is released."""
        with self._news:
            self.now += 1
            self.most = max(self.most, self.now)
            self._news.notify_all()
        assert self.let_go.wait(SOON_S)
        with self._news:
            self.now -= 1
        return DONE

    def await_silent(self, count: int) -> None:
        """Wait until so many are asked that do not answer."""
        with self._news:
            assert self._news.wait_for(lambda: self.now >= count, SOON_S), self.now


@pytest.fixture
def machines() -> Iterator[Machines]:
    found = Machines()
    yield found
    found.let_go.set()


@contextmanager
def opened(slow_s: float) -> Iterator[Waves]:
    waves = Waves(slow_s=slow_s)
    yield waves
    waves.shutdown()


def test_dead_racks_delay_no_other_and_hold_a_bounded_number_of_threads(machines: Machines) -> None:
    with opened(slow_s=0.02) as waves:
        dead = [waves.submit(f"dead{rack}", machines.silent) for rack in range(4) for _ in range(16)]
        well = [waves.submit(f"rack{rack}", lambda: DONE) for rack in range(50) for _ in range(16)]
        assert not wait(well, SOON_S).not_done
        assert machines.most <= MOST
        machines.let_go.set()
        assert not wait(dead, SOON_S).not_done


def test_racks_have_their_turns_whatever_came_first() -> None:
    begun, gate = list[str](), threading.Event()

    def act(rack: str) -> Answer:
        assert gate.wait(SOON_S)
        begun.append(rack)
        return DONE

    with opened(slow_s=SOON_S) as waves:
        blockers = [waves.submit("", lambda: act("")) for _ in range(AT_ONCE)]
        first = [waves.submit("first", lambda: act("first")) for _ in range(AT_ONCE)]
        last = waves.submit("last", lambda: act("last"))
        gate.set()
        assert not wait([*blockers, *first, last], SOON_S).not_done
    named = [rack for rack in begun if rack]
    assert named.index("last") < AT_ONCE - 1


def test_one_slow_rack_alone_has_all_places(machines: Machines) -> None:
    with opened(slow_s=0.0) as waves:
        asked = [waves.submit("rack", machines.silent) for _ in range(2 * AT_ONCE)]
        machines.await_silent(AT_ONCE)
        machines.let_go.set()
        assert not wait(asked, SOON_S).not_done
        assert machines.most <= MOST


def test_a_slow_rack_among_many_gets_a_few_places(machines: Machines) -> None:
    with opened(slow_s=0.0) as waves:
        others = [waves.submit(f"rack{at}", machines.silent) for at in range(AT_ONCE)]
        machines.await_silent(AT_ONCE)
        slow = [waves.submit("slow", machines.silent) for _ in range(16)]
        machines.await_silent(AT_ONCE + EACH_SLOW)
        probe = waves.submit("probe", lambda: DONE)
        assert probe.result(SOON_S) is DONE
        assert sum(future.running() for future in slow) == EACH_SLOW
        machines.let_go.set()
        assert not wait([*others, *slow], SOON_S).not_done


def test_a_rack_whose_last_action_was_slow_has_to_be_quick_once_before_it_has_its_turns_again(
    machines: Machines,
) -> None:
    with opened(slow_s=0.01) as waves:
        slow = waves.submit("slow", machines.silent)
        machines.await_silent(1)
        waves.submit("probe", lambda: DONE).result(SOON_S)
        machines.let_go.wait(0.02)
        machines.let_go.set()
        assert slow.result(SOON_S) is DONE
        machines.let_go.clear()
        others = [waves.submit(f"rack{at}", machines.silent) for at in range(AT_ONCE)]
        again = [waves.submit("slow", machines.silent) for _ in range(4)]
        machines.await_silent(AT_ONCE + EACH_SLOW)
        assert waves.submit("probe", lambda: DONE).result(SOON_S) is DONE
        assert sum(future.running() for future in again) == EACH_SLOW
        machines.let_go.set()
        assert not wait([*others, *again], SOON_S).not_done


def test_an_error_is_raised_where_the_answer_is_read_and_the_next_action_begins() -> None:
    def broken() -> Answer:
        raise LookupError("a bug")

    with opened(slow_s=SOON_S) as waves:
        failed = waves.submit("rack", broken)
        with pytest.raises(LookupError):
            failed.result(SOON_S)
        assert waves.submit("rack", lambda: DONE).result(SOON_S) is DONE


def test_after_the_end_nothing_begins(machines: Machines) -> None:
    waves = Waves()
    under_way = [waves.submit("rack", machines.silent) for _ in range(AT_ONCE)]
    machines.await_silent(AT_ONCE)
    waiting: Future[Answer] = waves.submit("rack", machines.silent)
    waves.shutdown()
    assert waiting.cancelled()
    machines.let_go.set()
    assert not wait(under_way, SOON_S).not_done
