"""Nodes that fall silent: who is believed, what is proven, and what is done about it."""

from dataclasses import replace

import pytest

from launcher.core.control.liveness import HeadPlace, head_expired
from launcher.core.model.inventory import Access
from launcher.core.model.observation import Reached, Refusal, Unseen
from launcher.core.model.operator_requests import RequestKind
from tests.situations import Situation, kinds, make_run, name
from tests.unit.core.control.kernel import LOST, holder, serving, votes, wait


def test_ten_seconds_of_silence_change_nothing() -> None:
    here = serving()
    here.silent(LOST, heard=10.0)
    decision = wait(here, 10)
    assert decision.actions == ()
    here.agent(LOST)
    assert holder(here) == LOST


def test_a_node_that_two_witnesses_miss_is_replaced_only_once_its_agent_must_have_stopped() -> None:
    here = serving()
    here.silent(LOST, heard=13.9)
    wait(here, 12)
    assert holder(here) == LOST
    here.silent(LOST, heard=14.0)
    here.decide()
    assert holder(here) == "r1-n3"
    assert here.gang().restarts == 0
    assert here.record.failed_nodes[LOST].mends


def test_we_alone_cannot_fail_a_node() -> None:
    here = serving()
    here.views[LOST] = Unseen(message="timed out")
    for _ in range(100):
        assert here.decide(after=1.0).actions == ()
    assert holder(here) == LOST


@pytest.mark.parametrize("says", ["neighbour", "head"])
def test_whoever_says_that_it_answers_is_believed(says: str) -> None:
    here = serving()
    here.silent(LOST, heard=0.5 if says == "head" else 13.9)
    here.reached[LOST] = Reached(by=name(2, 1), answers=says == "neighbour")
    for _ in range(60):
        assert here.decide(after=1.0).actions == ()
    assert "unreachable: r1-n2" in here.decide().status_message


def test_an_agent_that_must_have_stopped_outweighs_whatever_answers_on_its_machine() -> None:
    here = serving()
    here.silent(LOST, heard=14.0)
    here.views[LOST] = Unseen(message="other key", refusal=Refusal.HOST_KEY)
    here.reached[LOST] = Reached(by=name(2, 1), answers=True)
    message = wait(here, 9).status_message
    assert holder(here) == "r1-n3"
    assert "r1-n2: host key has changed (re-imaged?): nvlaunch hosts rekey r1-n2" in message


def test_a_node_whose_job_in_slurm_is_over_is_not_tried_again_but_replaced_and_named() -> None:
    here = serving()
    here.silent(LOST, heard=14.0)
    here.views[LOST] = Unseen(message="no active jobs on this node", refusal=Refusal.NO_JOB)
    here.reached[LOST] = Reached(by=name(2, 1), answers=True)
    asked, decision = list[str](), here.decide()
    for _ in range(9):
        decision = here.decide(after=1.0)
        asked += kinds(decision)
    assert holder(here) == "r1-n3"
    assert not [act for act in asked if "r1-n2" in act], "nothing is begun on a node that refuses"
    assert "r1-n2: Slurm lets nobody in without a job there (allocation over?)" in decision.status_message
    assert "Slurm lets nobody in" in here.record.failed_nodes[LOST].message


def test_a_few_peers_that_hear_the_head_do_not_outweigh_the_proof_that_it_stopped() -> None:
    here = votes(15.0, 15.0, 15.0, 0.0)
    wait(here, 9)
    assert here.record.head == name(1, 2)


def refused(*, bound: bool, seconds: float = 60.0) -> Situation:
    """A run whose head's machine was installed anew: it answers everybody, and refuses heartbeats."""
    here = Situation(make_run(slices=1, nodes=4, spares=0))
    here.serving()
    here.agent(name(1, 1), head_bound=bound)
    here.decide()
    here.head = here.views[name(1, 1)] = Unseen(message="other key", refusal=Refusal.HOST_KEY)
    here.reached[name(1, 1)] = Reached(by=name(1, 2), answers=True)
    for at in (2, 3, 4):
        here.agent(name(1, at), head_silent=0.1, head_unheard=seconds)
    return here


def test_a_head_whose_machine_refuses_heartbeats_is_lost_where_nothing_outlives_its_agent() -> None:
    here = refused(bound=True, seconds=14.9)
    wait(here, 30)
    assert here.record.head is None, "its agent may be about to stop the node"
    here = refused(bound=True, seconds=15.0)
    wait(here, 9)
    assert here.record.head == name(1, 2)
    assert not here.record.head_bound, "of the new one it is not known yet"
    message = here.record.failed_nodes[name(1, 1)].message
    assert "host key has changed" in message
    assert "self-fenced: no answer to 3 peers for 15 s" in message


def test_a_head_whose_machine_refuses_heartbeats_is_left_to_an_operator_where_its_slot_may_outlive_it() -> None:
    """An agent of the version before takes the refusals of its own machine for signs of life."""
    here = refused(bound=False)
    decision = wait(here, 60)
    assert here.record.head is None
    assert "nvlaunch confirm-dead r1-n1" in decision.status_message
    here.order(RequestKind.CONFIRM_DEAD, "r1-n1")
    wait(here, 2)
    assert here.record.head == name(1, 2)


@pytest.mark.parametrize("apart", [True, False], ids=["of-its-own", "of-a-node"])
def test_a_machine_for_heads_that_refuses_heartbeats_is_lost_if_no_node_is_on_it(apart: bool) -> None:
    run = make_run(slices=1, nodes=3, spares=0)
    address = "10.9.9.9" if apart else run.fleet.nodes[1].access.address
    here = Situation(replace(run, fleet=replace(run.fleet, head=Access(address=address))))
    here.serving()
    here.head = Unseen(message="other key", refusal=Refusal.HOST_KEY)
    for node in here.views:
        here.agent(node, head_silent=0.1, head_unheard=20.0)
    wait(here, 10)
    assert here.record.head == (name(1, 1) if apart else None)


@pytest.mark.parametrize(
    ("silent", "proven"),
    [
        ((15.0, 19.0, 20.0), True),
        ((15.0, 15.0, 0.0), False),
        ((15.0,), False),
        ((15.0, 15.0), True),
        ((15.0, 14.9), False),
        ((15.0, None, None), False),
        ((200.0, 201.0, 202.0), True),
        # Two that fell away minutes ago are not of those that it counts on now.
        ((300.0, 200.0, 15.0, 0.0), False),
        ((15.0, 62.0, 107.0), False),
    ],
    ids=str,
)
def test_a_silent_head_is_proven_dead_by_more_than_half_of_those_that_it_counts_on(
    silent: tuple[float | None, ...], proven: bool
) -> None:
    here = votes(*silent)
    place = HeadPlace(name(1, 1), here.record.leased, bound=False)
    assert (head_expired(here.observation(), place) is not None) is proven
