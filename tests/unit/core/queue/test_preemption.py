"""Preemption: which runs stop for a queued run, and how a preempted run ends."""

import math
from dataclasses import replace

import pytest

from launcher.admission.queue.explain import queue_order
from launcher.core.model.actions import Why
from launcher.core.model.nodeset import NodeName
from launcher.core.model.operator_requests import RequestKind
from launcher.core.model.placement import Unavailable
from launcher.core.model.run import Cause, RunId, RunName, RunState
from launcher.core.model.task import Task
from launcher.core.queue.backfill import QueuedRun
from launcher.core.queue.preemption import (
    COOL_DOWN_S,
    LONGEST_COOL_DOWN_S,
    PROTECTED_S,
    ActiveRun,
    cool_down,
    protection,
    victims,
)
from launcher.store.queue import QueueState
from tests.property.test_queue import FLEET, task
from tests.situations import Situation, make_run
from tests.unit.core.queue.builders import held


def runs(**of: tuple[int, float]) -> list[ActiveRun]:
    return [
        ActiveRun(name=RunName(name), priority=priority, preemptible=True, since=since, remaining=math.inf)
        for name, (priority, since) in of.items()
    ]


class TestVictims:
    big: Task = task(1, 3, priority=5)

    def test_the_lowest_priority_stops_first_then_the_youngest(self) -> None:
        unavailable = held(r0="a", r1="b", r2="c")
        assert victims(self.big, FLEET, unavailable, runs(a=(1, 1.0), b=(0, 1.0), c=(0, 2.0))) == ("c",)

    def test_the_run_that_was_preempted_least_often_stops_first(self) -> None:
        unavailable = held(r0="a", r1="b", r2="c")
        of_age = runs(a=(0, 1.0), b=(0, 2.0), c=(0, 3.0))
        before = [replace(run, preempted=times) for run, times in zip(of_age, (1, 0, 2), strict=True)]
        assert victims(self.big, FLEET, unavailable, before) == ("b",)

    def test_a_protected_run_is_not_stopped(self) -> None:
        unavailable = held(r0="a", r1="b", r2="c")
        protected = [replace(run, protected=1.0) for run in runs(a=(0, 1.0), b=(0, 2.0), c=(0, 3.0))]
        assert victims(self.big, FLEET, unavailable, protected) == ()
        assert victims(self.big, FLEET, unavailable, [replace(protected[0], protected=0.0), *protected[1:]]) == ("a",)

    def test_whole_racks_are_freed_not_single_nodes(self) -> None:
        # `a` has a node in every rack and is the least: to stop it alone frees no rack, to stop `b` does.
        unavailable = held(r0="b", r1="c", r2="c")
        unavailable |= {NodeName(name): Unavailable(used_by="a") for name in ("r1-n2", "r2-n2")}
        assert victims(self.big, FLEET, unavailable, runs(a=(0, 1.0), b=(2, 1.0), c=(3, 1.0))) == ("b",)

    def test_no_run_stops_if_the_task_would_still_not_fit(self) -> None:
        unavailable = held(r0="a", r1="b", r2="c")
        stay = [replace(one, preemptible=False) for one in runs(b=(0, 1.0), c=(0, 1.0))]
        assert victims(replace(task(2, 3), priority=5), FLEET, unavailable, [*runs(a=(0, 1.0)), *stay]) == ()

    def test_a_run_of_equal_priority_is_not_stopped(self) -> None:
        assert victims(self.big, FLEET, held(r0="a", r1="a", r2="a"), runs(a=(5, 1.0))) == ()

    def test_no_other_run_stops_while_one_is_stopping(self) -> None:
        unavailable = held(r0="a", r1="b", r2="c")
        stopping = replace(runs(a=(0, 1.0))[0], stopping=True)
        assert victims(self.big, FLEET, unavailable, [stopping, *runs(b=(0, 1.0), c=(0, 1.0))]) == ()


@pytest.mark.parametrize(
    ("preempted", "runs_for", "left"),
    [(0, 0.0, 0.0), (1, 0.0, PROTECTED_S), (2, PROTECTED_S - 1, 1.0), (3, PROTECTED_S + 1, 0.0)],
)
def test_only_a_run_that_was_preempted_is_protected_until_it_has_run(
    preempted: int, runs_for: float, left: float
) -> None:
    assert protection(preempted, runs_for) == left


@pytest.mark.parametrize(
    ("ends", "left"),
    [
        ([], 0.0),
        ([1000.0], COOL_DOWN_S),
        ([900.0, 1000.0], 2 * COOL_DOWN_S),
        ([1000.0 - COOL_DOWN_S], 0.0),
        ([1000.0] * 50, LONGEST_COOL_DOWN_S),
    ],
)
def test_a_program_whose_runs_end_at_once_preempts_nothing_for_longer_each_time(ends: list[float], left: float) -> None:
    assert cool_down(ends, 1000.0) == left


def test_a_run_that_ends_at_once_and_comes_again_all_day_preempts_a_bounded_number_of_times() -> None:
    now, ends = 0.0, []
    while now < 86400.0:
        if cool_down(ends, now) == 0.0:
            ends.append(now + 5.0)
        now += 5.0
    assert len(ends) <= 12
    assert 86400.0 / 5.0 > 1000, "without a bound it would be one every few seconds"


def test_a_run_that_cools_down_preempts_nobody_and_its_waiter_knows() -> None:
    unavailable = held(r0="a", r1="b", r2="c")
    active = tuple(runs(a=(0, 1.0), b=(0, 2.0), c=(0, 3.0)))
    big = QueuedRun(id=RunId("big-x"), name=RunName("big"), task=task(1, 3, priority=5), since=0.0)

    def stopped(waiting: QueuedRun) -> tuple[RunName, ...]:
        """Whom the run stops that asks for its turn; what its controller made has no cool-down of its own."""
        state = QueueState(unavailable=unavailable, going=active, waiting=(waiting,), driven=frozenset((big.id,)))
        (turn,) = queue_order(FLEET, state, (big,))
        return turn.victims

    assert stopped(big) == ("c",)
    assert stopped(replace(big, cools_down=1.0)) == ()


def test_a_preempted_run_gets_its_stop_signal_and_names_the_run_it_stops_for() -> None:
    at = Situation(make_run(slices=1, nodes=2, spares=0))
    at.serving()
    at.order(RequestKind.PREEMPT, "big")
    told = at.decide()
    assert [(action.kind, action.reason.why) for action in told.actions] == [("signal", Why.STOP)] * 2
    assert told.state is RunState.STOPPING
    assert told.record.outcome
    assert told.record.outcome.cause is Cause.PREEMPTED
    assert "preempted by ann" in told.record.outcome.message
