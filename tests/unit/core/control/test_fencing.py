"""Kills that do not succeed: a stranger on the GPUs of a slot, and what cannot be killed."""

from dataclasses import replace
from itertools import pairwise

import pytest

from launcher.core.control.reconcile import Decision
from launcher.core.model.action_key import ActionKey
from launcher.core.model.actions import Kill, PowerOff, PowerQuery
from launcher.core.model.observation import Phase, Reached, Seen, Step, Symptom, Unseen
from launcher.core.model.receipt import Result
from launcher.core.model.run import MemberName, RunState
from launcher.core.model.task import OnNoSpare, RecoveryPolicy
from tests.situations import PATIENT, RUN, Situation, key, kinds, make_run, name
from tests.unit.core.control.kernel import holder, serving, wait

LOST, OTHER, SPARE = name(1, 2), name(1, 1), name(1, 3)
STRANGE = "not free: `python` (pid 4711, of ann) computes on GPU 2"


def lost(*, spares: int = 1, recovery: RecoveryPolicy = PATIENT) -> tuple[Situation, Decision]:
    """A run whose raylet on one node has ended."""
    here = Situation(make_run(slices=1, spares=spares, recovery=recovery))
    here.serving()
    here.agent(LOST, ray=Step(phase=Phase.FAILED, exit_code=1), ranks=())
    found = here.decide()
    here.agent(OTHER, ranks=())
    return here, found


def killed(here: Situation, found: Decision, result: Result = Result.KILLED, words: str = "") -> None:
    """Every kill of the lost node is answered so, all others with `killed`."""
    for action in found.actions:
        if isinstance(action, Kill):
            theirs = (result, words) if action.node == LOST else (Result.KILLED, "")
            here.receive(action, theirs[0], message=theirs[1])


def tries(here: Situation, found: Decision, times: int, words: str = STRANGE) -> Decision:
    """The kill of the lost node is refused so often, each time that it is asked."""
    for _ in range(times):
        killed(here, found, Result.NOT_FREE, words)
        here.decide()
        found = here.decide(after=31.0)
    return found


def kills(found: Decision) -> list[Kill]:
    return [action for action in found.actions if isinstance(action, Kill)]


def test_gpus_have_to_be_free_where_a_slot_stays_and_not_where_it_leaves() -> None:
    here, found = lost()
    assert {kill.node for kill in kills(found)} == {LOST, OTHER}
    assert all(kill.reused for kill in kills(found))
    found = tries(here, found, 3)
    assert here.record.slots[MemberName("main/1")].node == SPARE
    assert {kill.node: kill.reused for kill in kills(found)} == {LOST: False}


def test_a_stranger_for_a_moment_costs_nothing() -> None:
    here, found = lost()
    found = tries(here, found, 2)
    assert not [key for key in kinds(found) if key.startswith("join")]
    killed(here, found)
    here.agent(LOST, ray=Step())
    assert kinds(here.decide()) == [f"join:{LOST}#1"]
    assert LOST not in here.record.failed_nodes


def test_without_a_spare_the_run_waits_names_the_stranger_and_goes_on_once_he_is_gone() -> None:
    here, found = lost(spares=0)
    here.agent(LOST, ray=Step())
    for _ in range(20):
        found = tries(here, found, 1)
        assert {action.kind for action in found.actions} <= {"kill"}
    assert (found.state, found.status_message) == (RunState.ON_HOLD, f"main/1 waits for {LOST}: {STRANGE}")
    killed(here, found)
    assert kinds(here.decide()) == [f"join:{LOST}#1"]


def test_a_policy_that_does_not_wait_ends_the_run_and_says_why() -> None:
    here, found = lost(spares=0, recovery=RecoveryPolicy(on_no_spare=OnNoSpare.FAIL))
    tries(here, found, 3)
    assert here.record.outcome is not None
    assert STRANGE in here.record.outcome.message


def test_what_cannot_be_killed_is_named() -> None:
    here, found = lost()
    for _ in range(2):
        killed(here, found, Result.CANNOT_TELL, "still alive: 4711")
        here.decide()
        found = here.decide(after=31.0)
    assert found.status_message == f"main/1 waits for {LOST}: still alive: 4711"
    assert here.record.slots[MemberName("main/1")].node == LOST


@pytest.mark.parametrize("fence", [None, "fence {node}"])
def test_power_ends_what_cannot_be_killed_once_its_slot_has_gone_elsewhere(fence: str | None) -> None:
    here, found = lost()
    here.run = replace(here.run, fleet=replace(here.run.fleet, fence_command=fence))
    here.sign(LOST, Symptom.GPU_LOST, "3 of 4 GPUs")
    cuts: list[float] = []
    for _ in range(20):
        killed(here, found, Result.CANNOT_TELL, "still alive: 4711")
        here.decide()
        found = here.decide(after=31.0)
        cuts += [here.at for action in found.actions if isinstance(action, PowerOff)]
        assert not [key for key in kinds(found) if key.startswith("start")]
    assert here.record.slots[MemberName("main/1")].node == SPARE
    assert (len(cuts) >= 2) == (fence is not None)
    assert all(later - earlier >= 120 for earlier, later in pairwise(cuts)), "a machine may be seen for a while"


def test_power_is_cut_where_the_inventory_says_how_and_nobody_waits_for_the_agent() -> None:
    run = make_run(slices=1, nodes=2, spares=1)
    here = serving(replace(run, fleet=replace(run.fleet, fence_command="off {node}")))
    here.silent(LOST, heard=9.0)
    assert wait(here, 10).actions == (), "ten seconds of silence cost nothing, whoever has missed it for longer"
    assert here.decide(after=1.0).actions == ()
    here.silent(LOST, heard=10.0)
    (off,) = here.decide().actions
    assert isinstance(off, PowerOff)
    assert off.node == LOST
    assert holder(here) == LOST
    here.receive(off, Result.POWERED_OFF)
    here.decide()
    assert holder(here) == "r1-n3"


def asked(here: Situation, heard: float) -> PowerQuery:
    """The question whether a silent node is off, asked after four seconds."""
    here.run = replace(here.run, fleet=replace(here.run.fleet, power_query="query {node}", fence_command="off {node}"))
    here.silent(LOST, heard=heard)
    assert wait(here, 4).actions == ()
    (query,) = here.decide(after=1.0).actions
    assert isinstance(query, PowerQuery)
    assert query.node == LOST
    return query


def test_a_node_that_is_off_is_replaced_at_once() -> None:
    here = serving(make_run(slices=1, nodes=2, spares=1))
    here.receive(asked(here, 4.5), Result.POWERED_OFF)
    here.decide()
    assert holder(here) == "r1-n3"
    assert here.record.failed_nodes[LOST].message == "NotReady: no contact for 4 s; powered off"


def test_a_node_that_is_on_is_asked_about_again_and_waited_for() -> None:
    here = serving(make_run(slices=1, nodes=2, spares=1))
    here.receive(asked(here, 4.5), Result.FAILED, message="`power_query` ended with 1")
    assert here.decide().actions == ()
    assert kinds(here.decide(after=1.0)) == ["power_query:r1-n2"]
    assert holder(here) == LOST


def test_that_a_node_is_off_is_not_believed_of_one_that_was_heard_meanwhile() -> None:
    here = serving(make_run(slices=1, nodes=2, spares=1))
    query = asked(here, 4.5)
    here.silent(LOST, heard=0.5)
    here.receive(query, Result.POWERED_OFF)
    here.decide()
    assert holder(here) == LOST


def test_nobody_is_asked_about_a_node_that_the_head_hears_nor_about_one_in_sight() -> None:
    run = make_run(slices=1, nodes=2, spares=1)
    here = serving(replace(run, fleet=replace(run.fleet, power_query="query {node}")))
    assert not any(isinstance(action, PowerQuery) for action in wait(here, 10).actions)
    here.silent(LOST, heard=3.9)
    assert not any(isinstance(action, PowerQuery) for action in wait(here, 10).actions)


def test_a_power_off_that_fails_is_tried_again_and_proves_nothing() -> None:
    run = make_run(slices=1, nodes=2, spares=1)
    here = serving(replace(run, fleet=replace(run.fleet, fence_command="off {node}")))
    here.silent(LOST, heard=10.0)
    (off,) = wait(here, 11).actions
    here.receive(off, Result.FAILED, message="no such chassis")
    assert here.decide().actions == ()
    assert holder(here) == LOST
    assert kinds(here.decide(after=2.0)) == ["power_off:r1-n2"]


def test_a_fence_is_not_tried_on_a_node_that_is_out_of_reach() -> None:
    here = serving()
    here.end_rank(0, 1)
    here.silent(LOST)
    for _ in range(100):
        for action in here.decide(after=1.0).actions:
            assert not key(action).startswith("kill:r1-n2"), "each try is a line of the journal"
            here.receive(action, Result.KILLED)


def test_a_gang_does_not_start_while_an_old_rank_may_run_where_nobody_sees_it() -> None:
    here = serving(make_run(slices=1))
    here.end_rank(0, 1)
    here.views[LOST] = Unseen(message="timed out")
    for _ in range(60):
        decision = here.decide(after=1.0)
        for action in decision.actions:
            here.receive(action, Result.KILLED)
        assert "start:run@2" not in kinds(decision)


def test_a_fence_on_a_node_that_falls_silent_to_us_alone_holds_its_gang_up() -> None:
    here = serving(make_run(slices=1))
    here.sign(LOST, Symptom.GPU_LOST, "3 of 4 GPUs")
    here.decide()
    assert holder(here) == "r1-n3"
    here.views[LOST] = Unseen(message="timed out")
    here.reached[LOST] = Reached(by=name(2, 1), answers=True)
    for _ in range(60):
        decision = here.decide(after=1.0)
        for action in decision.actions:
            here.receive(action, Result.KILLED if action.kind == "kill" else Result.DONE)
        here.verify(decision.actions)
        here.show_ready(here.record.slots)
        for slot in here.record.slots.values():
            here.agent(slot.node, ranks=())
        assert "start:run@2" not in kinds(decision), "its old rank may still run where we cannot see it"
    here.silent(LOST, heard=14.0)
    here.decide()
    assert here.gang().attempt == 2


def test_power_is_not_cut_of_a_node_that_has_only_just_fallen_silent() -> None:
    run = make_run(slices=1, nodes=2, spares=1)
    here = serving(replace(run, fleet=replace(run.fleet, fence_command="off {node}")))
    here.silent(LOST, heard=13.0)
    for _ in range(10):
        assert here.decide(after=1.0).actions == ()


def test_a_fence_waits_for_the_start_that_it_fences() -> None:
    here = Situation(make_run(slices=1))
    here.serving()
    here.in_flight = frozenset({ActionKey("start", gang=RUN, attempt=1)})
    here.end_rank(0, 1)
    assert kinds(here.decide()) == [], "a rank that begins after the kill would outlive it"
    here.in_flight = frozenset()
    assert kinds(here.decide()) == ["kill:r1-n1:rank:main/0@1#0", "kill:r1-n2:rank:main/1@1#0"]


def test_a_fence_waits_for_the_raylet_that_is_being_started() -> None:
    here = Situation(make_run(slices=1))
    here.ready()
    here.decide()
    here.in_flight = frozenset({ActionKey("join", node=name(1, 2), generation=0)})
    here.views[name(1, 2)] = Seen()
    assert not any("kill:r1-n2" in key for key in kinds(here.decide()))
    here.in_flight = frozenset()
    assert "kill:r1-n2:generation:main/1@0#0" in kinds(here.decide())


def test_a_rank_that_comes_up_behind_its_fence_is_fenced_again() -> None:
    here = Situation(make_run(slices=1))
    here.serving()
    here.end_rank(0, 1)
    for action in here.decide().actions:
        here.receive(action, Result.KILLED)
    here.agent(name(1, 1), ranks=())
    late = here.decide()
    assert kinds(late) == ["kill:r1-n2:rank:main/1@1#0"]
    here.receive(late.actions[0], Result.KILLED)
    here.agent(name(1, 2), ranks=())
    assert kinds(here.decide()) == ["start:run@2"]
