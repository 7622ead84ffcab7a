"""One simulation: a fleet, its jobs and outages, and a policy, over some days of virtual time."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from launcher.core.model.inventory import Inventory
from launcher.core.planner.faults import DAY_S, Outage
from launcher.simulate.admission import Admission
from launcher.simulate.defragmentation import Defragmenter
from launcher.simulate.fleet_state import NodeStatus
from launcher.simulate.measures import Incidents, Sample, Spent, WaitLine, wait_lines
from launcher.simulate.policy import Policy
from launcher.simulate.workload import Job
from launcher.simulate.world import World

SAMPLES = 240
"""How many samples of the fleet are taken over the time that is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What befalls a fleet: its jobs and outages. All of it begins `warm_s` before the time that is measured (s)."""

    inventory: Inventory
    jobs: Sequence[Job]
    outages: Sequence[Outage]
    days: float
    warm_s: float

    @property
    def end_s(self) -> float:
        """Return the end (s)."""
        return self.warm_s + self.days * DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a simulation measured: the share of the fleet's time by cause, waits by size, incidents, samples."""

    shares: dict[Spent, float]
    waits: tuple[WaitLine, ...]
    incidents: Incidents
    samples: tuple[Sample, ...]
    jobs: int


def simulate(scenario: Scenario, policy: Policy) -> Measured:
    """Return what a policy makes of a scenario. Equal inputs give equal outcomes."""
    run = _Simulation(scenario, policy)
    run.play()
    return run.outcome()


class _Simulation:
    def __init__(self, scenario: Scenario, policy: Policy) -> None:
        self._scenario = scenario
        self._world = World(scenario.inventory, policy)
        gpus = max(node.gpus for node in scenario.inventory.nodes)
        self._admission = Admission(self._world, gpus)
        self._admission.measured_from = scenario.warm_s
        self._admission.recovery.plan(scenario.outages)
        self._moves = Defragmenter(self._world, self._admission)
        self._samples: list[Sample] = []
        self._sizes = _slice_sizes(scenario.jobs, policy, gpus)
        self._world.at(scenario.warm_s, self._measure)

    def play(self) -> None:
        """Let everything happen up to the end."""
        world, admission, end = self._world, self._admission, self._scenario.end_s
        jobs = iter(self._scenario.jobs)
        coming = next(jobs, None)
        while True:
            when = world.next_at()
            if coming is not None and coming.arrives_s <= min(when, end):
                world.pass_time(coming.arrives_s)
                admission.arrive(coming)
                coming = next(jobs, None)
                admission.turn()
                self._moves.turn()
            elif when <= end:
                world.step()
            else:
                break
            if world.changed:
                world.changed = False
                admission.nodes_came()
                admission.recovery.nodes_came()
                admission.turn()
                self._moves.turn()
        world.pass_time(end)
        world.close_account()

    def _measure(self) -> None:
        """Begin to measure."""
        self._world.restart_account()
        for at in range(1, SAMPLES + 1):
            self._world.at(self._scenario.warm_s + at * self._scenario.days * DAY_S / (SAMPLES + 1), self._sample)

    def _sample(self) -> None:
        fleet = self._world.fleet
        self._samples.append(
            Sample(
                at_s=self._world.now - self._scenario.warm_s,
                used=fleet.counts[NodeStatus.HELD] / fleet.size,
                whole_racks=fleet.whole_racks,
                fragments=fleet.fragments(self._sizes) / fleet.size,
                waiting=len(self._admission.waiting),
            )
        )

    def outcome(self) -> Measured:
        """Return what was measured."""
        waiting = Counter(self._admission.gpus_of(run) for run in self._admission.waiting)
        return Measured(
            shares=self._world.account.shares(self._world.fleet.size * self._scenario.days * DAY_S),
            waits=wait_lines(self._admission.waits, waiting),
            incidents=self._world.incidents,
            samples=tuple(self._samples),
            jobs=sum(job.arrives_s >= self._scenario.warm_s for job in self._scenario.jobs),
        )


def _slice_sizes(jobs: Sequence[Job], policy: Policy, gpus: int) -> dict[int, float]:
    """Return the share of jobs by the nodes of a slice, spares included."""
    sizes: Counter[int] = Counter()
    for job_gpus, number in Counter(job.gpus for job in jobs).items():
        rule = policy.rule(-(-job_gpus // gpus))
        sizes[rule.nodes_per_slice + rule.spares] += number
    return {size: number / len(jobs) for size, number in sorted(sizes.items())}
