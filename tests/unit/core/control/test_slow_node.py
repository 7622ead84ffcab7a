"""Nodes of slow ranks: replaced where the task asks for it, once for each rank, and only by a spare that is there."""

from launcher.core.model.record import SlowRank
from launcher.core.model.run import MemberName
from launcher.core.model.task import OnStraggler, RecoveryPolicy
from tests.situations import kinds, name
from tests.unit.core.control.kernel import holder, serving_slice, wait
from tests.unit.core.control.test_straggler import say

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
    here.park_spares()
    here.record.slow_left[MemberName("main/2")] = SlowRank(node=name(1, 9), message="slow")
    say(here, 1.0, 1.0, 1.3, 1.0)
    decision = here.decide()
    assert decision.actions == ()
    assert "slower than its peers: main/2 on r1-n3" in decision.status_message
