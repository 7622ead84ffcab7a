"""A Ray head that is lost, and the cluster that begins in its place."""

from dataclasses import replace

from launcher.core.model.inventory import Access
from launcher.core.model.observation import HeadSeen, Seen, Unseen
from launcher.core.model.operator_requests import RequestKind
from launcher.core.model.receipt import Result
from launcher.core.model.run import MemberName, RunState
from tests.situations import RUN, Situation, key, make_run, name
from tests.unit.core.control.kernel import unstarting_head, votes, wait


def test_a_lost_machine_of_the_head_ends_the_attempt_and_the_head_begins_on_a_node_of_the_run() -> None:
    run = make_run(slices=1, nodes=3, spares=0)
    here = Situation(replace(run, fleet=replace(run.fleet, head=Access(address="10.9.9.9"))))
    here.serving()
    here.head = Unseen(message="timed out")
    for node in here.views:
        here.agent(node, head_silent=20.0)
    for _ in range(10):
        here.decide(after=1.0)
    assert (here.record.cluster, here.record.head, here.record.former_heads) == (1, "r1-n1", [None])
    assert here.record.gangs[RUN].broken is not None
    assert here.record.slots[MemberName("main/2")].generation == 1


def test_a_lost_head_node_begins_a_new_cluster_in_the_same_rack() -> None:
    here = votes(18.0, 18.0, 18.0)
    decision = wait(here, 9)
    assert (here.record.cluster, here.record.head) == (1, "r1-n2")
    assert {slot.generation for slot in here.record.slots.values() if slot.node != "r1-n1"} == {1}
    assert here.record.former_heads == ["r1-n1"]
    assert not [action for action in decision.actions if action.kind == "start"]


def test_a_head_that_cannot_be_proven_dead_is_waited_for_and_people_are_asked() -> None:
    here = votes(18.0)
    for _ in range(60):
        assert here.decide(after=1.0).actions == ()
    decision = here.decide()
    assert here.record.cluster == 0
    assert decision.state is RunState.ON_HOLD
    assert "If it is off: nvlaunch confirm-dead r1-n1" in decision.status_message
    here.order(RequestKind.CONFIRM_DEAD, name(1, 1))
    here.decide()
    assert here.record.cluster == 1


def test_a_head_that_answers_some_of_its_peers_is_waited_for() -> None:
    here = votes(18.0, 18.0, 0.0)
    for _ in range(60):
        assert here.decide(after=1.0).actions == ()
    assert here.record.cluster == 0


def test_the_old_head_is_let_go_of_when_its_node_is_seen_again() -> None:
    here = votes(18.0, 18.0, 18.0)
    wait(here, 9)
    here.head = HeadSeen()
    here.views[name(1, 1)] = Seen()
    decision = here.decide()
    (old,) = (action for action in decision.actions if key(action) == "release:head:r1-n1")
    here.receive(old, Result.KILLED)
    here.decide()
    assert here.record.former_heads == []


def test_a_head_that_cannot_be_started_goes_elsewhere_once_no_rank_runs() -> None:
    here = Situation(make_run())
    here.serving()
    unstarting_head(here, 9)
    for rank in range(4):
        here.end_rank(rank, 3)
    here.decide()
    assert here.decide().record.cluster == 1
