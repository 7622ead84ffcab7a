"""The kernel: given what is seen, exactly this is done, and no more."""

from dataclasses import replace

import pytest

from launcher.core.control.reconcile import Decision
from launcher.core.model.action_key import ActionKey
from launcher.core.model.actions import Acquire, Join, Kill, Prepare, Reason, Release, Result, Start, Unit, Why
from launcher.core.model.inventory import Access
from launcher.core.model.observation import GroupState, Head, HeadSeen, Phase, RankReport, Seen, Step, Unseen
from launcher.core.model.record import rebased
from launcher.core.model.run import Cause, MemberName, RunState, Wanted
from launcher.core.model.task import OnNoSpare, RecoveryPolicy, RestartWith
from tests.situations import DONE, RUN, UP, Situation, key, kinds, make_run, name

NO_RESTART = RecoveryPolicy(max_restarts=0)


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


def test_what_is_under_way_is_not_asked_for_again() -> None:
    here = Situation(make_run())
    here.in_flight = frozenset({ActionKey("acquire", node=name(1, 1))})
    assert "acquire:r1-n1" not in kinds(here.decide())


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


def test_raylets_that_wait_for_their_head_are_said_to_wait() -> None:
    here = Situation(make_run())
    here.ready()
    assert isinstance(here.head, HeadSeen)
    assert here.head.head is not None
    here.head = HeadSeen(head=replace(here.head.head, ready=False, nodes=()))
    here.agent(name(1, 1), ray=Step())
    assert here.decide().status_message == "4 nodes waiting for the Ray head"


def test_no_rank_starts_before_ray_was_asked_where_every_bundle_is() -> None:
    here = Situation(make_run())
    here.ready()
    asked = here.decide()
    assert kinds(asked) == ["verify:main.s0", "verify:main.s1"]
    here.receive(asked.actions[0], bundles=here.bundles("main.s0"))
    assert "start:run@1" not in kinds(here.decide())
    here.receive(asked.actions[1], bundles=here.bundles("main.s1"))
    assert kinds(here.decide()) == ["start:run@1"]


def test_a_slice_that_ray_has_in_another_domain_never_starts() -> None:
    here = Situation(make_run())
    here.ready()
    asked = here.decide()
    here.verify(asked.actions[:1])
    here.receive(asked.actions[1], bundles=here.bundles("main.s1", domain="r1"))
    for _ in range(200):
        decision = here.decide()
        here.verify(action for action in decision.actions if key(action) == "verify:main.s0")
        for action in decision.actions:
            if key(action) == "verify:main.s1":
                here.receive(action, bundles=here.bundles("main.s1", domain="r1"))
            assert action.kind != "start"
        if "unreserve:main.s1" in kinds(decision):
            return
    pytest.fail("a misplaced slice was never taken back")


def test_a_group_that_ray_does_not_place_on_live_slots_is_reserved_anew() -> None:
    here = Situation(make_run(slices=1))
    here.ready()
    assert isinstance(here.head, HeadSeen)
    assert here.head.head is not None
    stuck = replace(here.head.head.groups[0], state=GroupState.RESCHEDULING, hint="FAILED_TO_COMMIT_RESOURCES")
    here.head = HeadSeen(head=replace(here.head.head, groups=(stuck,)))
    assert kinds(here.decide()) == []
    assert kinds(here.decide(after=5.0)) == []
    taken_back = here.decide(after=6.0)
    assert kinds(taken_back) == ["unreserve:main.s0"]
    assert "RESCHEDULING, FAILED_TO_COMMIT_RESOURCES" in taken_back.actions[0].reason.message
    here.receive(taken_back.actions[0])
    here.head = HeadSeen(head=replace(here.head.head, groups=()))
    assert kinds(here.decide()) == ["reserve:main.s0"]


def test_a_start_whose_effect_is_not_seen_is_asked_for_again_under_the_same_attempt() -> None:
    here = Situation(make_run())
    here.ready()
    here.verify(here.decide().actions)
    assert kinds(here.decide()) == ["start:run@1"]
    assert kinds(here.decide()) == ["start:run@1"]
    assert here.gang().attempt == 1


def test_a_run_that_serves_is_left_alone() -> None:
    here = Situation(make_run())
    here.serving()
    decision = here.decide()
    assert (decision.actions, decision.state) == ((), RunState.RUNNING)
    assert decision.status_message == "4 of 4 ranks running"


def test_when_every_rank_ends_with_0_the_run_has_succeeded_and_all_is_released() -> None:
    here = Situation(make_run(slices=1))
    here.serving()
    here.end_rank(0, 0)
    assert here.decide().status_message == "1 of 2 ranks running, 1 done"
    here.end_rank(1, 0)
    decision = here.decide()
    assert kinds(decision) == ["release:head:r1-n1", "release:slot:r1-n1", "release:slot:r1-n2", "release:slot:r1-n3"]
    for node in here.views:
        here.views[node] = Seen()
    here.head = HeadSeen()
    assert here.decide().state is RunState.SUCCEEDED


def test_a_rank_that_fails_ends_its_gang_which_starts_again_after_every_rank_was_killed() -> None:
    here = Situation(make_run(slices=1))
    here.serving()
    here.end_rank(1, 3)
    ended = here.decide()
    assert [type(action) for action in ended.actions] == [Kill, Kill]
    assert ended.state is RunState.RECOVERING
    assert "main/1 on r1-n2 exited with 3; restart 1 of 3" in ended.status_message
    here.receive(ended.actions[0], Result.KILLED)
    for slot in here.record.slots.values():
        here.agent(slot.node, ranks=())
    waiting = here.decide()
    assert kinds(waiting) == [key(ended.actions[1])], "a restart before the last fence has its receipt"
    here.receive(ended.actions[1], Result.KILLED)
    again = here.decide()
    assert kinds(again) == ["start:run@2"]
    start = again.actions[0]
    assert isinstance(start, Start)
    assert (start.restarts, here.gang().attempt) == (1, 2)


def test_the_first_rank_that_failed_is_named_when_the_budget_is_used_up() -> None:
    here = Situation(make_run(slices=1, recovery=NO_RESTART))
    here.serving()
    here.end_rank(0, 143, at=12.0)
    here.end_rank(1, 3, at=11.0)
    here.decide()
    outcome = here.record.outcome
    assert outcome is not None
    assert (outcome.cause, outcome.member, outcome.node, outcome.exit_code) == (Cause.PROGRAM, "main/1", "r1-n2", 3)
    assert outcome.tail == ("the end",)


def test_restarts_stop_at_the_budget() -> None:
    here = Situation(make_run(slices=1, recovery=RecoveryPolicy(max_restarts=2)))
    here.serving()
    for attempt in (1, 2):
        here.end_rank(0, 1, attempt=attempt)
        for action in here.decide().actions:
            here.receive(action, Result.KILLED)
        here.show_ready(here.record.slots)
        for slot in here.record.slots.values():
            here.agent(slot.node, ranks=())
        assert kinds(here.decide()) == [f"start:run@{attempt + 1}"]
        here.run_ranks(attempt + 1)
        here.decide()
    here.end_rank(0, 1, attempt=3)
    here.decide()
    assert here.record.outcome is not None
    assert here.record.outcome.message == "main/0 on r1-n1 exited with 1 after 2 restarts"


def test_exits_of_an_earlier_attempt_mean_nothing() -> None:
    here = Situation(make_run(slices=1))
    here.serving()
    here.agent(
        name(1, 1),
        ranks=(
            RankReport(member=MemberName("main/0"), attempt=1, running=True),
            RankReport(member=MemberName("main/0"), attempt=0, running=False, exit_code=9),
        ),
    )
    assert here.decide().actions == ()


def test_a_rank_that_vanished_without_an_exit_file_has_failed() -> None:
    here = Situation(make_run(slices=1, recovery=NO_RESTART))
    here.serving()
    here.end_rank(1, None)
    here.decide()
    assert here.record.outcome is not None
    assert here.record.outcome.message == "main/1 on r1-n2 was killed"


def lose_raylet(here: Situation) -> Kill:
    """The raylet of main/1 ends; answer the fence that is decided, with the ranks' own fences received."""
    slot = here.record.slots[MemberName("main/1")]
    here.agent(slot.node, ray=Step(phase=Phase.FAILED, exit_code=1, generation=slot.generation))
    actions = here.decide().actions
    fence = next(a for a in actions if isinstance(a, Kill) and a.level.value == "generation")
    for action in actions:
        if isinstance(action, Kill) and action is not fence:
            here.receive(action, Result.KILLED)
            here.agent(action.node, ranks=())
    return fence


def test_a_raylet_that_ends_is_fenced_and_started_again_in_place_and_no_restart_is_spent() -> None:
    here = Situation(make_run(slices=1))
    here.serving()
    fence = lose_raylet(here)
    assert kinds(here.decide()) == [key(fence)], "nothing starts on a node before its fence has a receipt"
    here.receive(fence, Result.KILLED)
    joined = here.decide()
    assert [key(action) for action in joined.actions if isinstance(action, Join)] == ["join:r1-n2#1"]
    assert (here.gang().restarts, here.gang().broken is not None) == (0, True)


def test_the_other_nodes_of_a_lost_one_keep_raylet_and_setup() -> None:
    here = Situation(make_run())
    here.serving()
    here.receive(lose_raylet(here), Result.KILLED)
    touched = {action for action in here.decide().actions if isinstance(action, Join | Prepare | Acquire | Release)}
    assert {key(action) for action in touched} == {"join:r1-n2#1"}


def test_a_node_that_fails_too_often_gives_its_slot_to_a_spare_of_its_slice() -> None:
    here = Situation(make_run(slices=2, recovery=RecoveryPolicy(node_attempts=1)))
    here.serving()
    for _ in range(2):
        here.receive(lose_raylet(here), Result.KILLED)
        here.decide()
    slot = here.record.slots[MemberName("main/1")]
    assert slot.node == "r1-n3"
    assert "r1-n2" in here.record.failed_nodes
    assert "release:slot:r1-n2" in kinds(here.decide())


def test_one_spare_serves_one_of_two_lost_nodes_and_the_other_waits() -> None:
    here = Situation(make_run(slices=1, nodes=2, spares=1, recovery=RecoveryPolicy(node_attempts=0)))
    here.serving()
    for rank in (0, 1):
        slot = here.record.slots[MemberName(f"main/{rank}")]
        here.agent(slot.node, ray=Step(phase=Phase.FAILED, exit_code=1, generation=slot.generation))
    decision = here.decide()
    holders = [slot.node for slot in here.record.slots.values()]
    assert sorted(holders) == ["r1-n2", "r1-n3"]
    assert decision.state is RunState.ON_HOLD


def test_a_spare_that_was_failed_is_not_taken() -> None:
    here = Situation(make_run(slices=1, nodes=1, spares=2, recovery=RecoveryPolicy(node_attempts=0)))
    here.serving()
    for spare in ("r1-n2", "r1-n3"):
        slot = here.record.slots[MemberName("main/0")]
        here.agent(slot.node, setup=DONE, ray=Step(phase=Phase.FAILED, exit_code=1, generation=slot.generation))
        here.decide()
        assert here.record.slots[MemberName("main/0")].node == spare
        for kill in here.record.kills:
            here.receive(kill, Result.KILLED)
        here.decide()


def test_without_a_spare_a_started_run_waits_and_says_so() -> None:
    here = Situation(make_run(slices=1, spares=0, recovery=RecoveryPolicy(node_attempts=0)))
    here.serving()
    here.receive(lose_raylet(here), Result.KILLED)
    decision = here.decide()
    assert decision.state is RunState.ON_HOLD
    assert "main/1 waits for a node: r1-n2: raylet exited with 1" in decision.status_message


def test_without_a_spare_a_run_that_may_not_wait_is_given_up() -> None:
    policy = RecoveryPolicy(node_attempts=0, on_no_spare=OnNoSpare.FAIL)
    here = Situation(make_run(slices=1, spares=0, recovery=policy))
    here.serving()
    here.agent(name(1, 2), ray=Step(phase=Phase.FAILED, exit_code=1))
    here.decide()
    assert here.record.outcome is not None
    assert here.record.outcome.cause is Cause.EXHAUSTED


def test_a_setup_that_fails_is_not_tried_again_on_its_node() -> None:
    here = Situation(make_run(slices=1))
    here.leased()
    here.agent(name(1, 2), setup=Step(phase=Phase.FAILED, exit_code=7, tail=("no such package",)))
    here.decide()
    assert here.record.slots[MemberName("main/1")].node == "r1-n3"
    assert here.record.failed_nodes[name(1, 2)].message == "setup: exited with 7"


def test_what_a_setup_is_about_is_told_while_it_runs_and_when_it_fails() -> None:
    here = Situation(make_run(slices=1))
    here.leased()
    making = Step(phase=Phase.RUNNING, message="making a Python environment")
    here.agent(name(1, 1), setup=making)
    here.agent(name(1, 2), setup=Step(phase=Phase.RUNNING))
    assert here.decide().status_message == "1 node making a Python environment, 1 in setup"
    here.agent(name(1, 2), setup=Step(message="copying files"))
    assert here.decide().status_message == "1 node copying files, 1 making a Python environment"
    here.agent(name(1, 1), setup=replace(making, phase=Phase.FAILED, exit_code=78))
    here.decide()
    assert here.record.failed_nodes[name(1, 1)].message == "making a Python environment: exited with 78"


def test_a_setup_that_fails_without_a_spare_ends_the_launch_with_node_stage_and_tail() -> None:
    here = Situation(make_run(slices=1, spares=0))
    here.leased()
    here.agent(name(1, 2), setup=Step(phase=Phase.FAILED, exit_code=7, tail=("no such package",)))
    decision = here.decide()
    outcome = here.record.outcome
    assert outcome is not None
    assert (outcome.cause, outcome.node, outcome.tail) == (Cause.PROVISION, "r1-n2", ("no such package",))
    assert "setup: exited with 7" in outcome.message
    assert "release:slot:r1-n1" in kinds(decision)


def test_a_lease_that_somebody_holds_is_passed_over_for_a_spare_and_ends_the_run_without_one() -> None:
    for spares, cause in ((1, None), (0, Cause.LEASE_HELD)):
        here = Situation(make_run(slices=1, spares=spares))
        claims = {key(action): action for action in here.decide().actions}
        here.receive(claims["acquire:r1-n2"], Result.HELD, message="held by `other` of ann@gate since 09:10")
        here.decide()
        assert (here.record.outcome.cause if here.record.outcome else None) is cause
        if cause is None:
            assert here.record.slots[MemberName("main/1")].node == "r1-n3"


def test_what_cannot_be_seen_is_not_acted_on() -> None:
    here = Situation(make_run())
    here.serving()
    for node in (name(1, 1), name(2, 2)):
        here.views[node] = Unseen(message="no route to host")
    for _ in range(1000):
        decision = here.decide(after=1.0)
        assert decision.actions == ()
    assert "unreachable: r1-n1,r2-n2" in decision.status_message


def test_a_node_that_was_never_ours_and_stays_out_of_reach_is_replaced_after_a_while() -> None:
    here = Situation(make_run(slices=1))
    here.views[name(1, 2)] = Unseen(message="timed out")
    here.decide()
    assert here.record.slots[MemberName("main/1")].node == "r1-n2"
    decision = here.decide(after=31.0)
    assert here.record.slots[MemberName("main/1")].node == "r1-n3"
    assert decision.wake_at <= here.at + 5


def test_down_signals_first_and_kills_after_the_grace() -> None:
    here = Situation(make_run(slices=1, grace=10.0))
    here.serving()
    here.run = replace(here.run, wanted=Wanted.NOTHING)
    told = here.decide()
    assert kinds(told) == ["signal:r1-n1", "signal:r1-n2"]
    here.receive(told.actions[0])
    assert kinds(here.decide()) == ["signal:r1-n2"], "each node is told once"
    assert here.decide(after=11.0).state is RunState.STOPPING
    assert kinds(here.decide())[0] == "release:head:r1-n1"


def test_down_of_ranks_that_end_in_time_does_not_wait_for_the_grace() -> None:
    here = Situation(make_run(slices=1, grace=60.0))
    here.serving()
    here.run = replace(here.run, wanted=Wanted.NOTHING)
    here.decide()
    for rank in (0, 1):
        here.end_rank(rank, 143)
    assert "release:slot:r1-n1" in kinds(here.decide())


def test_down_is_over_only_when_every_node_was_seen_to_be_free() -> None:
    here = Situation(make_run(slices=1, spares=0))
    here.leased()
    here.run = replace(here.run, wanted=Wanted.NOTHING)
    here.views = {name(1, 1): Seen(), name(1, 2): Unseen(message="timed out")}
    here.head = HeadSeen()
    assert here.decide().state is RunState.STOPPING, "an agent that ends does not answer either"
    decision = here.decide(after=6.0)
    assert decision.state is RunState.RELEASE_PENDING
    assert decision.status_message == "on request; unreachable: r1-n2"
    here.views[name(1, 2)] = Seen(leftovers=3)
    assert kinds(here.decide()) == ["release:slot:r1-n2"]
    here.views[name(1, 2)] = Seen()
    assert here.decide().state is RunState.STOPPED


def test_down_waits_for_a_claim_that_is_under_way() -> None:
    here = Situation(make_run(slices=1))
    here.decide()
    here.in_flight = frozenset({ActionKey("acquire", node=name(1, 1))})
    here.run = replace(here.run, wanted=Wanted.NOTHING)
    assert here.decide().state is RunState.STOPPING
    here.in_flight = frozenset()
    here.agent(name(1, 1))
    assert kinds(here.decide()) == ["release:slot:r1-n1"]


def test_a_head_that_dies_is_started_again_and_no_rank_is_touched() -> None:
    here = Situation(make_run())
    here.serving()
    here.head = HeadSeen()
    decision = here.decide()
    assert kinds(decision) == ["start_head"]
    assert decision.state is RunState.RUNNING


def failing_head(here: Situation, times: int, *, answers: bool) -> Decision:
    """The head ends so often before our eyes, and answers in between or not; what is decided a while after that."""
    up = here.head
    assert isinstance(up, HeadSeen)
    assert up.head is not None
    down = HeadSeen(head=replace(up.head, ready=False, ray=Step(phase=Phase.FAILED, exit_code=1)))
    for _ in range(times):
        here.head = down
        for action in here.decide(after=40.0).actions:
            here.receive(action)
        if answers:
            here.head = up
            here.decide()
    here.head = down
    here.decide()
    return here.decide(after=40.0)


def test_a_head_that_dies_again_and_again_ends_a_launch() -> None:
    here = Situation(make_run())
    here.ready()
    failing_head(here, 5, answers=False)
    assert here.record.outcome is not None
    assert here.record.outcome.cause is Cause.PROVISION


@pytest.mark.parametrize("answers", [True, False])
def test_ranks_that_run_go_on_without_a_head_which_is_tried_again_less_often(answers: bool) -> None:
    here = Situation(make_run())
    here.serving()
    last = failing_head(here, 9, answers=answers)
    assert kinds(last) == ["start_head"]
    if not answers:
        assert last.status_message == "Ray head exited with 1, repeatedly: ranks keep running"
        here.receive(last.actions[0])
        assert kinds(here.decide()) == []


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


def test_a_raylet_that_never_shows_up_in_ray_is_lost_in_the_end() -> None:
    here = Situation(make_run(slices=1))
    here.ready()
    assert isinstance(here.head, HeadSeen)
    assert here.head.head is not None
    here.head = HeadSeen(head=replace(here.head.head, nodes=here.head.head.nodes[:1], groups=()))
    here.decide()
    assert here.decide(after=60.0).actions == ()
    assert "kill:r1-n2:generation:main/1@0#0" in kinds(here.decide(after=31.0))


def test_processes_without_a_agent_are_killed_before_the_node_is_claimed() -> None:
    here = Situation(make_run(slices=1))
    here.views[name(1, 1)] = Seen(leftovers=2)
    assert "release:slot:r1-n1" in kinds(here.decide())


def test_times_of_an_earlier_boot_hold_nothing_up() -> None:
    here = Situation(make_run(slices=1))
    here.ready()
    asked = here.decide()
    here.receive(asked.actions[0], Result.FAILED, message="no answer")
    here.decide()
    here.at, here.record = 5.0, rebased(here.record, 5.0)
    assert "verify:main.s0" in kinds(here.decide())


def unstarting_head(here: Situation, times: int) -> Decision:
    """The head ends, and so often cannot be started again; what is decided a while after that."""
    assert isinstance(here.head, HeadSeen)
    assert here.head.head is not None
    here.head = HeadSeen(head=replace(here.head.head, ready=False, ray=Step(phase=Phase.FAILED, exit_code=1)))
    for _ in range(times):
        for action in here.decide(after=40.0).actions:
            here.receive(action, Result.FAILED, message="no space left on device")
    return here.decide(after=0.1)


def test_ranks_that_run_go_on_where_their_head_cannot_be_started_again() -> None:
    here = Situation(make_run())
    here.serving()
    last = unstarting_head(here, 9)
    assert last.record.outcome is None
    assert last.status_message == "Ray head exited with 1, repeatedly: ranks keep running"
    assert kinds(here.decide(after=40.0)) == ["start_head"]


def test_a_head_that_cannot_be_started_goes_elsewhere_once_no_rank_runs() -> None:
    here = Situation(make_run())
    here.serving()
    unstarting_head(here, 9)
    for rank in range(4):
        here.end_rank(rank, 3)
    here.decide()
    assert here.decide().record.cluster == 1


def test_every_action_says_why() -> None:
    here = Situation(make_run(slices=1))
    here.serving()
    here.end_rank(1, 3)
    for action in here.decide().actions:
        assert action.reason == Reason(why=Why.RESTART, message="main/1 on r1-n2 exited with 3; restart 1 of 3")


def test_unseen_steps_are_told_apart_from_absent_ones() -> None:
    here = Situation(make_run(slices=1))
    here.ready()
    here.views[name(1, 2)] = Unseen(message="timed out")
    assert all("r1-n2" not in key for key in kinds(here.decide()))


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


def test_a_lease_is_not_taken_while_it_is_let_go_of() -> None:
    here = Situation(make_run(slices=1))
    here.in_flight = frozenset({ActionKey("release", node=name(1, 1), unit=Unit.SLOT)})
    assert kinds(here.decide()) == ["acquire:r1-n2", "acquire:r1-n3"]


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


def test_nobody_is_lost_to_ray_while_its_head_cannot_be_asked() -> None:
    for head in (Unseen(message="timed out"), HeadSeen(), HeadSeen(head=Head(ray=UP))):
        here = Situation(make_run(slices=1))
        here.ready()
        here.head = head
        here.decide()
        assert not [a for a in here.decide(after=200.0).actions if isinstance(a, Kill)]
        assert not here.record.node_attempts


def test_answers_that_are_wrong_and_answers_that_fail_are_counted_apart() -> None:
    here = Situation(make_run(slices=1))
    here.ready()
    (verify,) = here.decide().actions
    for _ in range(4):
        here.receive(verify, bundles=here.bundles("main.s0")[:1])
        here.decide(after=60.0)
    here.receive(verify, Result.FAILED, message="no answer")
    here.decide(after=60.0)
    assert here.record.outcome is None


def test_a_group_that_had_to_be_asked_for_again_is_verified_again() -> None:
    here = Situation(make_run(slices=1))
    here.serving()
    up = here.head
    assert isinstance(up, HeadSeen)
    assert up.head is not None
    here.end_rank(0, 1)
    for action in here.decide().actions:
        here.receive(action, Result.KILLED)
    for node in (name(1, 1), name(1, 2)):
        here.agent(node, ranks=())
    here.head = HeadSeen(head=replace(up.head, groups=()))
    assert "start:run@2" not in kinds(here.decide())
    here.head = up
    assert kinds(here.decide()) == ["verify:main.s0"]


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


def test_a_spare_that_can_be_seen_is_taken_before_one_that_cannot() -> None:
    here = Situation(make_run(slices=1, nodes=1, spares=2, recovery=RecoveryPolicy(node_attempts=0)))
    here.serving()
    here.views[name(1, 2)] = Unseen(message="timed out")
    here.agent(name(1, 1), ray=Step(phase=Phase.FAILED, exit_code=1))
    here.decide()
    assert here.record.slots[MemberName("main/0")].node == "r1-n3"


def test_a_spare_whose_agent_is_gone_is_claimed_again_and_given_up_in_the_end() -> None:
    here = Situation(make_run(slices=1, recovery=RecoveryPolicy(node_attempts=1)))
    here.serving()
    here.views[name(1, 3)] = Seen()
    again = here.decide()
    assert kinds(again) == ["acquire:r1-n3"]
    here.receive(again.actions[0])
    here.decide()
    assert "r1-n3" in here.record.failed_nodes
    assert here.record.slots[MemberName("main/1")].node == "r1-n2"


def test_a_failed_node_is_not_forgotten_while_its_claim_is_under_way() -> None:
    here = Situation(make_run(slices=1, recovery=RecoveryPolicy(node_attempts=0)))
    (claim,) = (action for action in here.decide().actions if key(action) == "acquire:r1-n2")
    here.receive(claim, Result.FAILED, message="timed out")
    here.in_flight = frozenset({ActionKey("acquire", node=name(1, 2))})
    (fence,) = here.decide().actions[:1]
    here.receive(fence, Result.KILLED)
    here.decide()
    assert "r1-n2" in here.record.requested
    here.in_flight = frozenset()
    here.decide()
    assert "r1-n2" not in here.record.requested
    here.agent(name(1, 2))
    assert "release:slot:r1-n2" in kinds(here.decide()), "a lease that we have after all is let go of"


def test_a_head_out_of_reach_alone_is_what_a_release_waits_for() -> None:
    here = Situation(make_run(slices=1))
    here.serving()
    here.run = replace(here.run, wanted=Wanted.NOTHING)
    here.views = dict.fromkeys(here.views, Seen())
    here.head = Unseen(message="timed out")
    here.decide()
    assert here.decide(after=6.0).state is RunState.RELEASE_PENDING


def test_a_head_that_was_never_reached_ends_the_launch_and_holds_up_no_release() -> None:
    here = Situation(make_run(slices=1))
    here.run = replace(here.run, fleet=replace(here.run.fleet, head=Access(address="10.9.9.9")))
    here.head = Unseen(message="no route to host")
    here.leased()
    here.decide()
    decision = here.decide(after=301.0)
    assert here.record.outcome is not None
    assert here.record.outcome.message == "connect: head unreachable for 300 s: no route to host"
    for node in here.views:
        here.views[node] = Seen()
    decision = here.decide()
    assert decision.state is RunState.FAILED


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


def test_a_prepare_that_would_fail_again_is_not_tried_again() -> None:
    here = Situation(make_run())
    here.leased()
    prepare = next(action for action in here.decide().actions if isinstance(action, Prepare))
    here.receive(prepare, Result.FAILED, message="cannot write `/data`: permission denied", lasting=True)
    decided = here.decide(after=60.0)
    assert prepare.node in here.record.failed_nodes
    assert key(prepare) not in {key(action) for action in decided.actions}
