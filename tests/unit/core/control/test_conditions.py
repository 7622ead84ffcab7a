"""The condition of a slot, from its node, its raylet and its rank."""

from dataclasses import replace

import pytest

from launcher.core.control.conditions import Condition, SlotView, classify, footing
from launcher.core.control.liveness import Silence
from launcher.core.model.observation import AgentReport, Phase, Step, Unseen
from launcher.core.model.receipt import Result
from launcher.core.model.record import Exit
from launcher.core.model.run import RunState
from launcher.core.model.task import RecoveryPolicy, RestartWith
from tests.situations import DONE, UP, Situation, key, kinds, make_run, name
from tests.unit.core.control.kernel import DRIVER, OTHERS, driven, lose_raylet

NOT_BEGUN = Step()
FAILED_STEP = Step(phase=Phase.FAILED, exit_code=1)
SERVING = SlotView(
    exit=None,
    failed=False,
    seen=True,
    silence=None,
    fencing=False,
    leased=True,
    agent=AgentReport(setup=DONE, ray=UP),
    rank_runs=True,
    generation=0,
    in_ray=True,
)


def agent(setup: Step, ray: Step = NOT_BEGUN) -> dict[str, object]:
    return {"agent": AgentReport(setup=setup, ray=ray), "rank_runs": False}


# From a slot that serves, each row adds what the one before it hides.
ROWS = (
    ({}, Condition.SERVING),
    ({"rank_runs": False}, Condition.READY),
    ({"in_ray": None}, Condition.JOINING),
    ({"in_ray": False}, Condition.JOINING),
    (agent(DONE), Condition.PREPARED),
    (agent(FAILED_STEP), Condition.LOST),
    (agent(Step(phase=Phase.RUNNING)), Condition.PREPARING),
    (agent(NOT_BEGUN), Condition.LEASED),
    ({"agent": None, "leased": False}, Condition.ABSENT),
    ({**agent(NOT_BEGUN, FAILED_STEP), "leased": True}, Condition.LOST),
    ({"agent": None}, Condition.LOST),
    ({"fencing": True}, Condition.FENCING),
    ({"seen": False}, Condition.UNSEEN),
    ({"silence": Silence.SUSPECT}, Condition.SUSPECT),
    ({"silence": Silence.DOWN}, Condition.DOWN),
    ({"failed": True}, Condition.NODE_FAILED),
    ({"exit": Exit(attempt=1, code=3, at=0.0)}, Condition.FAILED),
    ({"exit": Exit(attempt=1, code=None, at=0.0)}, Condition.FAILED),
    ({"exit": Exit(attempt=1, code=0, at=0.0)}, Condition.FINISHED),
)


@pytest.mark.parametrize("last", range(len(ROWS)), ids=[f"{at}-{found.value}" for at, (_, found) in enumerate(ROWS)])
def test_the_gravest_thing_that_is_known_of_a_slot_is_its_condition(last: int) -> None:
    view = SERVING
    for changes, _ in ROWS[: last + 1]:
        view = replace(view, **changes)
    assert classify(view) is ROWS[last][1]


def test_every_condition_has_a_row() -> None:
    assert {found for _, found in ROWS} == set(Condition)


def test_a_running_rank_proves_more_than_the_table_of_ray() -> None:
    assert classify(replace(SERVING, in_ray=False)) is Condition.SERVING


def test_a_raylet_of_another_generation_is_none() -> None:
    old = replace(SERVING, agent=AgentReport(setup=DONE, ray=FAILED_STEP), generation=1, rank_runs=False)
    assert classify(old) is Condition.PREPARED


def test_a_node_out_of_sight_that_no_witness_missed_is_only_unseen() -> None:
    assert classify(replace(SERVING, seen=False)) is Condition.UNSEEN
    assert classify(replace(SERVING, seen=False, silence=Silence.UNSEEN)) is Condition.UNSEEN


def test_below_a_rank_that_has_ended_its_node_and_raylet_have_a_condition_of_their_own() -> None:
    ended = replace(SERVING, exit=Exit(attempt=1, code=0, at=0.0), rank_runs=False)
    assert footing(ended) is Condition.READY
    assert footing(replace(ended, agent=None)) is Condition.LOST


def test_unseen_steps_are_told_apart_from_absent_ones() -> None:
    here = Situation(make_run(slices=1))
    here.ready()
    here.views[name(1, 2)] = Unseen(message="timed out")
    assert all("r1-n2" not in key for key in kinds(here.decide()))


def test_a_rank_that_is_done_holds_up_no_other_of_its_slice() -> None:
    policy = RecoveryPolicy(max_restarts=3, restart_with=RestartWith.MEMBER)
    here = Situation(make_run(slices=1, recovery=policy))
    here.ready()
    here.verify(here.decide().actions)
    here.decide()
    here.run_ranks(1)
    here.end_rank(0, 0)
    here.decide()
    here.receive(lose_raylet(here), Result.KILLED)
    here.decide()
    here.show_ready(here.record.slots)
    here.agent(name(1, 2), ranks=())
    again = here.decide()
    assert kinds(again) == ["verify:main.s0"]
    here.verify(again.actions)
    assert kinds(here.decide()) == ["start:main/1@2"]


def test_a_finished_rank_whose_raylet_is_gone_gets_it_back_where_another_of_its_slice_has_to_start() -> None:
    policy = RecoveryPolicy(max_restarts=3, restart_with=RestartWith.MEMBER)
    here = Situation(make_run(slices=1, recovery=policy))
    here.ready()
    here.verify(here.decide().actions)
    here.decide()
    here.run_ranks(1)
    here.park_spares()
    here.end_rank(0, 0)
    here.agent(name(1, 1), ray=Step(phase=Phase.FAILED, exit_code=1))
    assert here.decide().actions == (), "done is not failure"
    here.end_rank(1, 3)
    fences = here.decide().actions
    assert [key(action) for action in fences] == ["kill:r1-n2:rank:main/1@1#0", "kill:r1-n1:generation:main/0@0#0"]
    for action in fences:
        here.receive(action, Result.KILLED)
    here.agent(name(1, 2), ranks=())
    assert kinds(here.decide()) == ["join:r1-n1#1"]
    here.show_ready(here.record.slots)
    here.verify(here.decide().actions)
    assert kinds(here.decide()) == ["start:main/1@2"]


def test_slots_serve_while_their_driver_runs() -> None:
    here = driven()
    here.serving()
    decision = here.decide()
    assert set(decision.conditions.values()) == {Condition.SERVING}
    assert (decision.actions, decision.state) == ((), RunState.RUNNING)


def test_nothing_is_told_of_slots_whose_driver_is_not_seen() -> None:
    here = driven()
    here.serving()
    here.silent(name(1, 1))
    decision = here.decide()
    assert {decision.conditions[member] for member in OTHERS} == {Condition.READY}
    assert (decision.conditions[DRIVER], here.record.exits) == (Condition.SUSPECT, {})
    assert decision.actions == ()
