"""Mixes against their published shares, and drawn jobs against load."""

from random import Random

import pytest

from launcher.errors import SpecError
from launcher.simulate.workload import MIXES, Job, draw_jobs, offered_load, repeated


@pytest.mark.parametrize("name", MIXES)
def test_durations_of_a_mix_keep_its_published_shares_and_mean(name: str) -> None:
    mix = MIXES[name]
    means = mix.durations()
    used = [one.jobs * one.gpus * mean for one, mean in zip(mix.classes, means, strict=True)]
    assert [part / sum(used) for part in used] == pytest.approx([one.gpu_time for one in mix.classes])
    assert sum(one.jobs * mean for one, mean in zip(mix.classes, means, strict=True)) == pytest.approx(mix.mean_s)
    assert sum(one.jobs for one in mix.classes) == pytest.approx(1)


def test_a_mix_without_large_jobs_keeps_the_durations_of_the_others() -> None:
    whole = MIXES["seren"]
    part = whole.only(lambda gpus: gpus <= 256)
    assert part.durations() == pytest.approx(whole.durations()[:3])
    with pytest.raises(SpecError, match="no job of mix"):
        whole.only(lambda gpus: gpus < 8)


def test_drawn_jobs_ask_for_the_load_in_order_of_arrival() -> None:
    jobs = draw_jobs(MIXES["seren"], 648, 0.9, 10, Random(1).random)
    assert offered_load(jobs, 648, 10) == pytest.approx(0.9)
    arrivals = [job.arrives_s for job in jobs]
    assert arrivals == sorted(arrivals)
    small = sum(job.gpus == 8 for job in jobs) / len(jobs)
    assert small == pytest.approx(0.967, abs=0.01)


def test_the_same_numbers_give_the_same_jobs() -> None:
    assert draw_jobs(MIXES["kalos"], 2048, 0.9, 2, Random(3).random) == draw_jobs(
        MIXES["kalos"], 2048, 0.9, 2, Random(3).random
    )


def test_too_many_jobs_are_refused() -> None:
    with pytest.raises(SpecError, match="more than 1,000,000"):
        draw_jobs(MIXES["seren"], 80_000, 0.9, 400, Random(1).random)


def test_repeated_jobs_come_near_the_load() -> None:
    given = Job(name="a", arrives_s=0.0, gpus=64, work_s=3600.0)
    jobs = repeated((given,), 648, 0.9, 30, Random(1).random)
    assert offered_load(jobs, 648, 30) == pytest.approx(0.9, rel=0.05)
    assert len({job.name for job in jobs}) == len(jobs)
