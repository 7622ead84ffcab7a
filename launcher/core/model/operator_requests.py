"""What operators ask of a run while it goes on; stored until the run is over."""

from dataclasses import dataclass
from enum import Enum


class RequestKind(Enum):
    """What may be asked.

    The subject is a node, nothing, a slice (`group.sINDEX`), or the run that goes first.
    """

    CONFIRM_DEAD = "confirm_dead"
    RESUME = "resume"
    RELOCATE = "relocate"
    READMIT = "readmit"
    PREEMPT = "preempt"
    RESIZE = "resize"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRequest:
    """One request to one run.

    `by` says who asked, for people; `at` is in seconds since the epoch.
    """

    seq: int
    at: float
    kind: RequestKind
    subject: str = ""
    by: str = ""
