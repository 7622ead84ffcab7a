"""What ranks write into their heartbeat files: the number of a step, and how long they worked on it themselves.

Ranks that train in step with each other all take as long as the slowest. Only the time that a rank computes itself,
without waiting for others, tells which one that is, and only the program can measure it.
"""

import os
import re
import statistics
from collections import deque
from pathlib import Path

from .protocol_files import StepStatus

WINDOW = 50
"""How many of the steps seen are kept: `core/control/blame/straggler.STEPS`."""

_BYTES = 64
_LINE = re.compile(rb"\s*([0-9]{1,15})(?:\s+([0-9]{1,9}(?:\.[0-9]{0,12})?))?\s*")


def parse(data: bytes) -> tuple[int, float | None] | None:
    """Return step and own seconds of a heartbeat file; None for anything else, such as half a line."""
    found = _LINE.fullmatch(data)
    if found is None or len(data) > _BYTES:
        return None
    return int(found[1]), float(found[2]) if found[2] else None


class StepTimes:
    """The newest steps of each rank. What was odd or torn counts for nothing, and the next look may be better."""

    def __init__(self) -> None:
        self._seen: dict[Path, deque[tuple[int, float | None]]] = {}

    def of(self, folder: Path, name: str) -> StepStatus | None:
        """Return the newest step of a rank, and the median of what its last steps took itself; None without any."""
        steps = self._seen.setdefault(folder, deque(maxlen=WINDOW))
        found = _read(folder / name)
        if found is not None and (not steps or found[0] != steps[-1][0]):
            if steps and found[0] < steps[-1][0]:  # it has gone back to a checkpoint
                steps.clear()
            steps.append(found)
        if not steps:
            return None
        status: StepStatus = {"step": steps[-1][0], "over": steps[-1][0] - steps[0][0] + 1}
        took = [own for _, own in steps if own is not None]
        if took:
            status["own"] = statistics.median(took)
        return status


def _read(path: Path) -> tuple[int, float | None] | None:
    try:
        # Not a pipe that would block, nor a link to elsewhere: the program may have made anything of it.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return parse(os.read(handle, _BYTES + 1))
    except OSError:
        return None
    finally:
        os.close(handle)
