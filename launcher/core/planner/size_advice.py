"""Advice on the size of slices for a job: all choices, the best of those large enough, and the task's own."""

from collections.abc import Sequence
from dataclasses import dataclass

from launcher.core.model.inventory import NODE_LEVEL, RACK_LEVEL
from launcher.core.model.task import Group, Task
from launcher.core.model.text import count
from launcher.core.planner.faults import FaultModel
from launcher.core.planner.sizing import BestSize, FleetShape, JobShape, SizeLine, best_size, size_table, slice_sizes

LEAST_GPUS = 32
"""The smallest slice that is advised by default: the smallest unit that DeepSeek-V3 is served on (arXiv 2412.19437).

Without a limit slices of one node are always the best: they leave no node of a rack over.
"""

SPARES = (0, 1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSize:
    """The slices that a task asks for: nodes and spares of each, and the group that they are of."""

    group: str
    slice_nodes: int
    spares: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeAdvice:
    """All choices for a job, the best with slices of at least `least_nodes`, and the task's own line."""

    job: JobShape
    fleet: FleetShape
    least_nodes: int
    lines: tuple[SizeLine, ...]
    best: BestSize | None
    own: SizeLine | None

    @property
    def reason(self) -> str:
        """Return why the best line is best, or why none is, in one sentence."""
        if self.best is not None:
            return self.best.reason
        rooms = [round(line.room) * line.slice_nodes for line in self.lines if line.slice_nodes >= self.least_nodes]
        if not rooms:
            largest = count(max(line.slice_nodes for line in self.lines), "node")
            return f"No slice has {count(self.least_nodes, 'node')}: the largest that divides the job has {largest}."
        needs = f"the job needs {count(self.job.nodes, 'node')}"
        room = f"{max(rooms)} in slices of at least {self.least_nodes}"
        return f"No choice fits: {needs}, and the fleet is expected to have room for {room}."


def main_group(task: Task) -> Group:
    """Return the group of a task with the most GPUs of its own; the first of several."""
    own = [group for group in task.groups if group.topology.nodes_of is None]
    return max(own, key=lambda group: group.topology.nodes * group.gpus)


def own_size(task: Task) -> OwnSize | None:
    """Return the slices of the main group; None where they may span racks."""
    group = main_group(task)
    rule = group.topology
    if rule.within not in (RACK_LEVEL, NODE_LEVEL):
        return None
    return OwnSize(group=group.name, slice_nodes=rule.nodes_per_slice, spares=rule.spares)


def advise(
    job: JobShape,
    fleet: FleetShape,
    model: FaultModel,
    *,
    least_gpus: int | None = None,
    own: OwnSize | None = None,
) -> SizeAdvice:
    """Return the choices for a job on a fleet.

    Without `least_gpus` the best has slices of at least `LEAST_GPUS`, or of the task's own size, or of the largest size
    that the job allows, whichever is smallest.
    """
    sizes = slice_sizes(job, fleet)
    spares = sorted({*SPARES, own.spares}) if own else SPARES
    lines = size_table(job, fleet, model, sizes=sizes, spares=spares)
    least = _least_nodes(sizes, fleet, least_gpus, own)
    return SizeAdvice(
        job=job,
        fleet=fleet,
        least_nodes=least,
        lines=lines,
        best=best_size(lines, least),
        own=next((line for line in lines if own and _same(line, own)), None),
    )


def _least_nodes(sizes: Sequence[int], fleet: FleetShape, least_gpus: int | None, own: OwnSize | None) -> int:
    wanted = -(-(least_gpus or LEAST_GPUS) // fleet.gpus_per_node)
    if least_gpus is not None:
        return wanted
    return min(wanted, max(sizes), own.slice_nodes if own else wanted)


def _same(line: SizeLine, own: OwnSize) -> bool:
    return (line.slice_nodes, line.spares) == (own.slice_nodes, own.spares)
