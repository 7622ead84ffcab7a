"""A Ray head that ends, or does not start."""

from dataclasses import replace

import pytest

from launcher.core.control.reconcile import Decision
from launcher.core.model.inventory import Access
from launcher.core.model.observation import Head, HeadSeen, Phase, Seen, Step, Unseen
from launcher.core.model.receipt import Result
from launcher.core.model.run import Cause, RunState
from tests.situations import Situation, kinds, make_run, name
from tests.unit.core.control.kernel import unstarting_head


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


def test_a_head_that_dies_is_started_again_and_no_rank_is_touched() -> None:
    here = Situation(make_run())
    here.serving()
    here.head = HeadSeen()
    decision = here.decide()
    assert kinds(decision) == ["start_head"]
    assert decision.state is RunState.RUNNING


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


def test_ranks_that_run_go_on_where_their_head_cannot_be_started_again() -> None:
    here = Situation(make_run())
    here.serving()
    last = unstarting_head(here, 9)
    assert last.record.outcome is None
    assert last.status_message == "Ray head exited with 1, repeatedly: ranks keep running"
    assert kinds(here.decide(after=40.0)) == ["start_head"]


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


def test_a_head_that_ends_for_its_node_is_not_started_there_again() -> None:
    here = Situation(make_run(slices=1))
    here.ready()
    fault = "cannot write `/tmp/nvl-1/ray`: read-only file system (EROFS)"
    down = Head(ray=Step(phase=Phase.FAILED, exit_code=1), fault=fault)
    here.head = HeadSeen(head=down)
    assert "start_head" not in kinds(here.decide())
    first = name(1, 1)
    assert here.record.failed_nodes[first].message == f"Ray head exited with 1: {fault}"
    decision = here.decide()
    assert here.record.head == name(1, 3), "the spare has rank 0 now"
    assert here.record.former_heads == [first]
    assert here.record.outcome is None
    assert "release:head:r1-n1" in kinds(decision)


def test_ranks_that_run_go_on_while_their_head_cannot_be_started_on_its_node() -> None:
    here = Situation(make_run(slices=1))
    here.serving()
    here.head = HeadSeen(head=Head(ray=Step(phase=Phase.FAILED, exit_code=1), fault="cannot write"))
    decision = here.decide()
    assert kinds(decision) == ["start_head"]
    here.receive(decision.actions[0], Result.FAILED, message="cannot write", unfit=(name(1, 1),))
    here.decide()
    assert not here.record.failed_nodes


def test_the_inventorys_own_machine_for_heads_is_tried_as_often_as_others() -> None:
    run = make_run(slices=1)
    here = Situation(replace(run, fleet=replace(run.fleet, head=Access(address="10.9.9.9"))))
    here.ready()
    here.head = HeadSeen(head=Head(ray=Step(phase=Phase.FAILED, exit_code=1), fault="cannot write"))
    assert "start_head" in kinds(here.decide())
    assert not here.record.failed_nodes
