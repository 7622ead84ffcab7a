"""The state of a simulation: virtual time, events to come, the runs that have nodes, and the account of node time."""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement
from launcher.core.model.simulation import Fault
from launcher.core.model.task import Task
from launcher.simulate.fleet_state import FleetState, NodeStatus, Trouble
from launcher.simulate.kernel_run import KernelRun
from launcher.simulate.measures import Account, Incidents, Spent, progress, time_to_finish
from launcher.simulate.policy import Policy
from launcher.simulate.workload import Job


class JobPhase(Enum):
    """What a run does: the cause that the time of its nodes counts as."""

    STARTING = Spent.START
    COMPUTING = Spent.PRODUCTIVE
    UNDETECTED = Spent.UNDETECTED
    RECOVERING = Spent.RESTART
    WAITING = Spent.WAITING
    STOPPING = Spent.CHECKPOINT


@dataclass(slots=True, kw_only=True, eq=False)
class ActiveJob:
    """A job that has nodes.

    `left_s` is the work that is left at the last checkpoint. `computes_s` is since when it computes, `tallied_s` up to
    when the time of its other nodes is accounted. `plan` numbers what is planned for it: an event of an older plan is
    void. `faults` befall its nodes and are not known to the kernel yet; their times are those of the simulation.
    `origin_s` is when the clock of its kernel began.
    """

    job: Job
    task: Task
    placement: Placement
    started_s: float
    left_s: float
    held: frozenset[NodeName]
    working: frozenset[NodeName]
    phase: JobPhase = JobPhase.STARTING
    computes_s: float = 0.0
    tallied_s: float = 0.0
    plan: int = 0
    kernel: KernelRun | None = None
    origin_s: float = 0.0
    faults: list[Fault] = field(default_factory=list)
    struck: bool = False
    detection_s: float = 0.0
    settled_s: float = 0.0
    retry: bool = False
    limit_s: float | None = None

    @property
    def name(self) -> str:
        """Return the name of the run."""
        return self.task.name


class World:
    """A fleet in virtual time. All times are seconds since the start of the simulation."""

    def __init__(self, inventory: Inventory, policy: Policy) -> None:
        self.policy = policy
        self.fleet = FleetState(inventory)
        self.account, self.incidents = Account(), Incidents()
        self.active: dict[str, ActiveJob] = {}
        self.on_hold: dict[str, ActiveJob] = {}
        self.now = 0.0
        self.crowded = False
        self.changed = False
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def at(self, when: float, what: Callable[[], None]) -> None:
        """Let something happen at a time."""
        self._number += 1
        heapq.heappush(self._events, (when, self._number, what))

    def later(self, run: ActiveJob, when: float, what: Callable[[ActiveJob], None]) -> None:
        """Let something happen to a run, unless something else is planned for it before then."""
        run.plan += 1
        plan = run.plan
        self.at(when, lambda: what(run) if run.plan == plan and self.active.get(run.name) is run else None)

    def next_at(self) -> float:
        """Return the time of the next event; infinity for none."""
        return self._events[0][0] if self._events else float("inf")

    def step(self) -> None:
        """Let the next event happen."""
        when, _, what = heapq.heappop(self._events)
        self.pass_time(when)
        what()

    def pass_time(self, until: float) -> None:
        """Move the time on, and account for the nodes that no run has."""
        passed, counts, account = until - self.now, self.fleet.counts, self.account
        if passed > 0:
            account.add(Spent.DOWN, counts[NodeStatus.DOWN], passed)
            account.add(Spent.MAINTENANCE, counts[NodeStatus.MAINTENANCE], passed)
            account.add(Spent.FRAGMENTED if self.crowded else Spent.IDLE, counts[NodeStatus.FREE], passed)
            self.now = until

    def launch(self, job: Job, task: Task, placement: Placement, left_s: float) -> ActiveJob:
        """Give a job its nodes, and return it."""
        names = placement.nodes
        working = frozenset(name for part in placement.slices for name in part.nodes)
        run = ActiveJob(
            job=job,
            task=task,
            placement=placement,
            started_s=self.now,
            left_s=left_s,
            held=frozenset(names),
            working=working,
            tallied_s=self.now,
            limit_s=None if task.time_limit is None else self.now + task.time_limit,
        )
        self.active[run.name] = run
        self.fleet.take(names, run.name)
        return run

    def tally(self, run: ActiveJob) -> None:
        """Account for the nodes of a run up to now, but for those that compute: their time is known when they stop."""
        passed, run.tallied_s = self.now - run.tallied_s, self.now
        if passed <= 0:
            return
        up = sum(self.fleet.status(name) is NodeStatus.HELD for name in run.held)
        if run.phase is JobPhase.COMPUTING:
            self.account.add(Spent.SPARE, up - len(run.working), passed)
        else:
            self.account.add(run.phase.value, up, passed)

    def enter(self, run: ActiveJob, phase: JobPhase) -> None:
        """Let a run begin a phase."""
        self.tally(run)
        run.phase = phase
        if phase is JobPhase.WAITING:
            self.on_hold[run.name] = run
        else:
            self.on_hold.pop(run.name, None)

    def compute(self, run: ActiveJob, finish: Callable[[ActiveJob], None]) -> None:
        """Let the program of a run compute, up to its end."""
        self.enter(run, JobPhase.COMPUTING)
        run.computes_s = self.now
        policy = self.policy
        self.later(run, self.now + time_to_finish(run.left_s, policy.checkpoint_s, policy.write_s), finish)

    def stop_computing(self, run: ActiveJob, *, graceful: bool) -> None:
        """Account for what a program has done since it began to compute."""
        if run.phase is not JobPhase.COMPUTING:
            return
        self.tally(run)
        policy, nodes = self.policy, len(run.working)
        done = progress(self.now - run.computes_s, policy.checkpoint_s, policy.write_s, graceful=graceful)
        self.account.add(Spent.PRODUCTIVE, nodes, done.kept_s)
        self.account.add(Spent.CHECKPOINT, nodes, done.write_s)
        self.account.add(Spent.LOST, nodes, done.rest_s)
        run.left_s, run.computes_s = max(0.0, run.left_s - done.kept_s), self.now

    def end(self, run: ActiveJob) -> None:
        """Take all nodes from a run."""
        self.tally(run)
        del self.active[run.name]
        self.on_hold.pop(run.name, None)
        self.fleet.release(run.held)
        self.changed = True

    def hold(self, run: ActiveJob, held: frozenset[NodeName], working: frozenset[NodeName]) -> None:
        """Change the nodes of a run."""
        self.tally(run)
        self.fleet.release(run.held - held)
        self.fleet.take(held - run.held, run.name)
        self.changed = self.changed or bool(run.held - held)
        run.held, run.working = held, working

    def trouble(self, names: Iterable[NodeName], kind: Trouble, *, over: bool) -> None:
        """Let a trouble of nodes begin, or end."""
        names = tuple(names)
        for name in {self.fleet.users[name] for name in names if name in self.fleet.users}:
            self.tally(self.active[name])
        if over:
            self.fleet.end(kind, names)
            self.changed = True
        else:
            self.fleet.begin(kind, names)

    def restart_account(self) -> None:
        """Forget what was counted so far: from now on the fleet is measured."""
        self.close_account()
        self.account, self.incidents = Account(), Incidents()

    def close_account(self) -> None:
        """Account for everything up to now; what programs have computed counts as kept."""
        for run in self.active.values():
            self.stop_computing(run, graceful=True)
            self.tally(run)
