"""Traffic between GPUs: collectives, what a program sends in a step, and how fast links are."""

from dataclasses import dataclass
from enum import Enum


class Collective(Enum):
    """A collective operation, by the name of its benchmark."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpeeds:
    """Bandwidth of a GPU, in GB/s: `network` outside its NVLink domain, the others measured inside.

    The defaults are one 400 Gb/s port a GPU, and the lower ends of what NVIDIA's cluster readiness engine measured on
    GB200 and GB300 (all-reduce 840 to 920, all-gather 600 to 700, all-to-all 570 to 680).
    """

    network: float = 50.0
    all_reduce: float = 840.0
    all_gather: float = 600.0
    all_to_all: float = 570.0

    def inside(self, collective: Collective) -> float:
        """Return the bandwidth of a collective inside one NVLink domain (GB/s)."""
        match collective:
            case Collective.ALL_REDUCE:
                return self.all_reduce
            case Collective.ALL_GATHER | Collective.REDUCE_SCATTER:
                return self.all_gather
            case Collective.ALL_TO_ALL:
                return self.all_to_all


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """One training step of a program: seconds of compute, and GB that each GPU sends, by collective.

    GB are counted as bus bandwidth counts them (`bus_gb` in `core/planner/bandwidth.py` converts the size of a buffer).
    """

    compute_s: float
    all_reduce_gb: float = 0.0
    all_gather_gb: float = 0.0
    reduce_scatter_gb: float = 0.0
    all_to_all_gb: float = 0.0

    def gb(self, collective: Collective) -> float:
        """Return the GB a step of one collective."""
        match collective:
            case Collective.ALL_REDUCE:
                return self.all_reduce_gb
            case Collective.ALL_GATHER:
                return self.all_gather_gb
            case Collective.REDUCE_SCATTER:
                return self.reduce_scatter_gb
            case Collective.ALL_TO_ALL:
                return self.all_to_all_gb
