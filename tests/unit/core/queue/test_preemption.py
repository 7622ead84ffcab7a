"""Preemption: which runs stop for a queued run, and how a preempted run ends."""

import math
from dataclasses import replace

from launcher.core.model.actions import Why
from launcher.core.model.nodeset import NodeName
from launcher.core.model.operator_requests import RequestKind
from launcher.core.model.placement import Unavailable
from launcher.core.model.run import Cause, RunName, RunState
from launcher.core.model.task import Task
from launcher.core.queue.preemption import ActiveRun, victims
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
