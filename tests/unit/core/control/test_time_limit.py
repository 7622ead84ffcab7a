"""The time limit of a run: counted from the first start of its ranks, whatever becomes of the controller."""

from dataclasses import replace

import pytest

from launcher.core.control.reconcile import reconcile
from launcher.core.control.status import summarise
from launcher.core.model.inventory import Transport
from launcher.core.model.record import rebased
from launcher.core.model.run import Cause, RunState
from launcher.core.model.simulation import SimSettings
from tests.situations import Situation, kinds, make_run

LIMIT = 600.0


def limited(*, grace: float = 60.0) -> Situation:
    run = make_run(slices=1, nodes=2, spares=0, grace=grace)
    return Situation(replace(run, task=replace(run.task, time_limit=LIMIT)))


def test_ranks_are_told_and_have_their_grace_when_the_time_is_over() -> None:
    at = limited()
    at.serving()
    began = at.at
    assert at.decide(after=LIMIT - 1).state is RunState.RUNNING
    over = at.decide(after=LIMIT + began - at.at + 1)
    assert kinds(over) == ["signal:r1-n1", "signal:r1-n2"]
    for action in over.actions:
        at.receive(action)
    waiting = at.decide(after=30)
    assert (waiting.actions, waiting.state) == ((), RunState.STOPPING)
    assert {action.kind for action in at.decide(after=31).actions} == {"release"}
    assert at.record.outcome
    assert (at.record.outcome.cause, at.record.outcome.message) == (
        Cause.TIME_LIMIT,
        "reached its time limit (10m)",
    )


def test_the_end_is_not_slept_through() -> None:
    at = limited()
    at.serving()
    decision = at.decide(after=LIMIT - 1.5)
    assert decision.wake_at <= at.at + 1.5


def test_what_has_ended_well_by_then_has_succeeded() -> None:
    at = limited()
    at.serving()
    for rank in (0, 1):
        at.end_rank(rank, 0)
    at.decide(after=LIMIT * 2)
    assert at.record.outcome
    assert at.record.outcome.cause is Cause.SUCCESS


def test_the_way_to_the_first_start_does_not_count() -> None:
    at = limited()
    at.decide()
    at.decide(after=LIMIT * 2)
    assert at.record.started_at is None
    at.serving()
    assert at.record.outcome is None


def test_the_time_goes_on_while_the_launching_machine_starts_anew() -> None:
    at = limited(grace=0.0)
    at.serving()
    assert at.record.started_at is not None
    # The loop's clock begins again with the boot; the time of day has gone on, and the ranks have, too.
    seen = replace(at.observation(), at=5.0, wall=at.record.started_at + LIMIT + 1)
    decision = reconcile(at.run, seen, rebased(at.record, 5.0))
    assert decision.record.outcome
    assert decision.record.outcome.cause is Cause.TIME_LIMIT


@pytest.mark.parametrize("hours", [-1, 1])
def test_who_sets_the_time_of_day_neither_ends_a_run_nor_prolongs_it(hours: int) -> None:
    at = limited(grace=0.0)
    at.serving()
    began = at.record.started_at
    assert began is not None
    at.at += 100.0
    set_anew = replace(at.observation(), wall=at.at + hours * 3600.0)
    record = reconcile(at.run, set_anew, at.record).record
    assert (record.outcome, record.started_at) == (None, began + hours * 3600.0)
    later = replace(set_anew, at=began + LIMIT - 1, wall=began + LIMIT - 1 + hours * 3600.0)
    record = reconcile(at.run, later, rebased(record, later.at)).record
    assert record.outcome is None, "nor does it when another controller comes after that"
    over = replace(later, at=later.at + 2, wall=later.wall + 2)
    outcome = reconcile(at.run, over, record).record.outcome
    assert outcome is not None
    assert outcome.cause is Cause.TIME_LIMIT


def test_people_and_the_queue_read_when_it_is_over() -> None:
    at = limited()
    at.serving()
    decision = at.decide()
    began = decision.record.started_at
    assert began is not None
    real = replace(at.run, fleet=replace(at.run.fleet, transport=Transport.SSH, sim=None))
    assert summarise(real, decision, since=0.0, observed_at=0.0).ends_at == began + LIMIT
    # On imaginary nodes, where half of the time is over: time passes 60 times as fast there.
    fleet = replace(at.run.fleet, transport=Transport.SIM, sim=SimSettings(speed=60.0))
    fast, half = replace(at.run, fleet=fleet), began + LIMIT / 2
    ends = summarise(fast, decision, since=0.0, observed_at=1000.0, wall=half).ends_at
    assert ends == pytest.approx(1000.0 + LIMIT / 2 / 60.0, abs=0.5)
