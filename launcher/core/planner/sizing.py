"""How large slices should be and how many spares they need: what each choice gives a fleet and a job.

Nodes are down independently of each other, each with the same probability; a segment is a slice with its spares, whole
in one rack.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from launcher.core.model.text import count
from launcher.core.planner.faults import FaultModel, interruptions_per_day, share_down
from launcher.core.planner.goodput import JobCycle, best_interval, goodput, restarts_per_week

ALIKE = 0.005
"""Choices whose shares differ by less than half a point count as equal; then the larger slice is better."""

IN_PLACE_S = 30.0
REQUEUE_S = 300.0
"""Time until a job computes again: with a spare in the rack, and through the queue (u0 of arXiv 2410.21680)."""


def up_nodes(nodes: int, down: float) -> tuple[float, ...]:
    """Return the probabilities that 0, 1, 2... of so many nodes are up, each down with probability `down`."""
    return tuple(math.comb(nodes, up) * (1 - down) ** up * down ** (nodes - up) for up in range(nodes + 1))


def holds(segment: int, rack: int, down: float) -> float:
    """Return the probability that a rack of so many nodes has a segment of nodes that are up."""
    return sum(up_nodes(rack, down)[segment:])


def usable_share(segment: int, rack: int, down: float) -> float:
    """Return the expected share of a rack's nodes that whole segments can use."""
    return sum(chance * (up - up % segment) for up, chance in enumerate(up_nodes(rack, down))) / rack


def spares_needed(machines: int, down: float, confidence: float = 0.99) -> int:
    """Return the spares that cover the machines down at once with this probability.

    Source: ByteRobust, arXiv 2509.16293 (99th percentile of a binomial; 0.12 % a machine and recovery window).
    """
    covered, spares = (1 - down) ** machines, 0
    while covered < confidence and spares < machines:
        spares += 1
        covered += math.comb(machines, spares) * down**spares * (1 - down) ** (machines - spares)
    return spares


def covered(slice_nodes: int, spares: int, down: float) -> float:
    """Return the probability that a node of a running slice that fails has a spare: of the other nodes of its segment
    fewer than `spares` are down, given that no more than `spares` are; 0 where that hardly ever happens."""
    others = slice_nodes + spares - 1
    down_nodes = tuple(reversed(up_nodes(others, down)))
    running = sum(down_nodes[: spares + 1])
    return sum(down_nodes[:spares]) / running if running else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetShape:
    """The size of a fleet of equal racks."""

    racks: int
    nodes_per_rack: int = 18
    gpus_per_node: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class JobShape:
    """A job to find a size for: its nodes, and the time of a blocking checkpoint write (s).

    `in_place_s` and `requeue_s` are how long after a fault it computes again, with a spare in the rack and without.
    """

    nodes: int
    write_s: float = 10.0
    in_place_s: float = IN_PLACE_S
    requeue_s: float = REQUEUE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeLine:
    """What slices of one size with so many spares each give.

    `usable` is the share of the fleet's nodes that can compute in such slices, `holds` the probability that a rack has
    room for one, `room` how many the fleet is expected to have room for. `interval_s` is the best checkpoint
    interval.
    """

    slice_nodes: int
    spares: int
    slices: int
    usable: float
    holds: float
    room: float
    restarts_per_week: float
    goodput_in_place: float
    goodput_requeue: float
    spare_gpus: int
    interval_s: float

    @property
    def progress(self) -> float:
        """Return the share of the fleet's GPU time that becomes progress of jobs of this form."""
        return self.usable * self.goodput_in_place

    @property
    def fits(self) -> bool:
        """Whether the fleet is expected to have room for the whole job, to the nearest slice."""
        return self.slices <= self.room + 0.5

    @property
    def name(self) -> str:
        """Return the choice as people say it: `16 nodes + 1 spare`."""
        nodes = count(self.slice_nodes, "node")
        return f"{nodes} + {count(self.spares, 'spare')}" if self.spares else nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class BestSize:
    """The best choice of a table, and why in one sentence."""

    line: SizeLine
    reason: str


def slice_sizes(job: JobShape, fleet: FleetShape) -> tuple[int, ...]:
    """Return the sizes of slices that divide a job and fit a rack."""
    return tuple(size for size in range(1, min(job.nodes, fleet.nodes_per_rack) + 1) if job.nodes % size == 0)


def size_table(
    job: JobShape,
    fleet: FleetShape,
    model: FaultModel,
    *,
    sizes: Sequence[int] = (),
    spares: Sequence[int] = (0, 1, 2),
    down: float | None = None,
) -> tuple[SizeLine, ...]:
    """Return a line for each size of slice and number of spares that a rack holds, small slices first.

    Without `sizes` those that divide the job are taken; with another size the job gets a last slice that is whole.
    `down` is the share of nodes that are down, by default what faults and repairs of the model come to.
    """
    share = share_down(model, fleet.gpus_per_node) if down is None else down
    pairs = [(size, extra) for size in sizes or slice_sizes(job, fleet) for extra in spares]
    return tuple(
        _line(job, fleet, model, size, extra, share) for size, extra in pairs if size + extra <= fleet.nodes_per_rack
    )


def _line(job: JobShape, fleet: FleetShape, model: FaultModel, size: int, spares: int, down: float) -> SizeLine:
    slices, segment = -(-job.nodes // size), size + spares
    usable = usable_share(segment, fleet.nodes_per_rack, down) * size / segment
    faults = _interruptions(fleet, model, slices, size, fleet.nodes_per_rack // segment)
    interval = best_interval(faults, job.write_s)
    spared = covered(size, spares, down)
    restart = spared * job.in_place_s + (1 - spared) * job.requeue_s
    return SizeLine(
        slice_nodes=size,
        spares=spares,
        slices=slices,
        usable=usable,
        holds=holds(segment, fleet.nodes_per_rack, down),
        room=usable * fleet.racks * fleet.nodes_per_rack / size,
        restarts_per_week=restarts_per_week(faults, restart),
        goodput_in_place=goodput(_cycle(faults, restart, interval, job.write_s)),
        goodput_requeue=goodput(_cycle(faults, job.requeue_s, interval, job.write_s)),
        spare_gpus=slices * spares * fleet.gpus_per_node,
        interval_s=interval,
    )


def _interruptions(fleet: FleetShape, model: FaultModel, slices: int, size: int, per_rack: int) -> float:
    """Return the interruptions a day of a job whose slices fill racks one after the other."""
    racks = -(-slices // per_rack)
    gpus = slices * size * fleet.gpus_per_node
    return interruptions_per_day(model, gpus, racks * fleet.nodes_per_rack * fleet.gpus_per_node)


def _cycle(faults: float, restart: float, interval: float, write: float) -> JobCycle:
    if not 0 < interval < math.inf:  # no faults, or checkpoints that cost nothing: one a minute is as good as any
        interval = 60.0
    return JobCycle(faults_per_day=faults, restart_s=restart, interval_s=interval, write_s=write)


def best_size(lines: Sequence[SizeLine], least_nodes: int = 1) -> BestSize | None:
    """Return the best line with slices of at least so many nodes; None where the fleet has room for no such line.

    Best is the most progress; among those less than half a point behind it the largest slice, since more of a job's
    traffic stays on NVLink, and then the fewest spares.
    """
    able = [line for line in lines if line.fits and line.slice_nodes >= least_nodes]
    if not able:
        return None
    most = max(able, key=lambda line: line.progress)
    near = [line for line in able if line.progress > most.progress - ALIKE]
    best = max(near, key=lambda line: (line.slice_nodes, -line.spares))
    return BestSize(line=best, reason=_reason(best, most, least_nodes))


def _reason(best: SizeLine, most: SizeLine, least_nodes: int) -> str:
    gives = f"{best.progress:.1%} of the fleet's GPU time becomes progress with {best.name} a slice"
    if best is most:
        limit = f" of at least {least_nodes} nodes" if least_nodes > 1 else ""
        return f"{gives}, the most of all choices{limit}."
    why = "keeps more traffic on NVLink" if best.slice_nodes > most.slice_nodes else "leaves fewer GPUs idle"
    return f"{gives}, which {why} than {most.name} with {most.progress:.1%}."
