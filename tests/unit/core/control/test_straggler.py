"""Ranks that are slower than their peers."""

from dataclasses import replace

import pytest

from launcher.core.control.blame.straggler import STEPS, stragglers
from launcher.core.model.observation import RankStep
from launcher.core.model.run import MemberName
from launcher.core.model.task import OnStraggler, RecoveryPolicy
from tests.situations import Situation, make_run
from tests.unit.core.control.kernel import serving_slice


def steps(*own: float | None, over: int = STEPS) -> dict[MemberName, RankStep]:
    return {MemberName(f"main/{rank}"): RankStep(step=900, over=over, own=took) for rank, took in enumerate(own)}


@pytest.mark.parametrize(
    ("own", "slow"),
    [
        pytest.param((1.0, 1.0, 1.0, 1.0), [], id="equal"),
        pytest.param((1.0, 1.0, 1.0, 1.1), ["main/3"], id="10 %"),
        pytest.param((1.0, 1.0, 1.0, 1.09), [], id="9 %"),
        pytest.param((1.0, 1.3, 1.0, 1.2, 1.0, 1.0), ["main/1", "main/3"], id="two, the slowest first"),
        pytest.param((1.0, 1.0, 5.0), [], id="too few peers"),
        pytest.param((1.0, 1.0, 5.0, None), [], id="one says nothing of its own work"),
        pytest.param((0.0, 0.0, 0.0, 1.0), [], id="no work to compare with"),
        pytest.param((0.2, 1.0, 1.0, 1.0), [], id="a fast one makes no other slow"),
    ],
)
def test_stragglers(own: tuple[float | None, ...], slow: list[str]) -> None:
    assert [one.member for one in stragglers(steps(*own), factor=1.1)] == slow


def test_a_few_steps_say_nothing() -> None:
    assert stragglers(steps(1.0, 1.0, 1.0, 2.0, over=STEPS - 1), factor=1.1) == ()


def test_a_straggler_stays_one_until_half_of_the_difference_is_gone() -> None:
    known = (MemberName("main/3"),)
    assert stragglers(steps(1.0, 1.0, 1.0, 1.06), factor=1.1, known=known)
    assert not stragglers(steps(1.0, 1.0, 1.0, 1.04), factor=1.1, known=known)


def test_the_message_has_numbers() -> None:
    (one,) = stragglers(steps(0.8, 0.8, 0.8, 1.2), factor=1.1)
    said = "main/3 is 50 % slower than its 3 peers: 1.2 s of own work in a step, not 0.8 s, over 50 steps"
    assert one.message == said


def say(here: Situation, *own: float) -> None:
    for rank, took in enumerate(own):
        node = here.record.slots[MemberName(f"main/{rank}")].node
        (report,) = here.views[node].agent.ranks  # type: ignore[union-attr]
        here.agent(node, ranks=(replace(report, step=RankStep(step=900, over=STEPS, own=took)),))


def test_a_straggler_is_named_with_its_node_and_nothing_is_done_to_it() -> None:
    here = serving_slice(nodes=4, policy=RecoveryPolicy(on_straggler=OnStraggler.CHECK))
    here.park_spares()
    say(here, 1.0, 1.0, 1.3, 1.0)
    decision = here.decide()
    assert decision.actions == ()
    assert decision.status_message == "4 of 4 ranks running; slower than its peers: main/2 on r1-n3"
    first = here.record.slow_ranks
    assert [(name, one.node, one.check) for name, one in first.items()] == [("main/2", "r1-n3", True)]
    say(here, 1.0, 1.0, 1.31, 1.0)
    here.decide()
    assert here.record.slow_ranks == first, "what changes in each look is not stored in each"
    say(here, 1.0, 1.0, 1.0, 1.0)
    assert here.decide().status_message == "4 of 4 ranks running"


def test_ranks_that_say_nothing_are_no_stragglers() -> None:
    here = Situation(make_run())
    here.serving()
    assert here.record.slow_ranks == {}
