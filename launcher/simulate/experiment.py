"""Simulations of one fleet under several policies and seeds, and what they say together."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean, stdev

from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.planner.faults import DAY_S, FaultModel, draw_outages
from launcher.errors import refuse
from launcher.simulate.fleet_state import FleetState
from launcher.simulate.measures import Spent
from launcher.simulate.policy import Policy
from launcher.simulate.simulation import Measured, Scenario, simulate
from launcher.simulate.workload import Job, Mix, draw_jobs, repeated

MAX_DAYS = 400.0
MAX_NODES = 20_000
MAX_SEEDS = 100

WARM_SHARE, WARM_DAYS = 0.2, 2.0
"""The fleet fills up before it is measured: for a fifth of the time, at most two days."""

_STUDENT_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11)
"""Quantiles of Student's t for a two-sided 95 % interval, by degrees of freedom from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A fleet, what it is asked to do, how it breaks, and for how many days and seeds it is played.

    The jobs come from `mix` at `load`, or are `jobs`: those of a file as they are, or given ones repeated up to `load`.
    `left_out` are sizes of the mix that have no room (GPUs).
    """

    inventory: Inventory
    model: FaultModel
    days: float
    seeds: int = 1
    load: float = 0.9
    mix: Mix | None = None
    jobs: tuple[Job, ...] = ()
    repeat: bool = False
    left_out: tuple[int, ...] = ()

    def check(self) -> None:
        """Raise SpecError for a simulation that is too large, or has nothing to do."""
        nodes = sum(node.drained is None for node in self.inventory.nodes)
        if not 0 < nodes <= MAX_NODES:
            refuse(f"the fleet has {nodes:,} nodes", hint=f"simulate 1 to {MAX_NODES:,} nodes that are not drained")
        if not 0 < self.days <= MAX_DAYS:
            refuse(f"{self.days:g} days cannot be simulated", hint=f"use more than 0 and up to {MAX_DAYS:g} days")
        if not 0 < self.seeds <= MAX_SEEDS:
            refuse(f"{self.seeds} seeds cannot be simulated", hint=f"use 1 to {MAX_SEEDS} seeds")
        if not 0 < self.load <= 2:
            refuse(f"a load of {self.load:g} cannot be simulated", hint="use a share such as 0.9, up to 2")

    @property
    def gpus(self) -> int:
        """Return the GPUs of the fleet."""
        return sum(node.gpus for node in self.inventory.nodes if node.drained is None)

    def fits(self, gpus: int, policies: Sequence[Policy]) -> bool:
        """Whether a job of so many GPUs has room in the empty fleet, under every policy."""
        fleet = FleetState(self.inventory)
        each = max(node.gpus for node in fleet.inventory.nodes)
        return each > 0 and all(fleet.room(policy.rule(-(-gpus // each))) for policy in policies)

    def scenario(self, seed: int) -> Scenario:
        """Return what befalls the fleet with a seed, the same for every policy.

        Jobs and faults have a source of numbers each, so that other jobs do not change the faults.
        """
        warm = min(WARM_DAYS, WARM_SHARE * self.days)
        days = self.days + warm
        jobs, faults = (Random(f"{seed} {what}").random for what in ("jobs", "faults"))  # noqa: S311 - no secrets
        return Scenario(
            inventory=self.inventory,
            jobs=self._jobs(days, warm * DAY_S, jobs),
            outages=draw_outages(self.inventory, self.model, days, faults),
            days=self.days,
            warm_s=warm * DAY_S,
        )

    def _jobs(self, days: float, warm_s: float, uniform: Callable[[], float]) -> Sequence[Job]:
        if self.mix is not None:
            return draw_jobs(self.mix, self.gpus, self.load, days, uniform)
        if self.repeat:
            return repeated(self.jobs, self.gpus, self.load, days, uniform)
        return tuple(job.later(warm_s) for job in self.jobs if job.arrives_s < self.days * DAY_S)


def imaginary_fleet(racks: int, nodes: int) -> Inventory:
    """Return a fleet of equal racks, each one NVLink domain of nodes with 4 GPUs."""
    wide, deep = len(str(racks)), len(str(nodes))
    names = [(f"r{rack:0{wide}}", node) for rack in range(1, racks + 1) for node in range(1, nodes + 1)]
    found = tuple(
        Node(
            name=NodeName(f"{rack}-n{node:0{deep}}"),
            rack=RackName(rack),
            domain=rack,
            access=Access(address=f"{rack}-n{node:0{deep}}"),
        )
        for rack, node in names
    )
    return Inventory(name="imaginary", transport=Transport.SIM, nodes=found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The mean of a measure over seeds, and half of its 95 % confidence interval; None for a single seed."""

    mean: float
    margin: float | None


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of values and its 95 % confidence interval by Student's t."""
    if len(values) < 2:
        return Estimate(mean=values[0], margin=None)
    freedom = len(values) - 1
    factor = _STUDENT_95[freedom - 1] if freedom <= len(_STUDENT_95) else 1.96 + 2.5 / freedom
    return Estimate(mean=fmean(values), margin=factor * stdev(values) / math.sqrt(len(values)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResult:
    """What a policy came to, an outcome a seed."""

    policy: Policy
    outcomes: tuple[Measured, ...]

    def of(self, measure: Callable[[Measured], float]) -> Estimate:
        """Return the estimate of a measure."""
        return estimate([measure(outcome) for outcome in self.outcomes])

    @property
    def shares(self) -> Mapping[Spent, Estimate]:
        """Return the share of the fleet's time by cause."""
        return {cause: estimate([outcome.shares[cause] for outcome in self.outcomes]) for cause in Spent}

    def against(self, other: "PolicyResult") -> Estimate:
        """Return by how much the productive share exceeds that of another policy, seed by seed."""
        pairs = zip(self.outcomes, other.outcomes, strict=True)
        return estimate([mine.shares[Spent.PRODUCTIVE] - theirs.shares[Spent.PRODUCTIVE] for mine, theirs in pairs])


def play(
    experiment: Experiment, policies: Sequence[Policy], told: Callable[[Policy, int], None] = lambda *_: None
) -> tuple[PolicyResult, ...]:
    """Return what each policy comes to; `told` is called before each simulation, with its seed."""
    experiment.check()
    outcomes: list[list[Measured]] = [[] for _ in policies]
    for seed in range(1, experiment.seeds + 1):
        scenario = experiment.scenario(seed)
        for own, policy in zip(outcomes, policies, strict=True):
            told(policy, seed)
            own.append(simulate(scenario, policy))
    return tuple(PolicyResult(policy=one, outcomes=tuple(own)) for one, own in zip(policies, outcomes, strict=True))
