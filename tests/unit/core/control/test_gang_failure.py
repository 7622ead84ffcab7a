"""Ranks that end or hang: another attempt, or the end of the run."""

from dataclasses import replace

from launcher.core.model.actions import Kill, Start
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


def test_a_node_on_which_programs_always_fail_first_gives_up_its_slot_whoever_ran_there() -> None:
    here = serving_slice()
    here.history = {name(1, 3): 2}
    here.end_rank(2, 1)
    here.decide()
    assert here.record.failed_nodes[name(1, 3)].cause is Cause.NODE
    assert (holder(here, 2), here.gang().restarts) == ("r1-n9", 1)


def test_without_another_node_a_program_that_always_fails_on_one_is_not_waited_for() -> None:
    here = serving_slice(nodes=1, spares=0)
    here.history = {name(1, 1): 5}
    here.end_rank(0, 1)
    here.decide()
    assert (dict(here.record.failed_nodes), here.gang().restarts) == ({}, 1)


def test_the_rank_that_is_quiet_for_longest_hangs() -> None:
    here = serving_slice(nodes=2, spares=0, policy=RecoveryPolicy(max_restarts=3, hang_after=60.0))
    for rank, quiet in ((0, 61.0), (1, 75.0)):
        node = holder(here, rank)
        view = here.views[node]
        here.agent(node, ranks=tuple(replace(one, quiet=quiet) for one in view.agent.ranks))  # type: ignore[union-attr]
    decision = here.decide()
    assert "main/1 on r1-n2 hangs: no output for 75 s; restart 1 of 3" in decision.status_message


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
