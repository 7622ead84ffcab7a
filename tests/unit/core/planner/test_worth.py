"""Moves that nobody asks for: made where they save more than they cost, within the policy."""

from dataclasses import replace

import pytest

from launcher.core.model.inventory import DefragPolicy
from launcher.core.planner.defragment import MovePlan, NoMovePlan, defragment
from launcher.core.planner.worth import Ground, WaitFigures, judge
from tests.unit.core.planner.test_defragment import hall, run, used, wanted

RUNS = (run("a", "r1:1 2"), run("b", "r2:1 2", movable=False))
NOON = WaitFigures(waited_s=600.0, starts_in_s=None, spent_gpu_hours=0.0, minute=12 * 60)
"""8 GPUs that restart for 180 s cost 0.4 GPU-hours; 16 GPUs that wait for 600 s, 2.7."""


def ground(policy: DefragPolicy | None = None, **changes: object) -> Ground:
    found = defragment(wanted(4), hall(2), used(RUNS), RUNS)
    assert isinstance(found, MovePlan)
    return judge(found, wanted(4), hall(2), policy or DefragPolicy(), replace(NOON, **changes)).ground


def test_moves_are_made_that_save_more_waiting_than_they_cost() -> None:
    assert ground() is Ground.WORTH
    assert ground(waited_s=100.0) is Ground.BENEFIT
    assert ground(waited_s=190.0) is Ground.WORTH


def test_a_known_start_counts_instead_of_the_wait_so_far() -> None:
    assert ground(starts_in_s=100.0) is Ground.BENEFIT
    assert ground(waited_s=0.0, starts_in_s=190.0) is Ground.WORTH


def test_the_least_benefit_is_a_matter_of_policy() -> None:
    assert ground(DefragPolicy(min_benefit=6.0)) is Ground.WORTH
    assert ground(DefragPolicy(min_benefit=7.0)) is Ground.BENEFIT


def test_the_budget_of_a_day_is_kept() -> None:
    assert ground(DefragPolicy(budget_gpu_hours_per_day=1.0), spent_gpu_hours=0.5) is Ground.WORTH
    assert ground(DefragPolicy(budget_gpu_hours_per_day=1.0), spent_gpu_hours=0.7) is Ground.BUDGET


@pytest.mark.parametrize(
    ("begin", "end", "quiet"),
    [(8, 18, True), (18, 8, False), (20, 13, True), (12, 13, True), (11, 12, False), (12, 12, False)],
)
def test_nothing_moves_in_quiet_hours(begin: int, end: int, quiet: bool) -> None:
    policy = DefragPolicy(quiet_hours=((begin * 60, end * 60),))
    assert ground(policy) is (Ground.QUIET if quiet else Ground.WORTH)


def test_a_task_without_a_plan_or_without_need_of_one_moves_nothing() -> None:
    none = NoMovePlan(reason="no moves make room", proven=True, fixed={})
    assert judge(none, wanted(4), hall(2), DefragPolicy(), NOON).reason == "no moves make room"
    fits = defragment(wanted(2), hall(2), used(RUNS), RUNS)
    assert judge(fits, wanted(2), hall(2), DefragPolicy(), NOON).ground is Ground.FITS
