"""Goodput of a job: the expected share of time in which it makes progress that is kept.

A job computes for `interval_s`, writes a checkpoint that blocks it for `write_s`, and goes on. A fault loses what came
after the last checkpoint, and the job computes again `restart_s` later. Faults are a Poisson process; none strikes
while the job restarts.
"""

import math
from dataclasses import dataclass

from launcher.core.planner.faults import DAY_S

LINEAR_RANGE = 0.1
"""The linear formula holds (within 1.5 points) while the share it takes for lost, l*(u0 + D/2), is below this."""

_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCycle:
    """How often a job is interrupted, the time until it computes again, and its checkpoints."""

    faults_per_day: float
    restart_s: float
    interval_s: float
    write_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        if self.interval_s <= 0 or min(self.faults_per_day, self.restart_s, self.write_s) < 0:
            raise ValueError("the checkpoint interval must be positive, and nothing may be negative")


def linear_loss(cycle: JobCycle) -> float:
    """Return the expected share lost to faults to first order, l*(u0 + D/2)."""
    return cycle.faults_per_day * (cycle.restart_s + cycle.interval_s / 2) / DAY_S


def linear_holds(cycle: JobCycle) -> bool:
    """Whether the linear formula is within its range; beyond it the result is too low."""
    return linear_loss(cycle) < LINEAR_RANGE


def linear_goodput(cycle: JobCycle) -> float:
    """Return E = (1 - l*(u0 + D/2)) / (1 + w/D), never below 0. Valid while `linear_holds`.

    Source: Meta, "Revisiting reliability in large-scale machine learning research clusters", arXiv 2410.21680.
    """
    return max(0.0, 1 - linear_loss(cycle)) / (1 + cycle.write_s / cycle.interval_s)


def goodput(cycle: JobCycle) -> float:
    """Return the goodput by renewal: E = D / ((exp(l*(D + w)) - 1) * (1/l + u0)). Valid everywhere.

    The denominator is the expected time until one interval and its write pass without a fault. A fault during a restart
    that begins it anew would take a further factor (1 + l*u0) / exp(l*u0), over 0.995 while l*u0 < 0.1.
    """
    per_s = cycle.faults_per_day / DAY_S
    exponent = per_s * (cycle.interval_s + cycle.write_s)
    if exponent == 0:
        return cycle.interval_s / (cycle.interval_s + cycle.write_s)
    if exponent > _LARGEST_EXPONENT:
        return 0.0
    return cycle.interval_s / (math.expm1(exponent) * (1 / per_s + cycle.restart_s))


def best_interval(faults_per_day: float, write_s: float) -> float:
    """Return the checkpoint interval of the highest goodput (s), D = sqrt(2*w/l); infinity without faults.

    Valid where l*D is well below 1. Source: arXiv 2410.21680, after Young, "A first order approximation to the optimum
    checkpoint interval".
    """
    return math.sqrt(2 * write_s * DAY_S / faults_per_day) if faults_per_day > 0 else math.inf


def restarts_per_week(faults_per_day: float, restart_s: float) -> float:
    """Return the expected restarts in 7 days: one a fault, none while the job restarts."""
    return 7 * faults_per_day / (1 + faults_per_day * restart_s / DAY_S)
