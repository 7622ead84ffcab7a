"""Jobs that arrive at a fleet: published mixes of sizes, and drawn arrivals and durations."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from launcher.core.planner.faults import DAY_S, Uniform, exponential, normal
from launcher.errors import refuse

SIGMA = 1.0
"""Spread (sigma of a lognormal) of durations of jobs of one size. An assumption: the traces publish means only."""

MAX_JOBS = 1_000_000
"""The most jobs of one simulation: about 300 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClass:
    """Jobs of one size: their GPUs, their share of all jobs, and their share of the GPU time."""

    gpus: int
    jobs: float
    gpu_time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Classes of jobs by size, the mean duration over all jobs (s), and where both were published."""

    name: str
    mean_s: float
    classes: tuple[JobClass, ...]
    source: str

    def durations(self) -> tuple[float, ...]:
        """Return the mean duration of each class (s): those with which the shares of GPU time hold."""
        alike = [one.gpu_time / (one.jobs * one.gpus) for one in self.classes]
        scale = self.mean_s / sum(one.jobs * each for one, each in zip(self.classes, alike, strict=True))
        return tuple(scale * each for each in alike)

    def only(self, fits: Callable[[int], bool]) -> "Mix":
        """Return the mix without jobs whose GPUs do not fit. The others last as long as before.

        Their shares add up to 1 again. SpecError where none fits.
        """
        kept = [(one, mean) for one, mean in zip(self.classes, self.durations(), strict=True) if fits(one.gpus)]
        if not kept:
            refuse(f"no job of mix `{self.name}` fits the fleet", hint="simulate more nodes, or set `--largest` higher")
        jobs, used = sum(one.jobs for one, _ in kept), sum(one.gpu_time for one, _ in kept)
        classes = (JobClass(gpus=one.gpus, jobs=one.jobs / jobs, gpu_time=one.gpu_time / used) for one, _ in kept)
        mean = sum(one.jobs * each for one, each in kept) / jobs
        return Mix(name=self.name, mean_s=mean, classes=tuple(classes), source=self.source)


def _mix(name: str, mean_s: float, cumulative: Sequence[tuple[int, float, float]], source: str) -> Mix:
    """Return a mix by its cumulative percentages: the largest GPUs of a class, then jobs and GPU time up to it."""
    classes, before = [], (0.0, 0.0)
    for gpus, jobs, used in cumulative:
        classes.append(JobClass(gpus=gpus, jobs=(jobs - before[0]) / 100, gpu_time=(used - before[1]) / 100))
        before = (jobs, used)
    return Mix(name=name, mean_s=mean_s, classes=tuple(classes), source=source)


_ACME = "Acme trace (arXiv 2403.07648)"
MIXES: Mapping[str, Mix] = {
    "kalos": _mix(
        "kalos",
        1260.0,
        ((8, 93.9, 0.6), (64, 95.3, 3.3), (256, 96.9, 24.9), (512, 98.3, 54.3), (1024, 100.0, 100.0)),
        f"{_ACME}, cluster Kalos",
    ),
    "seren": _mix(
        "seren",
        1414.0,
        ((8, 96.7, 11.9), (64, 99.3, 27.6), (256, 99.7, 56.3), (512, 99.8, 67.7), (1024, 100.0, 100.0)),
        f"{_ACME}, cluster Seren; its jobs over 512 GPUs count as 1,024",
    ),
}
"""Mixes by name. A job has the most GPUs of its class, which the trace publishes as `up to`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job: when it arrives (s), its GPUs, and for how long it has to compute (s)."""

    name: str
    arrives_s: float
    gpus: int
    work_s: float

    def later(self, seconds: float) -> "Job":
        """Return the job with a later arrival."""
        return replace(self, arrives_s=self.arrives_s + seconds)


def draw_jobs(mix: Mix, fleet_gpus: int, load: float, days: float, uniform: Uniform) -> tuple[Job, ...]:
    """Return drawn jobs that ask for a share `load` of a fleet's GPU time over so many days, in order of arrival.

    Arrivals are a Poisson process, durations lognormal; all durations are scaled so that the drawn jobs ask for exactly
    that share. SpecError where that is more than `MAX_JOBS`.
    """
    means = mix.durations()
    each = sum(one.jobs * one.gpus * mean for one, mean in zip(mix.classes, means, strict=True))
    rate = load * fleet_gpus / each
    _check_number(rate * days * DAY_S, f"the jobs of mix `{mix.name}`")
    jobs = tuple(_drawn(mix, means, rate, days * DAY_S, uniform)) if rate > 0 else ()
    scale = load / offered_load(jobs, fleet_gpus, days) if jobs else 1.0
    return tuple(replace(job, work_s=max(1.0, job.work_s * scale)) for job in jobs)


def repeated(jobs: Sequence[Job], fleet_gpus: int, load: float, days: float, uniform: Uniform) -> tuple[Job, ...]:
    """Return given jobs again and again, at random times, so often that they ask for a share `load` of a fleet.

    Each arrival is one of them, all equally likely. SpecError where that is more than `MAX_JOBS`.
    """
    each = sum(job.gpus * job.work_s for job in jobs) / len(jobs)
    rate, end = load * fleet_gpus / each, days * DAY_S
    _check_number(rate * end, "the given jobs")
    found: list[Job] = []
    at = exponential(1 / rate, uniform)
    while at < end:
        job = jobs[int(uniform() * len(jobs))]
        found.append(replace(job, name=f"{job.name}-{len(found) + 1}", arrives_s=at))
        at += exponential(1 / rate, uniform)
    return tuple(found)


def _check_number(jobs: float, what: str) -> None:
    if jobs > MAX_JOBS:
        refuse(f"{what} come to {jobs:,.0f} jobs, more than {MAX_JOBS:,}", hint="simulate fewer days or nodes")


def _drawn(mix: Mix, means: Sequence[float], rate: float, end: float, uniform: Uniform) -> Iterator[Job]:
    at, number = exponential(1 / rate, uniform), 1
    while at < end:
        chosen = _chosen([one.jobs for one in mix.classes], uniform())
        work = means[chosen] * math.exp(SIGMA * normal(uniform) - SIGMA**2 / 2)
        yield Job(name=f"job-{number}", arrives_s=at, gpus=mix.classes[chosen].gpus, work_s=work)
        at, number = at + exponential(1 / rate, uniform), number + 1


def _chosen(shares: Sequence[float], drawn: float) -> int:
    for at, share in enumerate(shares):
        drawn -= share
        if drawn < 0:
            return at
    return len(shares) - 1  # shares that add up to a little less than 1


def offered_load(jobs: Iterable[Job], fleet_gpus: int, days: float) -> float:
    """Return the share of a fleet's GPU time that jobs ask for."""
    return sum(job.gpus * job.work_s for job in jobs) / (fleet_gpus * days * DAY_S)
