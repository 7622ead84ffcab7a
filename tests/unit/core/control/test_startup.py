"""A start, step by step: leases, setups, raylets."""

from dataclasses import replace

from launcher.core.model.action_key import ActionKey
from launcher.core.model.actions import Unit
from launcher.core.model.observation import HeadSeen, Seen, Step
from launcher.core.model.run import RunState
from tests.situations import Situation, kinds, make_run, name


def test_a_run_begins_with_the_lease_of_every_node_spares_too() -> None:
    here = Situation(make_run())
    decision = here.decide()
    assert kinds(decision) == [f"acquire:r{r}-n{n}" for r in (1, 2) for n in (1, 2, 3)]
    assert decision.state is RunState.STARTING


def test_nothing_else_begins_before_the_last_lease_is_ours() -> None:
    here = Situation(make_run())
    here.leased()
    here.views[name(2, 3)] = Seen()
    assert kinds(here.decide()) == ["acquire:r2-n3"]


def test_claimed_members_are_prepared_and_the_head_starts_while_spares_are_left_alone() -> None:
    here = Situation(make_run())
    here.leased()
    assert kinds(here.decide()) == ["prepare:r1-n1", "prepare:r1-n2", "prepare:r2-n1", "prepare:r2-n2", "start_head"]


def test_prepared_members_join_once_the_head_runs_and_wait_for_it_there() -> None:
    here = Situation(make_run())
    here.ready()
    assert isinstance(here.head, HeadSeen)
    assert here.head.head is not None
    for node in (name(1, 1), name(2, 2)):
        here.agent(node, ray=Step())
    up = here.head.head
    here.head = HeadSeen(head=replace(up, ray=Step(), ready=False))
    assert "join:r1-n1#0" not in kinds(here.decide())
    here.head = HeadSeen(head=replace(up, ready=False, nodes=()))
    assert kinds(here.decide()) == ["join:r1-n1#0", "join:r2-n2#0"]


def test_nothing_joins_a_head_that_is_to_be_left() -> None:
    here = Situation(make_run())
    here.ready()
    assert isinstance(here.head, HeadSeen)
    assert here.head.head is not None
    here.agent(name(1, 1), ray=Step())
    here.decide()
    here.record = replace(here.record, cluster=2)
    assert "join:r1-n1#0" not in kinds(here.decide())


def test_processes_without_a_agent_are_killed_before_the_node_is_claimed() -> None:
    here = Situation(make_run(slices=1))
    here.views[name(1, 1)] = Seen(leftovers=2)
    assert "release:slot:r1-n1" in kinds(here.decide())


def test_a_lease_is_not_taken_while_it_is_let_go_of() -> None:
    here = Situation(make_run(slices=1))
    here.in_flight = frozenset({ActionKey("release", node=name(1, 1), unit=Unit.SLOT)})
    assert kinds(here.decide()) == ["acquire:r1-n2", "acquire:r1-n3"]
