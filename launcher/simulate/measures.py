"""Where the GPU time of a fleet goes, how long jobs wait, and how the racks look over time."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum


class Spent(Enum):
    """What a node does. The times of all causes add up to the time of the fleet."""

    PRODUCTIVE = "productive"
    CHECKPOINT = "checkpoint writes"
    LOST = "work lost since a checkpoint"
    UNDETECTED = "failed, not detected yet"
    RESTART = "restart after a fault or a move"
    START = "first start"
    WAITING = "run waits for a node"
    SPARE = "spare of a run"
    DOWN = "in repair"
    MAINTENANCE = "planned maintenance"
    FRAGMENTED = "free while runs wait"
    IDLE = "free, nobody waits"


@dataclass(slots=True, kw_only=True)
class Incidents:
    """How often things happened.

    `recovery_s` are the seconds from the first sign of a fault until all ranks ran again, one a recovery.
    """

    faults: int = 0
    hits: int = 0
    recovered: int = 0
    waited: int = 0
    requeued: int = 0
    preempted: int = 0
    moved: int = 0
    move_gpu_hours: float = 0.0
    recovery_s: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The fleet at one time (s): nodes in use, racks free as a whole, fragmented free nodes, waiting runs."""

    at_s: float
    used: float
    whole_racks: int
    fragments: float
    waiting: int


class Account:
    """Node-seconds by cause."""

    def __init__(self) -> None:
        self.spent: dict[Spent, float] = defaultdict(float)

    def add(self, cause: Spent, nodes: float, seconds: float) -> None:
        """Count a time of some nodes."""
        self.spent[cause] += nodes * seconds

    def shares(self, total: float) -> dict[Spent, float]:
        """Return the share of each cause in a total (node-seconds)."""
        return {cause: self.spent[cause] / total if total else 0.0 for cause in Spent}


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a program has done since it began to compute: kept work, checkpoint writes and the rest (s)."""

    kept_s: float
    write_s: float
    rest_s: float


def progress(elapsed: float, interval: float, write: float, *, graceful: bool) -> Progress:
    """Return what a program has done after a time; `graceful` where it writes a last checkpoint as it stops."""
    cycles = int(elapsed // (interval + write))
    rest = elapsed - cycles * (interval + write)
    if not graceful:
        return Progress(kept_s=cycles * interval, write_s=cycles * write, rest_s=rest)
    worked = min(rest, interval)
    return Progress(kept_s=cycles * interval + worked, write_s=cycles * write + rest - worked, rest_s=0.0)


def time_to_finish(work: float, interval: float, write: float) -> float:
    """Return how long a program needs for its work, with the checkpoints in between (s)."""
    return work + max(0, -(-work // interval) - 1) * write


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitLine:
    """How long jobs of one size waited for their first start (s); `waiting` of them still do at the end."""

    gpus: int
    jobs: int
    mean_s: float
    median_s: float
    p95_s: float
    waiting: int


def wait_lines(waits: Mapping[int, Sequence[float]], waiting: Mapping[int, int]) -> tuple[WaitLine, ...]:
    """Return a line for each size, small ones first."""
    return tuple(_wait_line(gpus, sorted(waits.get(gpus, ())), waiting.get(gpus, 0)) for gpus in _sizes(waits, waiting))


def _sizes(*tables: Iterable[int]) -> list[int]:
    return sorted({gpus for table in tables for gpus in table})


def _wait_line(gpus: int, waits: Sequence[float], waiting: int) -> WaitLine:
    return WaitLine(
        gpus=gpus,
        jobs=len(waits) + waiting,
        mean_s=sum(waits) / len(waits) if waits else 0.0,
        median_s=quantile(waits, 0.5),
        p95_s=quantile(waits, 0.95),
        waiting=waiting,
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which a share of ordered values lies; 0 for none."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
