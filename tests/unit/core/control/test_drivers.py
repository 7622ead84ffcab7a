"""Groups with a driver: one rank for all slots, and slices without a placement group."""

from dataclasses import replace

import pytest

from launcher.core.control.conditions import Condition
from launcher.core.model.actions import Kill, Level, Result
from launcher.core.model.observation import Head, HeadSeen, Phase, RankReport, RayNode, Step
from launcher.core.model.run import Cause, MemberName, RunState
from launcher.core.model.run_index import index_of
from launcher.core.model.task import RecoveryPolicy
from tests.situations import RUN, Situation, kinds, make_run, name

DRIVER = MemberName("main/0")
OTHERS = tuple(MemberName(f"main/{rank}") for rank in (1, 2, 3))


def driven(*, reserve: bool = False, restarts: int = 3, spares: int = 0) -> Situation:
    recovery = RecoveryPolicy(max_restarts=restarts)
    return Situation(make_run(driver="python a.py", reserve=reserve, recovery=recovery, spares=spares))


def head(here: Situation) -> Head:
    assert isinstance(here.head, HeadSeen)
    assert here.head.head is not None
    return here.head.head


def show_nodes(here: Situation, *nodes: RayNode) -> None:
    here.head = HeadSeen(head=replace(head(here), nodes=nodes))


def test_the_driver_of_every_member_is_the_first_of_its_group() -> None:
    with_driver, without = index_of(driven().run), index_of(make_run())
    assert {driver.name for one in with_driver.members if (driver := with_driver.driver(one))} == {DRIVER}
    assert {without.driver(one) for one in without.members} == {None}


def test_slots_serve_while_their_driver_runs() -> None:
    here = driven()
    here.serving()
    decision = here.decide()
    assert set(decision.conditions.values()) == {Condition.SERVING}
    assert (decision.actions, decision.state) == ((), RunState.RUNNING)


def test_slots_fail_with_their_driver_and_the_end_of_its_log_is_kept_once() -> None:
    here = driven(restarts=0)
    here.serving()
    here.agent(
        name(1, 1),
        ranks=(
            RankReport(member=DRIVER, attempt=0, running=True),
            RankReport(member=DRIVER, attempt=1, running=False, exit_code=3, at=7.0, tail=("boom",)),
        ),
    )
    decision = here.decide()
    assert {decision.conditions[member] for member in (DRIVER, *OTHERS)} == {Condition.FAILED}
    exits = here.record.exits
    assert {(one.attempt, one.code, one.at) for one in exits.values()} == {(1, 3, 7.0)}
    assert [exits[member].tail for member in (DRIVER, *OTHERS)] == [("boom",), (), (), ()]
    outcome = here.record.outcome
    assert outcome is not None
    assert (outcome.cause, outcome.member, outcome.exit_code, outcome.tail) == (Cause.PROGRAM, DRIVER, 3, ("boom",))


def test_when_the_driver_ends_with_0_the_run_has_succeeded() -> None:
    here = driven()
    here.serving()
    here.end_rank(0, 0)
    here.decide()
    assert here.record.outcome is not None
    assert here.record.outcome.cause is Cause.SUCCESS


def test_a_driver_that_moved_is_judged_on_its_new_node_by_its_newest_attempt() -> None:
    here = Situation(make_run(driver="python a.py", slices=1, spares=1))
    here.serving()
    here.agent(name(1, 1), ranks=(RankReport(member=DRIVER, attempt=1, running=False),))
    slots = here.record.slots
    here.record = replace(here.record, slots={**slots, DRIVER: replace(slots[DRIVER], node=name(1, 3), generation=1)})
    here.record.gangs[RUN] = replace(here.gang(), attempt=2)
    here.show_ready(here.record.slots)
    here.agent(name(1, 3), ranks=(RankReport(member=DRIVER, attempt=2, running=True),))
    decision = here.decide()
    assert (set(decision.conditions.values()), here.record.exits) == ({Condition.SERVING}, {})


def test_nothing_is_told_of_slots_whose_driver_is_not_seen() -> None:
    here = driven()
    here.serving()
    here.silent(name(1, 1))
    decision = here.decide()
    assert {decision.conditions[member] for member in OTHERS} == {Condition.READY}
    assert (decision.conditions[DRIVER], here.record.exits) == (Condition.SUSPECT, {})
    assert decision.actions == ()


@pytest.mark.parametrize(("code", "ended"), [(1, {DRIVER, *OTHERS[:2]}), (0, {DRIVER, *OTHERS})])
def test_a_silent_node_may_be_why_its_driver_failed_but_is_done_with_a_driver_that_succeeded(
    code: int, ended: set[MemberName]
) -> None:
    here = driven()
    here.serving()
    here.silent(name(2, 2))
    here.end_rank(0, code)
    here.decide()
    assert here.record.exits.keys() == ended


def test_a_raylet_that_ends_under_any_slot_ends_the_driver_and_starts_again_in_place() -> None:
    here = driven()
    here.serving()
    here.agent(name(2, 2), ray=Step(phase=Phase.FAILED, exit_code=1))
    kills = [action for action in here.decide().actions if isinstance(action, Kill)]
    assert {(kill.level, kill.member) for kill in kills} >= {(Level.RANK, DRIVER), (Level.GENERATION, OTHERS[2])}
    assert (here.gang().restarts, here.gang().broken is not None) == (0, True)
    for kill in kills:
        here.receive(kill, Result.KILLED)
    here.agent(name(1, 1), ranks=())
    assert kinds(here.decide()) == ["join:r2-n2#1"]
    here.show_ready(here.record.slots)
    assert kinds(here.decide()) == ["start:run@2"]


def test_only_the_node_of_the_driver_is_told_to_stop() -> None:
    here = driven(spares=1)
    here.serving()
    here.drained[name(1, 2)] = "maintenance"
    assert [key for key in kinds(here.decide()) if key.startswith("signal")] == ["signal:r1-n1"]


def test_a_slice_is_in_place_when_each_of_its_slots_is_alive_in_its_present_generation() -> None:
    here = driven()
    here.ready()
    slots = here.record.slots
    here.record = replace(here.record, slots={**slots, OTHERS[0]: replace(slots[OTHERS[0]], generation=2)})
    here.show_ready(here.record.slots)
    nodes = head(here).nodes
    old = replace(nodes[1], generation=1)
    show_nodes(here, nodes[0], replace(nodes[1], alive=False), old, *nodes[2:])
    assert kinds(here.decide()) == []
    assert here.record.verified.keys() == {"main.s1"}
    show_nodes(here, old, *nodes)
    assert kinds(here.decide()) == ["start:run@1"]
    assert here.record.verified == {"main.s0": (0, 2), "main.s1": (0, 0)}


def test_a_slot_that_is_dead_in_ray_leaves_its_slice_out_of_place_and_nothing_is_reserved() -> None:
    here = driven()
    here.ready()
    nodes = head(here).nodes
    show_nodes(here, nodes[0], replace(nodes[1], alive=False), *nodes[2:])
    assert kinds(here.decide()) == []
    assert "main.s0" not in here.record.verified


def test_a_slot_in_another_domain_leaves_its_slice_out_of_place() -> None:
    here = driven()
    here.ready()
    nodes = head(here).nodes
    show_nodes(here, nodes[0], replace(nodes[1], domain="r2"), *nodes[2:])
    assert kinds(here.decide()) == []
    assert here.record.verified.keys() == {"main.s1"}


@pytest.mark.parametrize("reserve", [False, True])
def test_what_is_reserved_stays_rays_to_tell(reserve: bool) -> None:
    here = driven(reserve=reserve)
    here.ready()
    here.head = HeadSeen(head=replace(head(here), groups=()))
    assert kinds(here.decide()) == (["reserve:main.s0", "reserve:main.s1"] if reserve else ["start:run@1"])
