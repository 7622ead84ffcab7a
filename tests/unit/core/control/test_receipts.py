"""Receipts and sightings: what an action that succeeds or fails changes, and what a look leaves in the record."""

from dataclasses import replace

import pytest

from launcher.core.control.conditions import Condition
from launcher.core.model.actions import Join, Prepare, Reason, Why
from launcher.core.model.observation import Head, HeadSeen, RankReport, Step
from launcher.core.model.receipt import Result
from launcher.core.model.run import Cause, MemberName, RunState
from launcher.core.model.task import RecoveryPolicy
from tests.situations import RUN, UP, Situation, key, kinds, make_run, name
from tests.unit.core.control.kernel import DRIVER, OTHERS, driven, lose_raylet


def test_a_lease_that_somebody_holds_is_passed_over_for_a_spare_and_ends_the_run_without_one() -> None:
    for spares, cause in ((1, None), (0, Cause.LEASE_HELD)):
        here = Situation(make_run(slices=1, spares=spares))
        claims = {key(action): action for action in here.decide().actions}
        here.receive(claims["acquire:r1-n2"], Result.HELD, message="run `other` (other-1) of ann@gate")
        here.decide()
        assert (here.record.outcome.cause if here.record.outcome else None) is cause
        if cause is None:
            assert here.record.slots[MemberName("main/1")].node == "r1-n3"
        said = here.record.failed_nodes[name(1, 2)].message
        assert said == "held by run `other` (other-1) of ann@gate" + ("; replaced by r1-n3" if cause is None else "")


def test_what_fails_is_tried_again_later_and_later() -> None:
    here = Situation(make_run(slices=1))
    here.ready()
    asked = here.decide()
    gaps, last = [], here.at
    verify = next(action for action in asked.actions if action.kind == "verify")
    for _ in range(3):
        here.receive(verify, Result.FAILED, message="no answer")
        while "verify:main.s0" not in kinds(here.decide(after=0.1)):
            pass
        gaps.append(here.at - last)
        last = here.at
    assert gaps == pytest.approx([1.0, 2.0, 4.0], abs=0.3)


def test_what_fails_five_times_in_a_row_ends_the_launch() -> None:
    here = Situation(make_run(slices=1))
    here.ready()
    asked = here.decide()
    verify = next(action for action in asked.actions if action.kind == "verify")
    for _ in range(5):
        here.receive(verify, Result.FAILED, stage="ray", message="no answer")
        here.decide(after=60.0)
    assert here.record.outcome is not None
    assert here.record.outcome.message == "ray: no answer"


@pytest.mark.parametrize("rung", ["acquire", "prepare", "join"])
def test_a_failure_that_was_overtaken_is_not_held_against_its_node(rung: str) -> None:
    here = Situation(make_run(slices=1, recovery=RecoveryPolicy(node_attempts=0)))
    tried = [action for action in here.decide().actions if key(action) == "acquire:r1-n2"]
    here.leased()
    tried += [action for action in here.decide().actions if key(action) == "prepare:r1-n2"]
    here.ready()
    assert isinstance(here.head, HeadSeen)
    up, here.head = here.head, HeadSeen(head=replace(here.head.head or Head(), nodes=()))
    here.agent(name(1, 2), ray=Step())
    tried += [action for action in here.decide().actions if key(action) == "join:r1-n2#0"]
    here.head = up
    here.agent(name(1, 2), ray=UP)
    here.receive(next(action for action in tried if action.kind == rung), Result.FAILED, message="timed out")
    here.decide()
    assert (dict(here.record.node_attempts), dict(here.record.failed_nodes)) == ({}, {})


def test_a_raylet_of_an_earlier_generation_that_failed_to_start_says_nothing_of_the_next() -> None:
    here = Situation(make_run(slices=1, recovery=RecoveryPolicy(node_attempts=1)))
    here.serving()
    slot = here.record.slots[MemberName("main/1")]
    late = Join(reason=Reason(why=Why.START, message="the run begins"), slot=slot)
    here.receive(lose_raylet(here), Result.KILLED)
    here.decide()
    here.receive(late, Result.FAILED, message="timed out")
    here.decide()
    assert here.record.node_attempts == {"r1-n2": 1}


def test_a_prepare_that_would_fail_again_is_not_tried_again() -> None:
    here = Situation(make_run())
    here.leased()
    prepare = next(action for action in here.decide().actions if isinstance(action, Prepare))
    here.receive(prepare, Result.FAILED, message="cannot write `/data`: permission denied", lasting=True)
    decided = here.decide(after=60.0)
    assert prepare.node in here.record.failed_nodes
    assert key(prepare) not in {key(action) for action in decided.actions}


def test_exits_of_an_earlier_attempt_mean_nothing() -> None:
    here = Situation(make_run(slices=1))
    here.serving()
    here.park_spares()
    here.agent(
        name(1, 1),
        ranks=(
            RankReport(member=MemberName("main/0"), attempt=1, running=True),
            RankReport(member=MemberName("main/0"), attempt=0, running=False, exit_code=9),
        ),
    )
    assert here.decide().actions == ()


def test_slots_fail_with_their_driver_and_the_end_of_its_log_is_kept_once() -> None:
    here = driven(restarts=0)
    here.serving()
    here.agent(
        name(1, 1),
        ranks=(
            RankReport(member=DRIVER, attempt=0, running=True),
            RankReport(member=DRIVER, attempt=1, running=False, exit_code=3, ended_ago=7.0, tail=("boom",)),
        ),
    )
    decision = here.decide()
    assert {decision.conditions[member] for member in (DRIVER, *OTHERS)} == {Condition.FAILED}
    exits = here.record.exits
    assert {(one.attempt, one.code, round(here.at - one.at)) for one in exits.values()} == {(1, 3, 7)}
    assert [exits[member].tail for member in (DRIVER, *OTHERS)] == [("boom",), (), (), ()]
    outcome = here.record.outcome
    assert outcome is not None
    assert (outcome.cause, outcome.member, outcome.exit_code, outcome.tail) == (Cause.PROGRAM, DRIVER, 3, ("boom",))


@pytest.mark.parametrize("code", [0, 3])
def test_of_the_end_of_a_rank_or_driver_its_own_node_alone_is_believed(code: int) -> None:
    here = driven(restarts=0)
    here.serving()
    said = RankReport(member=DRIVER, attempt=1, running=False, exit_code=code, ended_ago=0.0)
    for node in here.views:
        if node != name(1, 1):
            here.agent(node, ranks=(said, replace(said, member=OTHERS[0])))
    decision = here.decide()
    assert (here.record.exits, here.record.outcome, decision.actions) == ({}, None, ())
    assert decision.state is RunState.RUNNING


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
