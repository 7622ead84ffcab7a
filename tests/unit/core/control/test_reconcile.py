"""The kernel: given what is seen, exactly this is done, and no more."""

from launcher.core.model.actions import Reason, Why
from launcher.core.model.observation import Unseen
from launcher.core.model.run import RunState
from tests.situations import Situation, make_run, name


def test_a_run_that_serves_is_left_alone() -> None:
    here = Situation(make_run())
    here.serving()
    here.park_spares()
    decision = here.decide()
    assert (decision.actions, decision.state) == ((), RunState.RUNNING)
    assert decision.status_message == "4 of 4 ranks running"


def test_what_cannot_be_seen_is_not_acted_on() -> None:
    here = Situation(make_run())
    here.serving()
    for node in (name(1, 1), name(2, 2)):
        here.views[node] = Unseen(message="no route to host")
    for _ in range(1000):
        decision = here.decide(after=1.0)
        assert decision.actions == ()
    assert "unreachable: r1-n1,r2-n2" in decision.status_message


def test_every_action_says_why() -> None:
    here = Situation(make_run(slices=1))
    here.serving()
    here.end_rank(1, 3)
    for action in here.decide().actions:
        assert action.reason == Reason(why=Why.RESTART, message="main/1 on r1-n2 exited with 3; restart 1 of 3")
