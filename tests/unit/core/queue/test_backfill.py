"""Whose turn it is, case by case; and whom a run that waits may stop."""

import math
from dataclasses import replace

from launcher.core.model.actions import Why
from launcher.core.model.nodeset import NodeName
from launcher.core.model.operator_requests import RequestKind
from launcher.core.model.placement import Taken
from launcher.core.model.run import Cause, RunName, RunState
from launcher.core.model.task import Task
from launcher.core.queue.backfill import ALLOWANCE_S, RELEASE_S, left, turns
from launcher.core.queue.preemption import Going, victims
from tests.property.test_queue import FLEET, going_of, task, waits
from tests.situations import Situation, make_run


def held(**by: str) -> dict[str, Taken]:
    """Racks, whole or in part, in the hands of runs: `r0="a"`, `r0_2="a"` for two nodes of it."""
    taken = {}
    for where, who in by.items():
        rack, _, number = where.partition("_")
        for node in [node for node in FLEET.nodes if node.rack == rack][: int(number or 3)]:
            taken[node.name] = Taken(by_run=who)
    return taken


def decide(waiting: list, taken: dict, *going: Going) -> dict[str, tuple[bool, float | None]]:
    return {t.waiting.name: (t.placement is not None, t.after) for t in turns(waiting, FLEET, taken, going)}


class TestTurns:
    def test_priority_goes_before_who_came_first(self) -> None:
        taken = held(r0="a", r1="a")
        waiting = [waits(0, task(1, 3)), waits(1, task(1, 3, priority=1))]
        assert decide(waiting, taken, going_of("a", task(1, 1), math.inf))["w01"] == (True, 0.0)

    def test_a_small_one_passes_where_it_is_gone_before_the_big_one_can_start(self) -> None:
        taken = held(r0="a", r1="a", r2_2="a")
        waiting = [waits(0, task(3, 3)), waits(1, task(1, 1, limit=60.0)), waits(2, task(1, 1, limit=9000.0))]
        decided = decide(waiting, taken, going_of("a", task(1, 1), 3600.0))
        assert decided["w00"] == (False, 3600.0)
        assert decided["w01"] == (True, 0.0)
        assert not decided["w02"][0]

    def test_one_without_a_limit_passes_only_on_nodes_that_the_big_one_will_not_need(self) -> None:
        taken = held(r0="a", r1_2="b")
        waiting = [waits(0, task(2, 3)), waits(1, task(1, 1))]
        ends = going_of("a", task(1, 1), 100.0), going_of("b", task(1, 1), 5000.0)
        decided = decide(waiting, taken, *ends)
        # r0 and r2 are for the big one in 100 s; r1 is not.
        assert decided == {"w00": (False, 100.0), "w01": (True, 0.0)}

    def test_where_no_time_is_known_nothing_of_use_is_given_away(self) -> None:
        taken = held(r0="a", r1_2="b")
        waiting = [waits(0, task(3, 3)), waits(1, task(1, 1, limit=60.0))]
        ends = going_of("a", task(1, 1), math.inf), going_of("b", task(1, 1), 50.0)
        assert decide(waiting, taken, *ends) == {"w00": (False, None), "w01": (False, None)}

    def test_one_that_fits_on_no_free_fleet_holds_nobody_up(self) -> None:
        sick = {FLEET.nodes[0].name: Taken(sick="xid 79")}
        waiting = [waits(0, task(3, 3)), waits(1, task(1, 1))]
        assert decide(waiting, sick) == {"w00": (False, None), "w01": (True, 0.0)}

    def test_what_was_found_unfit_when_asked_keeps_nobody_else_off(self) -> None:
        barred = {node.name: Taken(sick="no answer") for node in FLEET.nodes if node.rack == "r0"}
        first = replace(waits(0, task(3, 3)), barred=barred)
        assert decide([first, waits(1, task(1, 3))], {})["w01"] == (True, 0.0)

    def test_the_time_that_is_left_of_a_run(self) -> None:
        limited = replace(task(1, 1, limit=100.0), stop_grace=10.0)
        assert left(limited, None, 1000.0) == 110.0 + ALLOWANCE_S
        assert left(limited, 1040.0, 1000.0) == 50.0 + RELEASE_S
        assert left(limited, 900.0, 1000.0) == 10.0 + RELEASE_S
        assert left(task(1, 1), None, 1000.0) == math.inf


def runs(**of: tuple[int, float]) -> list[Going]:
    return [
        Going(name=RunName(name), priority=priority, preemptible=True, since=since, left=math.inf)
        for name, (priority, since) in of.items()
    ]


class TestVictims:
    big: Task = task(1, 3, priority=5)

    def test_the_least_important_then_the_youngest(self) -> None:
        taken = held(r0="a", r1="b", r2="c")
        assert victims(self.big, FLEET, taken, runs(a=(1, 1.0), b=(0, 1.0), c=(0, 2.0))) == ("c",)

    def test_whole_places_are_freed_and_not_single_nodes(self) -> None:
        # `a` has a node in every rack and is the least: to stop it alone frees no rack, to stop `b` does.
        taken = held(r0="b", r1="c", r2="c")
        taken |= {NodeName(name): Taken(by_run="a") for name in ("r1-n2", "r2-n2")}
        assert victims(self.big, FLEET, taken, runs(a=(0, 1.0), b=(2, 1.0), c=(3, 1.0))) == ("b",)

    def test_nobody_is_stopped_for_nothing(self) -> None:
        taken = held(r0="a", r1="b", r2="c")
        stay = [replace(one, preemptible=False) for one in runs(b=(0, 1.0), c=(0, 1.0))]
        assert victims(replace(task(2, 3), priority=5), FLEET, taken, [*runs(a=(0, 1.0)), *stay]) == ()

    def test_an_equal_is_not_stopped(self) -> None:
        assert victims(self.big, FLEET, held(r0="a", r1="a", r2="a"), runs(a=(5, 1.0))) == ()

    def test_nobody_else_is_stopped_while_one_is_leaving_for_it(self) -> None:
        taken = held(r0="a", r1="b", r2="c")
        leaving = replace(runs(a=(0, 1.0))[0], leaving=True)
        assert victims(self.big, FLEET, taken, [leaving, *runs(b=(0, 1.0), c=(0, 1.0))]) == ()


def test_a_victim_may_write_a_checkpoint_and_says_who_goes_first() -> None:
    at = Situation(make_run(slices=1, nodes=2, spares=0))
    at.serving()
    at.order(RequestKind.PREEMPT, "big")
    told = at.decide()
    assert [(action.kind, action.reason.why) for action in told.actions] == [("signal", Why.STOP)] * 2
    assert told.state is RunState.STOPPING
    assert told.record.outcome
    assert told.record.outcome.cause is Cause.PREEMPTED
    assert "preempted for ann" in told.record.outcome.message
