"""A start, step by step: leases, setups, raylets; nodes that fall silent meanwhile."""

from dataclasses import replace

import pytest

from launcher.core.control.reconcile import Decision
from launcher.core.model.action_key import ActionKey
from launcher.core.model.actions import PowerOff, Unit
from launcher.core.model.inventory import Access
from launcher.core.model.observation import Head, HeadSeen, Phase, Reached, Seen, Step, Unseen
from launcher.core.model.operator_requests import RequestKind
from launcher.core.model.receipt import Result
from launcher.core.model.run import Cause, MemberName, RunState
from launcher.core.model.task import OnNoSpare, RecoveryPolicy
from tests.situations import UP, Situation, key, kinds, make_run, name
from tests.unit.core.control.kernel import LOST, holder, wait


def test_a_run_begins_with_the_lease_of_every_node_spares_too() -> None:
    here = Situation(make_run())
    decision = here.decide()
    assert kinds(decision) == [f"acquire:r{r}-n{n}" for r in (1, 2) for n in (1, 2, 3)]
    assert decision.state is RunState.STARTING


def test_nothing_else_begins_before_the_last_lease_is_ours() -> None:
    here = Situation(make_run())
    here.leased()
    here.views[name(2, 3)] = Seen()
    assert kinds(here.decide()) == ["acquire:r2-n3"]


def test_claimed_members_are_prepared_and_the_head_starts_while_spares_are_left_alone() -> None:
    here = Situation(make_run())
    here.leased()
    assert kinds(here.decide()) == ["prepare:r1-n1", "prepare:r1-n2", "prepare:r2-n1", "prepare:r2-n2", "start_head"]


def test_prepared_members_join_once_the_head_runs_and_wait_for_it_there() -> None:
    here = Situation(make_run())
    here.ready()
    assert isinstance(here.head, HeadSeen)
    assert here.head.head is not None
    for node in (name(1, 1), name(2, 2)):
        here.agent(node, ray=Step())
    up = here.head.head
    here.head = HeadSeen(head=replace(up, ray=Step(), ready=False))
    assert "join:r1-n1#0" not in kinds(here.decide())
    here.head = HeadSeen(head=replace(up, ready=False, nodes=()))
    assert kinds(here.decide()) == ["join:r1-n1#0", "join:r2-n2#0"]


def test_nothing_joins_a_head_that_is_to_be_left() -> None:
    here = Situation(make_run())
    here.ready()
    assert isinstance(here.head, HeadSeen)
    assert here.head.head is not None
    here.agent(name(1, 1), ray=Step())
    here.decide()
    here.record = replace(here.record, cluster=2)
    assert "join:r1-n1#0" not in kinds(here.decide())


def test_processes_without_a_agent_are_killed_before_the_node_is_claimed() -> None:
    here = Situation(make_run(slices=1))
    here.views[name(1, 1)] = Seen(leftovers=2)
    assert "release:slot:r1-n1" in kinds(here.decide())


def test_a_lease_is_not_taken_while_it_is_let_go_of() -> None:
    here = Situation(make_run(slices=1))
    here.in_flight = frozenset({ActionKey("release", node=name(1, 1), unit=Unit.SLOT)})
    assert kinds(here.decide()) == ["acquire:r1-n2", "acquire:r1-n3"]


IN_SETUP = Step(phase=Phase.RUNNING)


def in_setup(*, spares: int = 0, recovery: RecoveryPolicy | None = None, nodes: int = 2) -> Situation:
    """A launch whose nodes are all in setup while its head, on a machine of its own, is up."""
    run = make_run(slices=1, nodes=nodes, spares=spares, recovery=recovery or RecoveryPolicy())
    here = Situation(replace(run, fleet=replace(run.fleet, head=Access(address="10.9.9.9"))))
    here.leased()
    for node in here.views:
        here.agent(node, setup=IN_SETUP, head_silent=0.0)
    here.head = HeadSeen(head=Head(ray=replace(UP, generation=1), ready=True, heard=dict.fromkeys(here.views, 0.1)))
    here.decide()
    return here


def test_a_node_that_was_never_ours_and_stays_out_of_reach_is_replaced_after_a_while() -> None:
    here = Situation(make_run(slices=1))
    here.views[name(1, 2)] = Unseen(message="timed out")
    here.decide()
    assert here.record.slots[MemberName("main/1")].node == "r1-n2"
    decision = here.decide(after=31.0)
    assert here.record.slots[MemberName("main/1")].node == "r1-n3"
    assert decision.wake_at <= here.at + 5


@pytest.mark.parametrize("fence", [None, "off {node}"])
def test_without_a_spare_a_cut_of_thirty_seconds_only_delays_the_launch(fence: str | None) -> None:
    here = in_setup()
    here.run = replace(here.run, fleet=replace(here.run.fleet, fence_command=fence))
    here.silent(LOST, heard=40.0)
    for _ in range(42):
        decision = here.decide(after=1.0)
        assert decision.actions == ()
    assert decision.state is RunState.ON_HOLD
    assert decision.status_message == (
        "main/1 waits for r1-n2, unreachable for 40 s during setup: no answer; no spare in r1, fails after 5m"
    )
    here.agent(LOST, setup=Step(phase=Phase.DONE, exit_code=0))
    again = here.decide()
    assert kinds(again) == ["join:r1-n2#0"]
    assert again.state is RunState.STARTING


def test_a_node_that_stays_silent_ends_the_launch_after_five_minutes() -> None:
    here = in_setup()
    here.silent(LOST, heard=40.0)
    wait(here, 299)
    assert here.record.outcome is None
    none_is_free(here, wait(here, 3))
    outcome = here.record.outcome
    assert outcome is not None
    assert (outcome.cause, outcome.node) == (Cause.PROVISION, LOST)
    assert outcome.message == "r1-n2: setup: unreachable for 300 s: no answer; no other node available in r1"


def test_a_task_that_does_not_wait_without_a_spare_is_given_up_after_half_a_minute() -> None:
    here = in_setup(recovery=RecoveryPolicy(on_no_spare=OnNoSpare.FAIL))
    here.silent(LOST, heard=40.0)
    wait(here, 29)
    assert here.record.outcome is None
    none_is_free(here, wait(here, 3))
    assert here.record.outcome is not None
    assert here.record.outcome.cause is Cause.PROVISION


def none_is_free(here: Situation, asked: Decision) -> None:
    """Another node of the rack was asked for, and there is none."""
    assert here.record.outcome is None
    (add_spare,) = (action for action in asked.actions if action.kind == "add_spare")
    here.receive(add_spare, Result.FAILED, message="no node is free")
    here.decide()


FULL = "cannot write `/home/u/.nvlaunch/x`: no space left on device (ENOSPC)"


def refuses(here: Situation, kind: str, node: str = LOST) -> Decision:
    """The action of this kind that was decided on a node fails for a fault of the node."""
    decision = here.decide()
    (action,) = (one for one in decision.actions if one.kind == kind and getattr(one, "node", node) == node)
    here.receive(action, Result.FAILED, stage=kind, message=FULL, unfit=(node,))
    return here.decide()


def test_a_node_that_takes_no_file_is_left_to_a_spare_at_the_first_try() -> None:
    here = Situation(make_run(slices=1))
    refuses(here, "acquire")
    assert holder(here) == "r1-n3"
    assert here.record.failed_nodes[LOST].message == f"acquire: {FULL}; replaced by r1-n3"
    assert here.record.failed_nodes[LOST].unfit
    assert "acquire:r1-n2" not in kinds(here.decide(after=60.0)), "the same node would refuse again"
    assert all(gang.restarts == 0 for gang in here.record.gangs.values())


def test_without_a_spare_a_launch_asks_for_another_free_node_before_it_ends() -> None:
    here = Situation(make_run(slices=1, spares=0))
    asked = refuses(here, "acquire")
    assert here.record.outcome is None
    none_is_free(here, asked)
    assert here.record.outcome is not None
    assert here.record.outcome.cause is Cause.PROVISION
    assert here.record.outcome.message == f"r1-n2: acquire: {FULL}; no other node available in r1"


def test_another_node_that_is_free_takes_the_place_of_one_without_a_spare() -> None:
    run = make_run(slices=1)
    (part,) = run.placement.slices
    here = Situation(replace(run, placement=replace(run.placement, slices=(replace(part, spares=()),))))
    (add_spare,) = (action for action in refuses(here, "acquire").actions if action.kind == "add_spare")
    here.run = run
    here.views[name(1, 3)] = Seen()
    here.receive(add_spare, Result.DONE, nodes=(name(1, 3),))
    here.decide()
    assert holder(here) == "r1-n3"
    assert here.record.outcome is None


def test_no_more_than_a_few_other_nodes_are_asked_for() -> None:
    here = Situation(make_run(slices=1, spares=0))
    decision = refuses(here, "acquire")
    for _ in range(300):
        for action in decision.actions:
            if action.kind == "add_spare":  # each is of no use either, and the run does not have it by then
                here.receive(action, Result.DONE)
        decision = here.decide(after=1.0)
    assert here.record.outcome is not None
    assert here.record.outcome.cause is Cause.PROVISION


def test_a_head_that_cannot_begin_on_its_node_goes_elsewhere() -> None:
    here = Situation(make_run(slices=1))
    here.leased()
    refuses(here, "start_head", name(1, 1))
    here.decide()
    assert here.record.head not in (None, name(1, 1))
    assert holder(here, 0) == "r1-n3"
    assert here.record.outcome is None


def test_a_spare_takes_the_slot_of_a_node_in_setup_and_the_old_one_goes_on_nowhere() -> None:
    here = in_setup(spares=1)
    here.silent(LOST, heard=13.0)
    wait(here, 13)
    assert holder(here) == LOST
    wait(here, 3)
    assert holder(here) == "r1-n3"
    here.agent(LOST, setup=IN_SETUP)
    assert "release:slot:r1-n2" in kinds(here.decide()), "its setup is ended, and its lease given back"


def test_before_there_is_a_head_nothing_has_to_be_proven_of_a_silent_node() -> None:
    here = Situation(make_run(slices=1, nodes=3, spares=1))
    here.decide()
    here.agent(name(1, 1))
    here.views[LOST] = Unseen(message="timed out")
    here.reached[LOST] = Reached(by=name(1, 1), answers=False)
    wait(here, 31)
    assert holder(here) == "r1-n4"


def test_a_node_that_only_we_cannot_see_gives_its_slot_to_a_spare_before_anything_runs() -> None:
    here = in_setup(spares=1)
    here.views[LOST] = Unseen(message="timed out")
    wait(here, 28)
    assert holder(here) == LOST
    wait(here, 4)
    assert holder(here) == "r1-n3"


def test_where_a_raylet_may_run_its_end_is_proven_before_a_spare_has_the_slot() -> None:
    here = in_setup(spares=1)
    here.agent(LOST, setup=Step(phase=Phase.DONE, exit_code=0))
    assert kinds(here.decide()) == ["join:r1-n2#0"]
    here.views[LOST] = Unseen(message="timed out")
    wait(here, 60)
    assert holder(here) == LOST, "the head still hears it"
    here.silent(LOST, heard=18.5)
    wait(here, 2)
    assert holder(here) == "r1-n3"


def test_a_spare_that_is_out_of_sight_too_is_no_reason_to_give_up() -> None:
    here = in_setup(spares=1)
    here.silent(LOST, name(1, 3), heard=40.0)
    wait(here, 60)
    assert here.record.outcome is None
    assert holder(here) == LOST
    assert LOST not in here.record.failed_nodes


def test_a_launch_that_sees_none_of_its_nodes_holds_for_as_long_as_that_lasts() -> None:
    here = in_setup()
    for node in here.views:
        here.views[node] = Unseen(message="no route to host")
    here.head = Unseen(message="no route to host")
    decision = wait(here, 1000)
    assert (decision.actions, decision.state) == ((), RunState.ON_HOLD)
    assert "no node of the run is reachable" in decision.status_message


def test_an_operators_word_ends_the_wait() -> None:
    here = in_setup()
    here.silent(LOST, heard=20.0)
    wait(here, 10)
    here.order(RequestKind.CONFIRM_DEAD, LOST)
    here.decide()
    assert here.record.outcome is not None
    assert "confirmed dead by ann" in here.record.outcome.message


def test_power_is_cut_of_a_silent_node_whose_raylet_may_run_and_whose_slot_a_spare_can_take() -> None:
    here = in_setup(spares=1)
    here.run = replace(here.run, fleet=replace(here.run.fleet, fence_command="off {node}"))
    here.agent(LOST, setup=Step(phase=Phase.DONE, exit_code=0))
    here.decide()
    here.silent(LOST, heard=10.0)
    assert any(isinstance(action, PowerOff) for action in wait(here, 11).actions)


def test_power_is_not_cut_of_a_node_on_which_nothing_can_run_yet() -> None:
    here = in_setup(spares=1)
    here.run = replace(here.run, fleet=replace(here.run.fleet, fence_command="off {node}"))
    here.silent(LOST, heard=9.0)
    assert wait(here, 14).actions == ()
    wait(here, 3)
    assert holder(here) == "r1-n3"


def test_of_two_silent_nodes_with_one_spare_the_second_is_waited_for_although_its_power_was_cut() -> None:
    here = in_setup(spares=1, nodes=3)
    here.run = replace(here.run, fleet=replace(here.run.fleet, fence_command="off {node}"))
    for node in (LOST, name(1, 3)):
        here.agent(node, setup=Step(phase=Phase.DONE, exit_code=0))
    here.decide()
    here.silent(LOST, name(1, 3), heard=10.0)
    for off in wait(here, 11).actions:
        here.receive(off, Result.POWERED_OFF)
    decision = wait(here, 30)
    assert here.record.outcome is None
    assert holder(here) == "r1-n4"
    assert "main/2 waits for r1-n3" in decision.status_message


def test_where_a_raylet_ran_it_starts_again_when_the_node_is_back() -> None:
    here = in_setup()
    here.agent(LOST, setup=Step(phase=Phase.DONE, exit_code=0))
    here.decide()
    here.silent(LOST, heard=40.0)
    assert wait(here, 40).actions == ()
    here.agent(LOST, setup=Step(phase=Phase.DONE, exit_code=0), ray=Step(phase=Phase.FAILED, exit_code=1))
    (fence,) = here.decide().actions
    here.receive(fence, Result.KILLED)
    here.agent(LOST, ray=Step())
    assert kinds(here.decide()) == ["join:r1-n2#1"]


def test_a_spare_that_dies_while_its_lease_is_taken_does_not_hold_the_launch_up_for_ever() -> None:
    here = Situation(make_run(slices=1, spares=1))
    here.decide()
    here.agent(name(1, 1))
    here.agent(LOST)
    here.views[name(1, 3)] = Unseen(message="timed out")
    assert wait(here, 20).actions == ()
    assert "prepare:r1-n1" in kinds(wait(here, 12))


@pytest.mark.parametrize("rung", ["acquire", "prepare", "join"])
def test_what_fails_because_of_a_cut_costs_no_attempt(rung: str) -> None:
    here = Situation(make_run(slices=1, spares=0, recovery=RecoveryPolicy(node_attempts=0)))
    here.run = replace(here.run, fleet=replace(here.run.fleet, head=Access(address="10.9.9.9")))
    decision = here.decide()
    if rung != "acquire":
        here.leased()
        decision = here.decide()
    if rung == "join":
        here.head = HeadSeen(head=Head(ray=replace(UP, generation=1), ready=True))
        here.agent(LOST, setup=Step(phase=Phase.DONE, exit_code=0))
        decision = here.decide()
    (action,) = (one for one in decision.actions if one.kind == rung and "r1-n2" in key(one))
    here.views[LOST] = Unseen(message="timed out")
    here.receive(action, Result.FAILED, message="the connection was lost")
    here.decide()
    assert here.record.outcome is None
    assert here.record.node_attempts == {}


def test_a_head_that_was_never_reached_is_waited_for_loudly() -> None:
    here = Situation(make_run(slices=1))
    here.run = replace(here.run, fleet=replace(here.run.fleet, head=Access(address="10.9.9.9")))
    here.head = Unseen(message="no route to host")
    here.leased()
    decision = wait(here, 45)
    assert "head unreachable for 40 s: no route to host; fails after 5m" in decision.status_message
    here.head = HeadSeen()
    assert "start_head" in kinds(here.decide())


def test_a_node_that_was_never_reached_is_waited_for_where_no_spare_is() -> None:
    here = Situation(make_run(slices=1, spares=0))
    here.views[LOST] = Unseen(message="timed out")
    decision = wait(here, 45)
    assert here.record.outcome is None
    assert "main/1 waits for r1-n2, unreachable for 40 s during connect: timed out" in decision.status_message
    here.views[LOST] = Seen()
    assert "acquire:r1-n2" in kinds(here.decide())
