"""Waits of large slices under best fit, FGD's placement, and moves.

All arms are simulations of `launcher/simulate` with the same jobs and racks, conservative backfill and no faults. A job
is one slice. FGD (Weng et al., ATC'23) puts a slice in the rack whose fragmentation grows least: F(rack) = sum of
p_s * (free - s*floor(free/s)), p being the shares of slice sizes among the jobs. The last arm has all nodes in one
rack, where no node is lost to fragmentation: what large slices wait there, they wait for the queue.

The launcher has no FGD. For that arm the bench replaces the class in `core/placement/solver` that chooses the rack of
the next slice, so that placement, backfill and reservations follow it. For jobs of one slice that is FGD exactly: racks
with as many free nodes are equal to it too, which is what `interchangeable` relies on.

Waits are those of jobs that have started; `admitted` counts them. GPU-hours are those of moves for each large slice
admitted, F is the mean over racks and time. Exits with 1 if a budget for moves does not lower the 95th percentile of
the wait of large slices. The argument is the seed of the trace; 1 without one. A trace is a
single sample: over seeds 1 to 3, budgets from 50 GPU-hours lower that percentile by 6 to 10 % and the median by 31 to
56 %, while 10 GPU-hours raise the percentile on seed 2.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean
from unittest.mock import patch

from launcher.core.placement import solver
from launcher.core.placement.best_fit import BestFit, Candidate
from launcher.core.planner.faults import DAY_S
from launcher.simulate.experiment import imaginary_fleet
from launcher.simulate.measures import Spent
from launcher.simulate.policy import Policy
from launcher.simulate.simulation import Measured, Scenario, simulate
from launcher.simulate.workload import JobClass, Mix, draw_jobs

RACKS, TRAYS, GPUS = 20, 18, 4
LARGE = 16
DAYS, WARM_DAYS, LOAD, SEED = 8.0, 1.0, 0.87, 1
MEAN_S = 2 * 3600.0
SLICES = {1: 0.15, 2: 0.15, 4: 0.25, 8: 0.2, 12: 0.1, 16: 0.15}
"""Shares of jobs by the nodes of their slice. Durations do not depend on it. An assumption: no trace has slices."""

UNLIMITED = 1e9
BUDGETS = (10.0, 50.0, 200.0, UNLIMITED)
"""GPU-hours of moves a day."""

HEAD = ("arm", "admitted", "median wait", "p95 wait", "moves", "GPU-h/slice", "in use", "mean F", "CPU")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """What is compared: a budget for moves (GPU-hours a day), FGD's placement, or all nodes in one rack."""

    name: str
    budget: float = 0.0
    fgd: bool = False
    pooled: bool = False


class LeastFragmenting(BestFit):
    """Chooses the domain whose fragmentation grows least; of equal ones the tightest."""

    def choose(self, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return the domain for the next slice."""
        need = self._demand.need
        growth = [lost_nodes(one.free - need) - lost_nodes(one.free) for one in candidates]
        least = min(growth) + 1e-9
        return super().choose([one for one, own in zip(candidates, growth, strict=True) if own <= least])


def lost_nodes(free: int) -> float:
    """Return F of a rack with so many free nodes."""
    return sum(share * (free % size) for size, share in SLICES.items())


def trace(seed: int) -> Scenario:
    """Return the racks and the jobs that arrive."""
    used = sum(size * share for size, share in SLICES.items())
    classes = (JobClass(gpus=size * GPUS, jobs=share, gpu_time=size * share / used) for size, share in SLICES.items())
    mix = Mix(name="slices", mean_s=MEAN_S, classes=tuple(classes), source="assumed")
    uniform = Random(f"{seed} jobs").random
    days = DAYS + WARM_DAYS
    return Scenario(
        inventory=imaginary_fleet(RACKS, TRAYS),
        jobs=draw_jobs(mix, RACKS * TRAYS * GPUS, LOAD, days, uniform),
        outages=(),
        days=DAYS,
        warm_s=WARM_DAYS * DAY_S,
    )


def measure(scenario: Scenario, arm: Arm) -> Measured:
    """Return what an arm makes of the trace."""
    policy = Policy(name=arm.name, spares=0, defragment_gpu_hours=arm.budget)
    if arm.pooled:
        scenario = replace(scenario, inventory=imaginary_fleet(1, RACKS * TRAYS))
    if not arm.fgd:
        return simulate(scenario, policy)
    with patch.object(solver, "BestFit", LeastFragmenting):
        return simulate(scenario, policy)


def p95_wait(outcome: Measured) -> float:
    """Return the 95th percentile of the wait of large slices (s)."""
    return next(line.p95_s for line in outcome.waits if line.gpus == LARGE * GPUS)


def row(arm: Arm, outcome: Measured, cpu_s: float) -> tuple[str, ...]:
    """Return the line of an arm."""
    line = next(one for one in outcome.waits if one.gpus == LARGE * GPUS)
    admitted = line.jobs - line.waiting
    return (
        arm.name,
        f"{admitted} of {line.jobs}",
        f"{line.median_s / 60:.0f} min",
        f"{line.p95_s / 60:.0f} min",
        str(outcome.incidents.moved),
        f"{outcome.incidents.move_gpu_hours / max(1, admitted):.2f}",
        f"{1 - outcome.shares[Spent.FRAGMENTED] - outcome.shares[Spent.IDLE]:.1%}",
        f"{TRAYS * fmean(one.fragments for one in outcome.samples):.2f}",
        f"{cpu_s:.0f} s",
    )


def line_of(cells: Sequence[str]) -> str:
    """Return a line of the table."""
    first, *others = cells
    return "  " + first.ljust(38) + "".join(cell.rjust(13) for cell in others)


def main() -> int:
    """Print a line for each arm; return 1 if moves do not shorten the waits of large slices."""
    arms = [Arm(name="best fit"), Arm(name="FGD", fgd=True)]
    for budget in BUDGETS:
        told = "moves without limit" if budget == UNLIMITED else f"{budget:.0f} GPU-hours of moves a day"
        arms.append(Arm(name=f"best fit, {told}", budget=budget))
    arms.append(Arm(name="one rack of all nodes", pooled=True))
    scenario = trace(int(sys.argv[1]) if len(sys.argv) > 1 else SEED)
    print(
        f"{LARGE}-node slices on {RACKS} racks of {TRAYS} nodes: {len(scenario.jobs):,} jobs of 1 to {LARGE} nodes, "
        f"load {LOAD:.0%}, {DAYS:g} days after {WARM_DAYS:g} to fill up; target: moves lower the p95 wait"
    )
    print(line_of(HEAD))
    p95: dict[Arm, float] = {}
    for arm in arms:
        begun = time.process_time()
        outcome = measure(scenario, arm)
        p95[arm] = p95_wait(outcome)
        print(line_of(row(arm, outcome, time.process_time() - begun)), flush=True)
    worse = [arm.name for arm in arms if arm.budget and p95[arm] >= p95[arms[0]]]
    if worse:
        print(f"p95 wait not below that of best fit alone: {', '.join(worse)}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
