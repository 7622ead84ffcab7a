"""Slots that are lost: started again in place, or on another node."""

from dataclasses import replace

from launcher.core.model.actions import Acquire, Join, Kill, Level, Prepare, Release
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Head, HeadSeen, Phase, Step, Unseen
from launcher.core.model.receipt import Result
from launcher.core.model.run import Cause, MemberName
from launcher.core.model.task import RecoveryPolicy
from tests.situations import UP, Situation, key, kinds, make_run, name
from tests.unit.core.control.kernel import DRIVER, LOST, OTHERS, driven, holder, lose_raylet, serving, wait


def test_a_node_that_falls_silent_too_often_does_not_come_back_by_itself() -> None:
    here = serving(make_run(slices=1, recovery=RecoveryPolicy(node_attempts=0)))
    here.silent(LOST, heard=14.0)
    wait(here, 9)
    assert not here.record.failed_nodes[LOST].mends


def test_a_raylet_that_ray_has_given_up_is_started_again_where_it_is() -> None:
    here = serving(make_run(slices=1))
    here.park_spares()
    assert isinstance(here.head, HeadSeen)
    assert here.head.head is not None
    nodes = tuple(replace(node, alive=node.slot != "main-1") for node in here.head.head.nodes)
    here.head = HeadSeen(head=replace(here.head.head, nodes=nodes))
    assert here.decide().actions == ()
    decision = here.decide(after=6.0)
    assert "kill:r1-n2:generation:main/1@0#0" in kinds(decision)
    assert holder(here) == LOST


def test_nodes_that_stopped_because_the_heads_host_was_silent_are_not_blamed() -> None:
    here = Situation(make_run(slices=1, nodes=3, spares=0))
    here.serving()
    for at in (2, 3):
        here.agent(NodeName(f"r1-n{at}"), ray=Step(phase=Phase.FAILED, exit_code=1), head_silent=16.0)
    here.head = here.views[name(1, 1)] = Unseen(message="timed out")
    here.decide()
    assert not here.record.node_attempts


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


def test_a_setup_that_fails_is_not_tried_again_on_its_node() -> None:
    here = Situation(make_run(slices=1))
    here.leased()
    here.agent(name(1, 2), setup=Step(phase=Phase.FAILED, exit_code=7, tail=("no such package",)))
    here.decide()
    assert here.record.slots[MemberName("main/1")].node == "r1-n3"
    assert here.record.failed_nodes[name(1, 2)].message == "setup: exited with 7; replaced by r1-n3"


def test_a_setup_that_fails_without_a_spare_ends_the_launch_with_node_stage_and_tail() -> None:
    here = Situation(make_run(slices=1, spares=0))
    here.leased()
    here.agent(name(1, 2), setup=Step(phase=Phase.FAILED, exit_code=7, tail=("no such package",)))
    decision = here.decide()
    outcome = here.record.outcome
    assert outcome is not None
    assert (outcome.cause, outcome.node, outcome.tail) == (Cause.PROVISION, "r1-n2", ("no such package",))
    assert outcome.message == "r1-n2: setup: exited with 7; the task has no `spares`"
    assert "release:slot:r1-n1" in kinds(decision)


def test_a_setup_that_fails_everywhere_is_no_lack_of_spares() -> None:
    here = Situation(make_run(slices=1))
    here.leased()
    for at in (1, 2, 3):
        here.agent(name(1, at), setup=Step(phase=Phase.FAILED, exit_code=7, tail=("no such package",)))
    here.decide()
    outcome = here.record.outcome
    assert outcome is not None
    assert outcome.message.endswith("setup: exited with 7; so on r1-n[1,3]: another node would not help")


def test_a_raylet_that_never_shows_up_in_ray_is_lost_in_the_end() -> None:
    here = Situation(make_run(slices=1))
    here.ready()
    assert isinstance(here.head, HeadSeen)
    assert here.head.head is not None
    here.head = HeadSeen(head=replace(here.head.head, nodes=here.head.head.nodes[:1], groups=()))
    here.decide()
    assert here.decide(after=60.0).actions == ()
    assert "kill:r1-n2:generation:main/1@0#0" in kinds(here.decide(after=31.0))


def test_nobody_is_lost_to_ray_while_its_head_cannot_be_asked() -> None:
    for head in (Unseen(message="timed out"), HeadSeen(), HeadSeen(head=Head(ray=UP))):
        here = Situation(make_run(slices=1))
        here.ready()
        here.head = head
        here.decide()
        assert not [a for a in here.decide(after=200.0).actions if isinstance(a, Kill)]
        assert not here.record.node_attempts


def test_a_raylet_that_ends_under_any_slot_ends_the_driver_and_starts_again_in_place() -> None:
    here = driven()
    here.serving()
    here.agent(name(2, 2), ray=Step(phase=Phase.FAILED, exit_code=1))
    kills = [action for action in here.decide().actions if isinstance(action, Kill)]
    assert {(kill.level, kill.member) for kill in kills} >= {(Level.RANK, DRIVER), (Level.GENERATION, OTHERS[2])}
    assert (here.gang().restarts, here.gang().broken is not None) == (0, True)
    for kill in kills:
        here.receive(kill, Result.KILLED)
    here.agent(name(1, 1), ranks=())
    assert kinds(here.decide()) == ["join:r2-n2#1"]
    here.show_ready(here.record.slots)
    assert kinds(here.decide()) == ["start:run@2"]


FULL = "cannot write `/tmp/nvl-1/g0`: no space left on device (ENOSPC)"


def test_a_node_that_says_what_is_wrong_with_itself_is_not_tried_again() -> None:
    here = serving(make_run(slices=1))
    here.agent(LOST, fault=FULL)
    lose_raylet(here)
    assert holder(here) == "r1-n3"
    evidence = here.record.failed_nodes[LOST]
    assert evidence.message == f"raylet exited with 1: {FULL}"
    assert (evidence.mends, evidence.unfit, evidence.cause) == (True, True, Cause.PROVISION)
    assert here.gang().restarts == 0


def test_ranks_that_run_on_such_a_node_are_left_alone() -> None:
    here = serving(make_run(slices=1))
    here.park_spares()
    here.agent(LOST, fault=FULL)
    assert here.decide(after=60.0).actions == ()


def test_an_environment_that_cannot_be_made_for_the_node_is_the_nodes_fault() -> None:
    here = Situation(make_run(slices=1))
    here.leased()
    failed = Step(phase=Phase.FAILED, exit_code=78, message="making a Python environment")
    here.agent(LOST, setup=failed, fault=FULL)
    here.decide()
    assert holder(here) == "r1-n3"
    assert here.record.failed_nodes[LOST].message.startswith(f"making a Python environment: exited with 78: {FULL}")
