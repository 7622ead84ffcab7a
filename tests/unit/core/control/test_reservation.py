"""Placement groups: reserved, verified, and taken back where Ray has them elsewhere."""

from dataclasses import replace

import pytest

from launcher.core.model.actions import Reason, Release, Unit, Why
from launcher.core.model.observation import GroupState, Head, HeadSeen, RayNode
from launcher.core.model.receipt import Result
from tests.situations import Situation, key, kinds, make_run, name
from tests.unit.core.control.kernel import OTHERS, driven

REASON = Reason(why=Why.HEAD, message="the test asks for it")


def head(here: Situation) -> Head:
    assert isinstance(here.head, HeadSeen)
    assert here.head.head is not None
    return here.head.head


def show_nodes(here: Situation, *nodes: RayNode) -> None:
    here.head = HeadSeen(head=replace(head(here), nodes=nodes))


def test_a_group_that_ray_places_nowhere_again_and_again_makes_the_runs_ray_begin_anew() -> None:
    here = Situation(make_run(slices=1))
    here.ready()
    for _ in range(200):
        assert isinstance(here.head, HeadSeen)
        assert here.head.head is not None
        stuck = tuple(replace(group, state=GroupState.RESCHEDULING) for group in here.head.head.groups)
        here.head = HeadSeen(head=replace(here.head.head, groups=stuck))
        decision = here.decide(after=1.0)
        for action in decision.actions:
            here.receive(action, Result.KILLED if action.kind in ("kill", "release") else Result.DONE)
        if here.record.cluster:
            break
    assert {slot.generation for slot in here.record.slots.values()} == {1}
    assert here.record.former_heads == ["r1-n1"], "the one before is ended first, on the same node"
    assert "release:head:r1-n1" in kinds(here.decide())
    here.receive(Release(reason=REASON, node=name(1, 1), unit=Unit.HEAD), Result.KILLED)
    here.head = HeadSeen()
    assert "start_head@1" in kinds(here.decide())


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


def test_a_slice_is_in_place_when_each_of_its_slots_is_alive_in_its_present_generation() -> None:
    here = driven()
    here.ready()
    slots = here.record.slots
    here.record = replace(here.record, slots={**slots, OTHERS[0]: replace(slots[OTHERS[0]], generation=2)})
    here.show_ready(here.record.slots)
    nodes = head(here).nodes
    old = replace(nodes[1], generation=1)
    show_nodes(here, nodes[0], replace(nodes[1], alive=False), old, *nodes[2:])
    assert kinds(here.decide()) == []
    assert here.record.verified.keys() == {"main.s1"}
    show_nodes(here, old, *nodes)
    assert kinds(here.decide()) == ["start:run@1"]
    assert here.record.verified == {"main.s0": (0, 2), "main.s1": (0, 0)}


def test_a_slot_that_is_dead_in_ray_leaves_its_slice_out_of_place_and_nothing_is_reserved() -> None:
    here = driven()
    here.ready()
    nodes = head(here).nodes
    show_nodes(here, nodes[0], replace(nodes[1], alive=False), *nodes[2:])
    assert kinds(here.decide()) == []
    assert "main.s0" not in here.record.verified


def test_a_slot_in_another_domain_leaves_its_slice_out_of_place() -> None:
    here = driven()
    here.ready()
    nodes = head(here).nodes
    show_nodes(here, nodes[0], replace(nodes[1], domain="r2"), *nodes[2:])
    assert kinds(here.decide()) == []
    assert here.record.verified.keys() == {"main.s1"}


@pytest.mark.parametrize("reserve", [False, True])
def test_what_is_reserved_stays_rays_to_tell(reserve: bool) -> None:
    here = driven(reserve=reserve)
    here.ready()
    here.head = HeadSeen(head=replace(head(here), groups=()))
    assert kinds(here.decide()) == (["reserve:main.s0", "reserve:main.s1"] if reserve else ["start:run@1"])


@pytest.mark.parametrize("theirs", ["", "trainers", "rollout.s0"])
def test_placement_groups_of_a_driver_are_left_alone(theirs: str) -> None:
    here = Situation(make_run(slices=1))
    here.serving()
    (ours, *_) = head(here).groups
    here.head = HeadSeen(head=replace(head(here), groups=(ours, replace(ours, slice=theirs))))
    assert "unreserve" not in {action.kind for action in here.decide().actions}


def test_the_group_of_a_slice_that_the_run_does_not_have_any_more_is_removed() -> None:
    here = Situation(make_run(slices=1))
    here.serving()
    (ours, *_) = head(here).groups
    here.head = HeadSeen(head=replace(head(here), groups=(ours, replace(ours, slice="main.s7"))))
    assert "unreserve:main.s7" in kinds(here.decide())
