"""Drains that Ray is told of, before a driver is told to stop."""

from launcher.core.model.actions import Announce
from launcher.core.model.observation import Phase, Step
from launcher.core.model.run import MemberName, RunState
from tests.situations import Situation, kinds, name
from tests.unit.core.control.kernel import driven, serving

NODE = name(1, 2)


def announced(*, reserve: bool = True) -> Situation:
    """A run with a driver on r1-n1; Ray was told that r1-n2 is drained."""
    here = driven(reserve=reserve, spares=1)
    here.serving()
    for spare in (name(1, 3), name(2, 3)):
        here.agent(spare)
    here.drained[NODE] = "maintenance"
    here.decide()
    return told(here)


def told(here: Situation) -> Situation:
    """Ray takes note of what it is told now."""
    for action in here.decide().actions:
        if isinstance(action, Announce):
            here.receive(action)
    here.decide()
    return here


def test_ray_is_told_when_the_driver_will_be_told_to_stop() -> None:
    here = driven(spares=1)
    here.serving()
    here.drained[NODE] = "maintenance"
    (action,) = [one for one in here.decide().actions if isinstance(one, Announce)]
    assert (action.slot.node, action.deadline, action.reason.message) == (
        NODE,
        here.at + 60.0,
        "r1-n2 is drained: maintenance",
    )


def test_nobody_is_told_to_stop_before_that_and_then_all_is_as_for_ranks() -> None:
    here = announced()
    assert kinds(here.decide(after=50.0)) == []
    assert "signal:r1-n1" in kinds(here.decide(after=10.0))
    assert here.gang().broken is None
    here.decide(after=60.0)
    assert here.gang().broken is not None
    assert here.record.slots[MemberName("main/1")].node == name(1, 3)


def test_a_driver_that_ends_for_the_notice_has_not_finished() -> None:
    here = announced()
    here.end_rank(0, 0)
    decision = here.decide()
    assert decision.state is RunState.RECOVERING
    assert here.record.slots[MemberName("main/1")].node == name(1, 3)
    assert here.gang().restarts == 0


def test_a_withdrawn_drain_stops_nothing_and_the_raylet_starts_again_with_the_next_attempt() -> None:
    here = announced()
    del here.drained[NODE]
    decision = here.decide()
    assert kinds(decision) == ["prepare:r1-n3", "prepare:r2-n3"], "the spares, and nothing else"
    assert decision.state is RunState.RUNNING
    assert "Ray counts r1-n2 as draining until the next attempt" in decision.status_message
    here.end_rank(0, 3)
    here.decide()
    decision = here.decide(after=6.0)
    assert "kill:r1-n2:generation:main/1@0#0" in kinds(decision) + kinds(here.decide())
    assert here.record.slots[MemberName("main/1")].generation == 1
    assert "Ray counts" not in here.decide().status_message


def test_a_raylet_that_ends_because_ray_was_told_ends_no_attempt() -> None:
    here = announced(reserve=False)
    here.agent(NODE, ray=Step(phase=Phase.FAILED, exit_code=0, generation=0))
    for _ in range(20):
        here.decide(after=1.0)
    assert here.gang().broken is None


def test_without_a_driver_ray_is_told_nothing() -> None:
    here = serving()
    here.drained[NODE] = "maintenance"
    assert not [key for key in kinds(here.decide()) if key.startswith("announce")]


def test_without_a_spare_ray_is_told_nothing() -> None:
    here = driven(spares=0)
    here.serving()
    here.drained[NODE] = "maintenance"
    assert not [key for key in kinds(here.decide()) if key.startswith("announce")]
