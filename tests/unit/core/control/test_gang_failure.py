"""Ranks that end or hang: another attempt, or the end of the run."""

from dataclasses import replace

import pytest

from launcher.core.model.actions import Kill, Start, Verify
from launcher.core.model.receipt import Result
from launcher.core.model.run import Cause, RunState
from launcher.core.model.task import RecoveryPolicy
from tests.situations import Situation, key, kinds, make_run, name
from tests.unit.core.control.kernel import LOST, driven, holder, serving, serving_slice, wait

NO_RESTART = RecoveryPolicy(max_restarts=0)


def test_a_rank_that_failed_beside_a_node_that_is_gone_costs_no_restart() -> None:
    here = serving(make_run(slices=1))
    here.silent(LOST, heard=3.0)
    here.end_rank(0, 1)
    wait(here, 6)
    here.silent(LOST, heard=10.0)
    wait(here, 6)
    assert here.gang().restarts == 0
    here.silent(LOST, heard=19.0)
    here.decide()
    assert (here.gang().restarts, holder(here)) == (0, "r1-n3")


def test_a_rank_that_fails_ends_its_gang_which_starts_again_after_every_rank_was_killed() -> None:
    here = Situation(make_run(slices=1))
    here.serving()
    here.end_rank(1, 3)
    ended = here.decide()
    assert [type(action) for action in ended.actions] == [Kill, Kill]
    assert ended.state is RunState.RECOVERING
    assert "main/1 on r1-n2 exited with 3; restart 1 of 3" in ended.status_message
    assert ended.tail == ("the end",)
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


def test_a_rank_that_vanished_without_an_exit_file_has_failed() -> None:
    here = Situation(make_run(slices=1, recovery=NO_RESTART))
    here.serving()
    here.end_rank(1, None)
    here.decide()
    assert here.record.outcome is not None
    assert here.record.outcome.message == "main/1 on r1-n2 was killed"


def test_of_ranks_that_fail_together_the_one_that_was_killed_is_the_cause_and_costs_one_restart() -> None:
    here = serving_slice(nodes=3, spares=0)
    here.end_rank(1, 1, at=here.at - 0.1)
    assert here.decide().actions == (), "the peers of a rank that exits are awaited for a moment"
    here.end_rank(0, 137, at=here.at)
    decision = here.decide()
    said = "main/0 on r1-n1 exited with 137 (SIGKILL); then main/1 exited with 1; restart 1 of 3"
    assert said in decision.status_message
    assert here.gang().restarts == 1
    assert [(one.node, one.member) for one in here.record.program_failures] == [("r1-n1", "main/0")]


@pytest.mark.parametrize("code", [134, 141, 143])
def test_a_signal_that_a_peer_causes_is_the_cause_only_if_it_was_first(code: int) -> None:
    here = serving_slice(nodes=3, spares=0)
    here.end_rank(1, code, at=11.0)
    here.end_rank(2, 1, at=10.0)
    assert "main/2 on r1-n3 exited with 1; then main/1 exited" in here.decide().status_message


def test_a_rank_that_was_killed_long_after_another_failed_is_no_cause() -> None:
    here = serving_slice(nodes=3, spares=0)
    here.end_rank(1, 1, at=10.0)
    here.end_rank(2, 137, at=30.0)
    assert "main/1 on r1-n2 exited with 1; then main/2" in here.decide().status_message


def test_a_node_on_which_a_program_fails_three_times_is_left_by_that_run_alone() -> None:
    here = failing_rank(2, times=3)
    assert here.record.failed_nodes[name(1, 3)].cause is Cause.PROGRAM
    assert (holder(here, 2), here.gang().restarts) == ("r1-n9", 3)


def test_a_program_that_fails_in_the_same_way_on_the_spare_clears_the_node() -> None:
    here = failing_rank(2, times=4)
    assert here.record.failed_nodes[name(1, 3)].mends
    assert holder(here, 2) == "r1-n9"


def test_where_all_ranks_fail_in_the_same_way_no_node_is_left() -> None:
    here = failing_rank(0, 1, 2, 3, 4, 5, 6, 7, times=4)
    assert dict(here.record.failed_nodes) == {}


def test_without_another_node_a_program_that_always_fails_on_one_is_not_waited_for() -> None:
    here = serving_slice(nodes=2, spares=0)
    here.suspects = {name(1, 1): "bad"}
    here.end_rank(0, 1)
    here.decide()
    here.decide()
    assert (dict(here.record.failed_nodes), here.gang().restarts) == ({}, 1)


def test_a_suspect_node_is_left_when_its_ranks_start_again_and_not_before() -> None:
    here = serving_slice()
    here.suspects = {name(1, 1): "3 programs failed first here"}
    assert holder(here, 0) == "r1-n1"
    here.decide()
    assert holder(here, 0) == "r1-n1"
    here.end_rank(3, 1)
    here.decide()
    here.decide()
    assert here.record.failed_nodes[name(1, 1)].cause is Cause.NODE
    assert holder(here, 0) == "r1-n9"


def failing_rank(*ranks: int, times: int) -> Situation:
    """A run whose ranks of these numbers fail again and again, each time after all ranks have started."""
    here = serving_slice(policy=RecoveryPolicy(max_restarts=9))
    for attempt in range(1, times + 1):
        for rank in ranks:
            here.end_rank(rank, 1, attempt=attempt, at=here.at - 10.0)
        for _ in range(20):
            decision = here.decide()
            if here.gang().attempt == attempt + 1 or (attempt == times and here.gang().broken):
                break
            here.verify(decision.actions)
            for action in decision.actions:
                if not isinstance(action, Verify):
                    here.receive(action, Result.KILLED if isinstance(action, Kill) else Result.DONE)
            here.show_ready(here.record.slots)
            for slot in here.record.slots.values():
                here.agent(slot.node, ranks=())
        here.run_ranks(attempt + 1)
    return here


def test_the_rank_that_is_quiet_for_longest_hangs() -> None:
    here = serving_slice(nodes=2, spares=0, policy=RecoveryPolicy(max_restarts=3, hang_after=60.0))
    for rank, quiet in ((0, 61.0), (1, 75.0)):
        node = holder(here, rank)
        view = here.views[node]
        here.agent(node, ranks=tuple(replace(one, quiet=quiet) for one in view.agent.ranks))  # type: ignore[union-attr]
    decision = here.decide()
    assert "main/1 on r1-n2 hangs: no output for 75 s; restart 1 of 3" in decision.status_message


def test_a_rank_whose_server_was_ready_and_is_so_no_more_hangs() -> None:
    here = serving_slice(nodes=2, spares=0, policy=RecoveryPolicy(max_restarts=3, hang_after=60.0))
    node = holder(here, 0)
    here.agent(node, ranks=tuple(replace(one, ready=False, unready=61.0) for one in here.views[node].agent.ranks))  # type: ignore[union-attr]
    decision = here.decide()
    assert "main/0 on r1-n1 hangs: its server is not ready for 61 s; restart 1 of 3" in decision.status_message


def test_nobody_hangs_where_the_task_does_not_say_after_how_long() -> None:
    here = serving_slice(nodes=2, spares=0)
    node = holder(here, 0)
    here.agent(node, ranks=tuple(replace(one, quiet=1e6) for one in here.views[node].agent.ranks))  # type: ignore[union-attr]
    assert here.decide().actions == ()


def test_when_the_driver_ends_with_0_the_run_has_succeeded() -> None:
    here = driven()
    here.serving()
    here.end_rank(0, 0)
    here.decide()
    assert here.record.outcome is not None
    assert here.record.outcome.cause is Cause.SUCCESS
