"""How long simulations of fleets take, and what they say against formula and rig.

`bench_simulate.py [small|large|formula|rig]...`; prints, asserts nothing. Without arguments all four, in a quarter of
an hour.
"""

import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from launcher.core.model.simulation import Fault, FaultKind
from launcher.core.placement.place import place
from launcher.core.planner.faults import DAY_S, PUBLISHED, REPAIRS, FaultModel
from launcher.core.planner.goodput import JobCycle, goodput, linear_goodput, linear_loss
from launcher.simulate.experiment import Experiment, imaginary_fleet, play
from launcher.simulate.kernel_run import KernelRun
from launcher.simulate.measures import Spent
from launcher.simulate.policy import Policy
from launcher.simulate.workload import MIXES, Job

RIG = {FaultKind.RAYLET_KILLED: 3.9, FaultKind.POWER_CUT: 21.6}
"""Seconds until every rank ran again on hosts with real Ray, measured by `bench_recovery.py`."""


FAULTS = 300
"""Faults of a simulation that is held against the formulas: a standard error of 6 % of what is lost."""


def fleet(name: str, racks: int, days: float, mix: str, largest: int) -> None:
    """Print how long one simulation takes, and its peak of memory."""
    chosen = MIXES[mix].only(lambda gpus: gpus <= largest)
    experiment = Experiment(inventory=imaginary_fleet(racks, 18), model=FaultModel(), days=days, mix=chosen)
    begun = time.process_time()
    (outcome,) = play(experiment, (Policy(),))[0].outcomes
    took = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{name}: {racks * 18:,} nodes, {days:g} days, {outcome.jobs:,} jobs of mix `{mix}`, "
        f"{outcome.incidents.faults} faults: {took:.0f} s of one core, peak {peak:.0f} MB; "
        f"productive {outcome.shares[Spent.PRODUCTIVE]:.1%}",
        flush=True,
    )


def formula(nodes: int, times: float, interval: float) -> tuple[str, ...]:
    """Return a line: goodput of jobs that fill 90 % of a fleet, simulated and by both formulas.

    Rates are `times` those of Llama 3. Every job has so many nodes and computes for two days. Repairs are resets, so
    that few runs wait for a node. The formulas get the rate of interruptions and the time until a job computes again
    (`u0`) as the simulation had them.
    """
    racks = max(2, 3 * nodes // 16)
    rate = replace(PUBLISHED["llama-3"], per_gpu_day=PUBLISHED["llama-3"].per_gpu_day * times)
    model = FaultModel(rate=rate, domain_share=0.0, rack_out_days=None, maintenance_days=None)
    model = replace(model, unequal_sigma=0.0, repairs=(replace(REPAIRS[0], share=1.0),))
    days = FAULTS / model.rate.per_day(4 * 18 * racks)
    job = Job(name="job", arrives_s=0.0, gpus=4 * nodes, work_s=2 * DAY_S)
    experiment = Experiment(
        inventory=imaginary_fleet(racks, 18), model=model, days=days, jobs=(job,), repeat=True, load=0.9
    )
    policy = Policy(checkpoint_s=interval, spares=2, program_start_s=180.0)
    (outcome,) = play(experiment, (policy,))[0].outcomes
    shares = outcome.shares
    lost = sum(shares[one] for one in (Spent.LOST, Spent.UNDETECTED, Spent.RESTART, Spent.WAITING))
    running = shares[Spent.PRODUCTIVE] + shares[Spent.CHECKPOINT]
    hits = max(1, outcome.incidents.hits)
    down = (lost - shares[Spent.LOST]) * racks * 18 * days * DAY_S / (hits * nodes)
    faults = hits * nodes / ((running + shares[Spent.LOST]) * racks * 18 * days)
    cycle = JobCycle(faults_per_day=faults, restart_s=down, interval_s=interval, write_s=policy.write_s)
    simulated = shares[Spent.PRODUCTIVE] / (running + lost)
    linear, renewal = linear_goodput(cycle), goodput(cycle)
    points = [f"{100 * (one - simulated):+.2f}" for one in (linear, renewal)]
    figures = [f"{one:.3f}" for one in (linear_loss(cycle), simulated, linear, renewal)]
    return (str(nodes), f"{times:g}", str(outcome.jobs), str(hits), f"{down:.0f}", *figures, *points)


def formulas() -> None:
    """Print formula against simulation, inside the range of the linear formula and beyond."""
    head = ("nodes", "rate", "jobs", "faults", "u0 s", "l*(u0+D/2)", "simulated", "linear", "renewal", "off", "off")
    rows: Sequence[tuple[str, ...]] = (
        head,
        formula(16, 10, 1800.0),
        formula(32, 10, 1800.0),
        formula(32, 20, 5400.0),
        formula(32, 40, 7200.0),
        formula(64, 40, 14400.0),
    )
    for row in rows:
        print("  ".join(cell.rjust(11) for cell in row), flush=True)


def rig() -> None:
    """Print recovery times of the kernel on imaginary nodes beside those of the rig."""
    racks = imaginary_fleet(3, 5)
    policy = Policy(spares_from=1)
    task = policy.task(Job(name="job", arrives_s=0.0, gpus=12, work_s=1.0), 4)
    for kind, measured in RIG.items():
        times = []
        for at in range(3):
            run = KernelRun(task, place(task, racks, {}), racks)  # type: ignore[arg-type]
            run.advance(1000.0)
            node = run.placement.slices[0].nodes[at]
            run.strike([Fault(at=run.now, node=node, fault=kind)])
            times.append(run.settle(dict).took_s)
        print(f"{kind.value}: simulated {fmean(times):.1f} s, rig {measured} s, {fmean(times) / measured - 1:+.0%}")


PARTS = {
    "rig": rig,
    "small": lambda: fleet("small", 9, 30, "seren", 256),
    "formula": formulas,
    "large": lambda: fleet("large", 556, 7, "kalos", 1024),
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
