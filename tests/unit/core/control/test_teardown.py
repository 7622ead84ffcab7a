"""The end of a run: signal, wait, release, until nothing is left."""

from dataclasses import replace

from launcher.core.control.teardown import left_behind
from launcher.core.model.action_key import ActionKey
from launcher.core.model.observation import HeadSeen, Seen, Unseen
from launcher.core.model.receipt import Result
from launcher.core.model.run import RunState, Wanted
from launcher.core.model.task import RecoveryPolicy
from tests.situations import Situation, key, kinds, make_run, name
from tests.unit.core.control.kernel import outside, serving_slice, wait


def test_when_every_rank_ends_with_0_the_run_has_succeeded_and_all_is_released() -> None:
    here = Situation(make_run(slices=1))
    here.serving()
    here.end_rank(0, 0)
    assert here.decide().status_message == "1 of 2 ranks running, 1 done"
    here.end_rank(1, 0)
    decision = here.decide()
    assert kinds(decision) == ["release:head:r1-n1", "release:slot:r1-n1", "release:slot:r1-n2", "release:slot:r1-n3"]
    for node in here.views:
        here.views[node] = Seen()
    here.head = HeadSeen()
    assert here.decide().state is RunState.SUCCEEDED


def test_down_signals_first_and_kills_after_the_grace() -> None:
    here = Situation(make_run(slices=1, grace=10.0))
    here.serving()
    here.run = replace(here.run, wanted=Wanted.NOTHING)
    told = here.decide()
    assert kinds(told) == ["signal:r1-n1", "signal:r1-n2"]
    here.receive(told.actions[0])
    assert kinds(here.decide()) == ["signal:r1-n2"], "each node is told once"
    assert here.decide(after=11.0).state is RunState.STOPPING
    assert kinds(here.decide())[0] == "release:head:r1-n1"


def test_down_of_ranks_that_end_in_time_does_not_wait_for_the_grace() -> None:
    here = Situation(make_run(slices=1, grace=60.0))
    here.serving()
    here.run = replace(here.run, wanted=Wanted.NOTHING)
    here.decide()
    for rank in (0, 1):
        here.end_rank(rank, 143)
    assert "release:slot:r1-n1" in kinds(here.decide())


def test_down_is_over_only_when_every_node_was_seen_to_be_free() -> None:
    here = Situation(make_run(slices=1, spares=0))
    here.leased()
    here.run = replace(here.run, wanted=Wanted.NOTHING)
    here.views = {name(1, 1): Seen(), name(1, 2): Unseen(message="timed out")}
    here.head = HeadSeen()
    assert here.decide().state is RunState.STOPPING, "an agent that ends does not answer either"
    decision = here.decide(after=6.0)
    assert decision.state is RunState.RELEASE_PENDING
    assert decision.status_message == (
        "on request; unreachable: r1-n2; released once reachable; if off or re-imaged: nvlaunch confirm-dead r1-n2"
    )
    here.views[name(1, 2)] = Seen(leftovers=3)
    assert kinds(here.decide()) == ["release:slot:r1-n2"]
    here.views[name(1, 2)] = Seen()
    assert here.decide().state is RunState.STOPPED


def test_a_run_that_ends_beside_a_node_that_stopped_itself_names_what_it_could_not_release() -> None:
    here = Situation(outside(make_run(slices=1, spares=1)))
    here.serving()
    here.silent(name(1, 2), heard=18.0)
    wait(here, 9)
    here.run = replace(here.run, wanted=Wanted.NOTHING)
    here.views = {node: Seen() for node in here.views} | {name(1, 2): Unseen(message="timed out")}
    here.head = HeadSeen()
    decision = here.decide()
    assert decision.state is RunState.STOPPED
    assert decision.status_message == (
        "on request; not released: r1-n2 (unreachable, ranks stopped; its agent ends itself within 10m),"
        " or once it is reachable: nvlaunch down job-1"
    )
    assert left_behind(here.record) == (name(1, 2),)


def test_down_waits_for_a_claim_that_is_under_way() -> None:
    here = Situation(make_run(slices=1))
    here.decide()
    here.in_flight = frozenset({ActionKey("acquire", node=name(1, 1))})
    here.run = replace(here.run, wanted=Wanted.NOTHING)
    assert here.decide().state is RunState.STOPPING
    here.in_flight = frozenset()
    here.agent(name(1, 1))
    assert kinds(here.decide()) == ["release:slot:r1-n1"]


def test_a_failed_node_is_not_forgotten_while_its_claim_is_under_way() -> None:
    here = Situation(make_run(slices=1, recovery=RecoveryPolicy(node_attempts=0)))
    (claim,) = (action for action in here.decide().actions if key(action) == "acquire:r1-n2")
    here.receive(claim, Result.FAILED, message="timed out")
    here.in_flight = frozenset({ActionKey("acquire", node=name(1, 2))})
    (fence,) = here.decide().actions[:1]
    here.receive(fence, Result.KILLED)
    here.decide()
    assert "r1-n2" in here.record.requested
    here.in_flight = frozenset()
    here.decide()
    assert "r1-n2" not in here.record.requested
    here.agent(name(1, 2))
    assert "release:slot:r1-n2" in kinds(here.decide()), "a lease that we have after all is let go of"


def test_a_head_out_of_reach_alone_is_what_a_release_waits_for() -> None:
    here = Situation(make_run(slices=1))
    here.serving()
    here.run = replace(here.run, wanted=Wanted.NOTHING)
    here.views = dict.fromkeys(here.views, Seen())
    here.head = Unseen(message="timed out")
    here.decide()
    assert here.decide(after=6.0).state is RunState.RELEASE_PENDING


def test_a_drained_spare_is_let_go_of() -> None:
    here = serving_slice(nodes=2, spares=1)
    here.drained = {name(1, 3): "memory to be replaced"}
    assert kinds(here.decide()) == ["release:slot:r1-n3"]
