"""Actions that are begun and collected: many as cheaply as one."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest

from launcher.core.model.actions import Acquire, Action, AllotAction, Grow, Reason, Why
from launcher.core.model.receipt import Answer, Result
from launcher.core.model.run import Run, RunId
from launcher.drive.execute import Executor, Fixed, Inline
from launcher.sim.nodes import SimNodes
from launcher.sim.world import MemoryRows
from tests.situations import make_run

WHY = Reason(why=Why.START, message="the run begins")


class CountedRows(MemoryRows):
    """Rows that count how often something is stored."""

    def __init__(self) -> None:
        super().__init__()
        self.stored = 0

    def save_worlds(self, texts: dict[str, str]) -> None:
        self.stored += 1
        super().save_worlds(texts)

    def save_world(self, fleet: str, text: str) -> None:
        self.save_worlds({fleet: text})


def acquire(run: Run) -> list[Action]:
    return [Acquire(reason=WHY, node=node) for node in run.placement.nodes]


def test_what_many_actions_change_in_an_imaginary_fleet_is_stored_at_once_and_others_see_it() -> None:
    run, rows = make_run(slices=4, nodes=4), CountedRows()
    nodes = SimNodes(rows)
    executor = Executor(nodes, Inline())
    nodes.look(run)
    before = rows.stored
    executor.begin(run, acquire(run))
    assert rows.stored == before + 1
    other = replace(run, id=RunId("other-1"))
    held = SimNodes(rows).perform(other, acquire(run)[0])  # type: ignore[arg-type]
    assert (held.result, held.message) == (Result.HELD, f"`{run.id}`")


def test_all_that_have_ended_are_kept_in_one_go_and_are_under_way_until_then() -> None:
    run, kept = make_run(), list[Sequence[tuple[Action, Answer]]]()
    executor = Executor(SimNodes(MemoryRows()), Inline())
    executor.begin(run, acquire(run))
    with pytest.raises(OSError):
        executor.collect(unstorable)
    assert len(executor.in_flight) == len(run.placement.nodes)
    executor.collect(kept.append)
    assert [len(ended) for ended in kept] == [len(run.placement.nodes)]
    assert (executor.in_flight, executor.pending()) == (frozenset(), False)


def test_all_is_settled_once_each_action_has_its_answer() -> None:
    gate, run = threading.Event(), make_run()

    class Slow(SimNodes):
        def perform(self, run: Run, action: Any) -> Answer:
            assert gate.wait(30)
            return super().perform(run, action)

    executor = Executor(Slow(MemoryRows()))
    assert executor.settled()
    executor.begin(run, acquire(run))
    assert not executor.settled()
    gate.set()
    while not executor.settled():
        assert threading.Event().wait(0.001) is False
    executor.collect(lambda _: None)
    assert executor.in_flight == frozenset()
    executor.close()


def unstorable(ended: Sequence[tuple[Action, Answer]]) -> None:
    raise OSError("no space left on device")


class Late(Future[Answer]):
    """An answer; while it is read, another thread has one more."""

    more: Callable[[], object] | None = None

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if self.more is not None:
            more, self.more = self.more, None
            more()
        return super().exception(timeout)


class Slow(Inline):
    """A pool whose last action ends only while the answers of the others are collected."""

    def __init__(self) -> None:
        self.futures: list[Late] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.futures.append(Late())
        return self.futures[-1]


def test_an_action_that_ends_while_others_are_collected_is_collected_next() -> None:
    run, pool, kept = make_run(), Slow(), list[Sequence[tuple[Action, Answer]]]()
    executor = Executor(SimNodes(MemoryRows()), pool)
    executor.begin(run, acquire(run)[:3])
    *first, last = pool.futures
    for future in first:
        future.set_result(Answer(result=Result.DONE))
    first[0].more = lambda: last.set_result(Answer(result=Result.DONE))
    executor.collect(kept.append)
    assert executor.pending()
    executor.collect(kept.append)
    assert [len(ended) for ended in kept] == [2, 1]
    assert not executor.in_flight


class Unreadable(Fixed):
    """An allotter whose store cannot be read."""

    def perform(self, run: Run, action: AllotAction) -> Answer:
        raise OSError("disk I/O error")


def test_an_action_that_raises_loses_no_answer_of_the_others() -> None:
    run, kept = make_run(), list[Sequence[tuple[Action, Answer]]]()
    executor = Executor(SimNodes(MemoryRows()), Inline(), Unreadable())
    good = acquire(run)[:2]
    executor.begin(run, [good[0], Grow(reason=WHY), good[1]])
    with pytest.raises(OSError):
        executor.collect(kept.append)
    executor.collect(kept.append)
    assert [[action for action, _ in ended] for ended in kept] == [[good[0]], [good[1]]]
    assert not executor.in_flight
