"""What operators ask of a run while it goes on; each order is kept, numbered, until the run is over."""

from dataclasses import dataclass
from enum import Enum


class RequestKind(Enum):
    """What may be asked. The subject is a node, nothing, a slice (`group.sINDEX`), or the run that goes first."""

    CONFIRM_DEAD = "confirm_dead"
    RESUME = "resume"
    RELOCATE = "relocate"
    READMIT = "readmit"
    PREEMPT = "preempt"
    RESIZE = "resize"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRequest:
    """One order to one run. `by` says who gave it, for people; `at` is wall-clock time (s)."""

    seq: int
    at: float
    kind: RequestKind
    subject: str = ""
    by: str = ""
