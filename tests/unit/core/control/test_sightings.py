"""What a look at ranks leaves in the record."""

from dataclasses import replace

import pytest

from launcher.core.control.conditions import Condition
from launcher.core.model.observation import RankReport
from launcher.core.model.run import Cause, MemberName
from tests.situations import RUN, Situation, make_run, name
from tests.unit.core.control.kernel import DRIVER, OTHERS, driven


def test_exits_of_an_earlier_attempt_mean_nothing() -> None:
    here = Situation(make_run(slices=1))
    here.serving()
    here.agent(
        name(1, 1),
        ranks=(
            RankReport(member=MemberName("main/0"), attempt=1, running=True),
            RankReport(member=MemberName("main/0"), attempt=0, running=False, exit_code=9),
        ),
    )
    assert here.decide().actions == ()


def test_slots_fail_with_their_driver_and_the_end_of_its_log_is_kept_once() -> None:
    here = driven(restarts=0)
    here.serving()
    here.agent(
        name(1, 1),
        ranks=(
            RankReport(member=DRIVER, attempt=0, running=True),
            RankReport(member=DRIVER, attempt=1, running=False, exit_code=3, at=7.0, tail=("boom",)),
        ),
    )
    decision = here.decide()
    assert {decision.conditions[member] for member in (DRIVER, *OTHERS)} == {Condition.FAILED}
    exits = here.record.exits
    assert {(one.attempt, one.code, one.at) for one in exits.values()} == {(1, 3, 7.0)}
    assert [exits[member].tail for member in (DRIVER, *OTHERS)] == [("boom",), (), (), ()]
    outcome = here.record.outcome
    assert outcome is not None
    assert (outcome.cause, outcome.member, outcome.exit_code, outcome.tail) == (Cause.PROGRAM, DRIVER, 3, ("boom",))


def test_a_driver_that_moved_is_judged_on_its_new_node_by_its_newest_attempt() -> None:
    here = Situation(make_run(driver="python a.py", slices=1, spares=1))
    here.serving()
    here.agent(name(1, 1), ranks=(RankReport(member=DRIVER, attempt=1, running=False),))
    slots = here.record.slots
    here.record = replace(here.record, slots={**slots, DRIVER: replace(slots[DRIVER], node=name(1, 3), generation=1)})
    here.record.gangs[RUN] = replace(here.gang(), attempt=2)
    here.show_ready(here.record.slots)
    here.agent(name(1, 3), ranks=(RankReport(member=DRIVER, attempt=2, running=True),))
    decision = here.decide()
    assert (set(decision.conditions.values()), here.record.exits) == ({Condition.SERVING}, {})


@pytest.mark.parametrize(("code", "ended"), [(1, {DRIVER, *OTHERS[:2]}), (0, {DRIVER, *OTHERS})])
def test_a_silent_node_may_be_why_its_driver_failed_but_is_done_with_a_driver_that_succeeded(
    code: int, ended: set[MemberName]
) -> None:
    here = driven()
    here.serving()
    here.silent(name(2, 2))
    here.end_rank(0, code)
    here.decide()
    assert here.record.exits.keys() == ended
