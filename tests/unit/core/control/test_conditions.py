"""The condition of a slot, from its node, its raylet and its rank."""

from launcher.core.control.conditions import Condition
from launcher.core.model.actions import Result
from launcher.core.model.observation import Phase, Step, Unseen
from launcher.core.model.run import RunState
from launcher.core.model.task import RecoveryPolicy, RestartWith
from tests.situations import Situation, key, kinds, make_run, name
from tests.unit.core.control.kernel import DRIVER, OTHERS, driven, lose_raylet


def test_unseen_steps_are_told_apart_from_absent_ones() -> None:
    here = Situation(make_run(slices=1))
    here.ready()
    here.views[name(1, 2)] = Unseen(message="timed out")
    assert all("r1-n2" not in key for key in kinds(here.decide()))


def test_a_rank_that_is_done_holds_up_no_other_of_its_slice() -> None:
    policy = RecoveryPolicy(restart_with=RestartWith.MEMBER)
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
    policy = RecoveryPolicy(restart_with=RestartWith.MEMBER)
    here = Situation(make_run(slices=1, recovery=policy))
    here.ready()
    here.verify(here.decide().actions)
    here.decide()
    here.run_ranks(1)
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
