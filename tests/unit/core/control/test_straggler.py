"""Ranks that are slower than their peers."""

from dataclasses import replace

import pytest

from launcher.core.control.blame.straggler import STEPS, stragglers
from launcher.core.model.observation import RankStep
from launcher.core.model.record import SlowRank
from launcher.core.model.run import MemberName
from launcher.core.model.task import OnStraggler, RecoveryPolicy
from tests.situations import Situation, kinds, make_run, name
from tests.unit.core.control.kernel import holder, serving_slice, wait


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


REPLACE = RecoveryPolicy(on_straggler=OnStraggler.REPLACE)


def test_where_the_task_asks_for_it_a_spare_takes_the_place_of_a_slow_node_after_a_checkpoint() -> None:
    here = serving_slice(nodes=4, spares=1, policy=REPLACE)
    say(here, 1.0, 1.0, 1.3, 1.0)
    told = here.decide()
    assert kinds(told) == [f"signal:r1-n{at}" for at in (1, 2, 3, 4)]
    assert "30 % slower than its 3 peers" in told.actions[0].reason.message
    for action in told.actions:
        here.receive(action)
    here.decide()
    assert holder(here, 2) == "r1-n3", "its ranks have time for a checkpoint"
    for rank in range(4):
        here.end_rank(rank, 143)
    here.decide()
    assert (holder(here, 2), here.gang().restarts, here.record.outcome) == ("r1-n5", 0, None)
    assert here.gang().broken
    assert "r1-n3" in here.record.failed_nodes, "it comes back only if an operator says so"


def test_ranks_that_write_no_checkpoint_are_ended_after_their_grace() -> None:
    here = serving_slice(nodes=4, spares=1, policy=REPLACE)
    say(here, 1.0, 1.0, 1.3, 1.0)
    here.decide()
    say(here, 1.0, 1.0, 1.0, 1.0)
    wait(here, 61)
    assert holder(here, 2) == "r1-n5", "once its ranks were told to stop, it is left"


def test_without_a_spare_a_slow_rank_runs_on() -> None:
    here = serving_slice(nodes=4, spares=0, policy=REPLACE)
    say(here, 1.0, 1.0, 1.3, 1.0)
    for _ in range(5):
        assert here.decide().actions == ()


def test_a_rank_that_is_slow_on_its_second_node_too_is_not_moved_again() -> None:
    here = serving_slice(nodes=4, spares=2, policy=REPLACE)
    here.record.slow_left[MemberName("main/2")] = SlowRank(node=name(1, 9), message="slow")
    say(here, 1.0, 1.0, 1.3, 1.0)
    decision = here.decide()
    assert decision.actions == ()
    assert "slower than its peers: main/2 on r1-n3" in decision.status_message
