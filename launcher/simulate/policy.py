"""Policies of a simulation: how jobs are shaped, queued and recovered."""

from dataclasses import dataclass
from enum import Enum

from launcher.core.model.task import Group, OnNoSpare, RecoveryPolicy, Task, TopologyRule
from launcher.simulate.measures import time_to_finish
from launcher.simulate.workload import Job

NO_LIMIT = 1_000_000
"""Restarts after faults of the program that a simulated run may have: its program has no faults of its own."""


class QueueOrder(Enum):
    """What starts while an earlier run waits: what does not delay it, or nothing."""

    BACKFILL = "backfill"
    FIFO = "fifo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a fleet is run. Times are in seconds.

    Slices have at most `slice_nodes` nodes. Jobs of at least `spares_from` nodes have `spares` spares a slice.
    `time_limit_factor` is the time limit that a job states, as a multiple of its duration; None for no time limits.
    With `preempt_from_gpus`, jobs of so many GPUs may preempt smaller ones. `defragment_gpu_hours` is the budget of
    moves a day; 0 for none. A program computes `program_start_s` after its ranks have started, writes a checkpoint
    that blocks it for `write_s` every `checkpoint_s`, and has `stop_grace_s` to write one when it is told to stop.
    `drain_notice_s` is how long before planned maintenance a rack is drained, `operator_s` how long an operator needs
    to confirm that machines without power are off.
    """

    name: str = "default"
    slice_nodes: int = 16
    spares: int = 1
    spares_from: int = 16
    on_no_spare: OnNoSpare = OnNoSpare.WAIT
    queue: QueueOrder = QueueOrder.BACKFILL
    time_limit_factor: float | None = 2.0
    preempt_from_gpus: int | None = None
    defragment_gpu_hours: float = 0.0
    checkpoint_s: float = 1800.0
    write_s: float = 10.0
    program_start_s: float = 120.0
    stop_grace_s: float = 30.0
    drain_notice_s: float = 4 * 3600.0
    operator_s: float = 600.0

    def rule(self, nodes: int) -> TopologyRule:
        """Return the slices of a job of so many nodes: as few as possible, and equal."""
        slices = -(-nodes // self.slice_nodes)
        spares = self.spares if nodes >= self.spares_from else 0
        return TopologyRule(slices=slices, nodes_per_slice=-(-nodes // slices), spares=spares)

    def task(self, job: Job, gpus_per_node: int) -> Task:
        """Return the task of a job."""
        group = Group(
            name="main",
            topology=self.rule(-(-job.gpus // gpus_per_node)),
            gpus=gpus_per_node,
            run="true",
            recovery=RecoveryPolicy(on_no_spare=self.on_no_spare, max_restarts=NO_LIMIT),
        )
        large = self.preempt_from_gpus is not None and job.gpus >= self.preempt_from_gpus
        limit = None if self.time_limit_factor is None else self.time_limit_factor * self.span(job.work_s)
        return Task(
            name=job.name,
            groups=(group,),
            stop_grace=self.stop_grace_s,
            time_limit=limit,
            priority=1 if large else 0,
            preemptible=self.preempt_from_gpus is not None and not large,
        )

    def span(self, work_s: float) -> float:
        """Return how long a job takes without faults, from the start of its program to its end."""
        return self.program_start_s + time_to_finish(work_s, self.checkpoint_s, self.write_s)
