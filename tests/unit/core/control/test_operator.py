"""Operator requests, and failed nodes that may be used again."""

from launcher.core.model.observation import Phase, Seen, Step, Symptom, Unseen
from launcher.core.model.operator_requests import RequestKind
from launcher.core.model.run import MemberName, RunState
from launcher.core.model.task import RecoveryPolicy
from tests.situations import Situation, kinds, make_run
from tests.unit.core.control.kernel import LOST, holder, serving, wait


def back_from_silence() -> Situation:
    """A run whose node was given up in silence, and answers again."""
    here = serving(make_run(slices=1, spares=0))
    here.silent(LOST, heard=18.0)
    wait(here, 9)
    here.views[LOST] = Seen()
    del here.reached[LOST]
    return here


def test_an_operators_word_is_proof_but_not_against_what_we_see() -> None:
    here = serving()
    here.order(RequestKind.CONFIRM_DEAD, LOST)
    here.decide()
    assert holder(here) == LOST
    here.views[LOST] = Unseen(message="timed out")
    here.order(RequestKind.CONFIRM_DEAD, LOST)
    here.decide()
    assert holder(here) == "r1-n3"


def test_a_node_that_comes_back_serves_again_after_two_good_answers_half_a_minute_apart() -> None:
    here = serving(make_run(slices=1, spares=0))
    here.silent(LOST, heard=18.0)
    wait(here, 9)
    assert here.decide().state is RunState.ON_HOLD
    here.views[LOST] = Seen()
    del here.reached[LOST]
    back = here.at
    while LOST in here.record.failed_nodes:
        here.decide(after=1.0)
        assert here.at < back + 60.0
    assert here.at - back >= 30.0
    assert here.record.slots[MemberName("main/1")].generation == 1
    assert "acquire:r1-n2" in kinds(here.decide())


def test_a_sick_node_does_not_come_back() -> None:
    here = serving(make_run(slices=1, spares=0))
    here.silent(LOST, heard=18.0)
    wait(here, 9)
    here.views[LOST] = Seen()
    here.sign(LOST, Symptom.MEMORY, "Xid 95")
    wait(here, 100)
    assert LOST in here.record.failed_nodes


def test_a_node_that_is_kept_out_stays_out_in_spite_of_good_answers_until_a_request() -> None:
    here = back_from_silence()
    here.kept_out = frozenset((LOST,))
    wait(here, 300)
    assert LOST in here.record.failed_nodes
    here.order(RequestKind.READMIT, LOST)
    here.decide()
    assert LOST not in here.record.failed_nodes


def test_the_half_minute_of_good_answers_begins_when_a_node_is_not_kept_out_any_more() -> None:
    here = back_from_silence()
    here.kept_out = frozenset((LOST,))
    wait(here, 100)
    here.kept_out = frozenset()
    freed = here.at
    while LOST in here.record.failed_nodes:
        here.decide(after=1.0)
        assert here.at < freed + 60.0
    assert here.at - freed >= 30.0


def test_an_operator_readmits_any_node() -> None:
    here = serving(make_run(slices=1, recovery=RecoveryPolicy(node_attempts=0)))
    here.agent(LOST, ray=Step(phase=Phase.FAILED, exit_code=1))
    here.decide()
    assert LOST in here.record.failed_nodes
    here.order(RequestKind.READMIT, LOST)
    here.decide()
    assert LOST not in here.record.failed_nodes


def test_an_order_is_obeyed_once() -> None:
    here = serving(make_run(slices=1, spares=0))
    here.order(RequestKind.CONFIRM_DEAD, LOST)
    here.decide()
    here.views[LOST] = Unseen(message="timed out")
    for _ in range(20):
        here.decide(after=1.0)
    assert LOST not in here.record.failed_nodes, "it was meant when we still saw the node"


def test_an_operators_word_waits_while_somebody_still_hears_the_node() -> None:
    here = serving()
    here.silent(LOST, heard=1.0)
    here.decide(after=3.0)
    here.order(RequestKind.CONFIRM_DEAD, LOST)
    decision = here.decide()
    assert holder(here) == LOST, "two of one rank would write to one checkpoint"
    assert "r1-n2 is confirmed dead, but not failed yet: heartbeat at the head 1 s ago" in decision.status_message
    here.orders.clear()
    here.silent(LOST, heard=9.0)
    here.decide()
    assert holder(here) == "r1-n3"
