"""What a program has done after a time, and waits by size."""

import pytest

from launcher.simulate.measures import progress, time_to_finish, wait_lines


def test_a_fault_keeps_whole_checkpoints_only() -> None:
    done = progress(2 * 610 + 250, 600, 10, graceful=False)
    assert (done.kept_s, done.write_s, done.rest_s) == (1200, 20, 250)


def test_a_fault_during_the_write_loses_the_whole_interval() -> None:
    done = progress(605, 600, 10, graceful=False)
    assert (done.kept_s, done.rest_s) == (0, 605)


def test_a_stop_with_notice_keeps_everything() -> None:
    done = progress(610 + 250, 600, 10, graceful=True)
    assert (done.kept_s, done.write_s, done.rest_s) == (850, 10, 0)


@pytest.mark.parametrize(("work", "writes"), [(599, 0), (600, 0), (601, 1), (1800, 2)])
def test_no_checkpoint_is_written_at_the_end(work: float, writes: int) -> None:
    took = time_to_finish(work, 600, 10)
    assert took == work + 10 * writes
    assert progress(took, 600, 10, graceful=True).kept_s == pytest.approx(work)


def test_waits_count_jobs_that_never_started() -> None:
    (small, large) = wait_lines({8: [0.0, 10.0, 20.0]}, {64: 2})
    assert (small.gpus, small.jobs, small.mean_s, small.median_s, small.waiting) == (8, 3, 10.0, 10.0, 0)
    assert (large.gpus, large.jobs, large.waiting) == (64, 2, 2)
