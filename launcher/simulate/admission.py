"""Arrivals and the queue: which jobs start where, and which are preempted, as `core/queue` and `core/placement` say."""

from bisect import insort
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement
from launcher.core.model.run import RunId, RunName
from launcher.core.model.task import Task
from launcher.core.placement.place import place
from launcher.core.queue.backfill import QueuedRun, decisions, remaining
from launcher.core.queue.preemption import ActiveRun
from launcher.simulate.kernel_run import KernelRun
from launcher.simulate.policy import QueueOrder
from launcher.simulate.recovery import FaultHandling
from launcher.simulate.workload import Job
from launcher.simulate.world import ActiveJob, JobPhase, World

RELEASE_S = 10.0
"""How long a preempted run keeps its nodes after its last checkpoint (s)."""


BACKFILL_S = 600.0
"""How often runs behind a waiting one are looked at because nodes came, at most (s). The launcher does so at once."""

PASS_S = 300.0
PASS_NODE_S = 0.06
"""How often they are looked at because a run came that does not have to wait like one before it, at most (s): in all,
and for each node of the fleet, since the work grows with it."""

MAX_LOOKED = 30
"""How many runs of the queue are looked at; the launcher looks at `backfill.MAX_SCHEDULED`."""

_Shape = tuple[int, int, int]


class Admission:
    """The queue of a simulation. A job that is stopped or given up comes back with the work that it has left."""

    def __init__(self, world: World, gpus_per_node: int) -> None:
        self._world, self._gpus = world, gpus_per_node
        self._queue: list[QueuedRun] = []
        self._jobs: dict[str, Job] = {}
        self._left: dict[str, float] = {}
        self._starts: dict[_Shape, float] = {}
        self._denied: dict[_Shape, float] = {}
        self._next_backfill = self._next_pass = 0.0
        self._backfill_planned = self._came = False
        self.recovery = FaultHandling(world, self._finish, self._give_up)
        self.waits: dict[int, list[float]] = defaultdict(list)
        self.measured_from = 0.0

    @property
    def waiting(self) -> Sequence[QueuedRun]:
        """Return the queue, in its order."""
        return self._queue

    def gpus_of(self, run: QueuedRun) -> int:
        """Return the GPUs of a queued job."""
        return self._jobs[run.name].gpus

    def arrive(self, job: Job) -> None:
        """Queue a new job."""
        self._jobs[job.name] = job
        self._enqueue(job, self._world.policy.task(job, self._gpus))

    def turn(self) -> None:
        """Start what the queue lets start now, and preempt what it says."""
        world = self._world
        while self._queue and (placement := world.fleet.place(self._queue[0].task)) is not None:
            self._start(self._queue[0], placement)
        if self._queue and world.policy.queue is QueueOrder.BACKFILL:
            self._backfill()
        world.crowded = bool(self._queue)

    def nodes_came(self) -> None:
        """Note that nodes have come since the last turn: what was denied may start."""
        self._came = True

    def _backfill(self) -> None:
        """Let `core/queue` decide about the runs in the queue, as far as one may start."""
        world, first = self._world, self._queue[:MAX_LOOKED]
        if self._came and world.now >= self._next_backfill:
            self._came, self._next_backfill = False, world.now + BACKFILL_S
            self._denied.clear()
        elif self._came and not self._backfill_planned:
            self._backfill_planned = True
            world.at(self._next_backfill, self._again)
        if world.now < self._next_pass or not any(map(self._may_start, first)):
            return
        self._next_pass = world.now + max(PASS_S, PASS_NODE_S * world.fleet.size)
        active = [self._active(run) for run in world.active.values()]
        fleet, unavailable = world.fleet.inventory, dict(world.fleet.unavailable)
        for at, decision in enumerate(decisions(first, fleet, unavailable, active, explained=False)):
            if decision.placement is not None:
                self._start(decision.run, decision.placement)
            else:
                shape, length = _shape(decision.run.task), decision.run.max_duration
                self._denied[shape] = min(length, self._denied.get(shape, length))
            for name in decision.victims:
                self._preempt(world.active[name])
            if not any(map(self._may_start, first[at + 1 :])):
                return

    def _again(self) -> None:
        self._backfill_planned, self._world.changed = False, True

    def _may_start(self, run: QueuedRun) -> bool:
        """Whether a run behind others may start now.

        It may not without room, nor where a run of its shape that would not stay longer had to wait for earlier ones
        since nodes last came.
        """
        if run.task.priority and self._world.policy.preempt_from_gpus is not None:
            return True
        denied = self._denied.get(_shape(run.task))
        return (denied is None or run.max_duration < denied) and self._world.fleet.room(run.task.groups[0].topology)

    def _active(self, run: ActiveJob) -> ActiveRun:
        return ActiveRun(
            name=RunName(run.name),
            priority=run.task.priority,
            preemptible=run.task.preemptible,
            since=run.started_s,
            remaining=remaining(run.task, run.limit_s, self._world.now),
            stopping=run.phase is JobPhase.STOPPING,
        )

    def _enqueue(self, job: Job, task: Task) -> None:
        queued = QueuedRun(id=RunId(job.name), name=RunName(job.name), task=task, since=self._world.now)
        insort(self._queue, queued, key=lambda run: run.order)

    def _start(self, queued: QueuedRun, placement: Placement) -> None:
        world, job = self._world, self._jobs.pop(queued.name)
        self._queue.remove(queued)
        left = self._left.pop(queued.name, None)
        if left is None and job.arrives_s >= self.measured_from:
            self.waits[job.gpus].append(world.now - job.arrives_s)
        run = world.launch(job, queued.task, placement, job.work_s if left is None else left)
        self.recovery.starts(run, self.ranks_start_s(queued.task))

    def ranks_start_s(self, task: Task) -> float:
        """Return how long the ranks of a task take to start (s), as one run of this shape took under the kernel."""
        shape = _shape(task)
        if shape not in self._starts:
            self._starts[shape] = _measured_start(task)
        return self._starts[shape]

    def _finish(self, run: ActiveJob) -> None:
        self._world.stop_computing(run, graceful=True)
        self._world.end(run)

    def _preempt(self, run: ActiveJob) -> None:
        world = self._world
        world.stop_computing(run, graceful=True)
        world.enter(run, JobPhase.STOPPING)
        world.incidents.preempted += 1
        world.later(run, world.now + world.policy.write_s + RELEASE_S, self._stopped)

    def _stopped(self, run: ActiveJob) -> None:
        self._world.end(run)
        self._give_up(run)

    def _give_up(self, run: ActiveJob) -> None:
        """Queue a run again that has no nodes any more."""
        self._jobs[run.name], self._left[run.name] = run.job, run.left_s
        self._enqueue(run.job, replace(run.task))


def _shape(task: Task) -> _Shape:
    rule = task.groups[0].topology
    return rule.slices, rule.nodes_per_slice, rule.spares


def _measured_start(task: Task) -> float:
    rule = task.groups[0].topology
    size = rule.nodes_per_slice + rule.spares
    nodes = tuple(
        Node(name=NodeName(f"r{rack}-n{at}"), rack=RackName(f"r{rack}"), domain=f"r{rack}", access=Access(address=""))
        for rack in range(rule.slices)
        for at in range(size)
    )
    gpus = replace(task, groups=(replace(task.groups[0], gpus=0),))
    fleet = Inventory(name="shape", transport=Transport.SIM, nodes=nodes)
    placement = place(gpus, fleet, {})
    assert isinstance(placement, Placement)
    return KernelRun(gpus, placement, fleet).start_s
