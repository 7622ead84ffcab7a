"""Until when what an agent has begun may live, published for others on its machine, by a clock that nobody sets.

The agent of a slot publishes it for the parents of its ranks (`rank.py`), the agent of a head for the agent of a slot
beside it (`heartbeat.py`). Whoever published it may be stopped, or have been killed: the last time stands.
"""

import contextlib
import os
import struct
import time
from pathlib import Path

NEVER = float("inf")
_DEADLINE = struct.Struct("d")


def now() -> float:
    """Return the seconds since boot, suspension included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Deadline:
    """A time that an agent publishes (seconds of CLOCK_BOOTTIME); infinity at first."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.put(NEVER)

    def put(self, moment: float) -> None:
        """Publish the time: eight bytes in one write, so that nobody reads half of them.

        Where that cannot be written (it is in memory if the machine has such a place) the last one stands.
        """
        with contextlib.suppress(OSError):
            os.pwrite(self._handle, _DEADLINE.pack(moment), 0)

    @staticmethod
    def read(path: str) -> float:
        """Return the time that an agent has published.

        Infinity where the file is gone, with its agent.
        """
        try:
            with open(path, "rb") as file:
                return float(_DEADLINE.unpack(file.read(_DEADLINE.size))[0])
        except (OSError, struct.error):
            return NEVER


class WatchedDeadline:
    """The deadline of another agent. It is held open: a file that is removed can still be read."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> float:
        """Return the time that was published last; infinity where there is none."""
        try:
            return float(_DEADLINE.unpack(os.pread(self._handle, _DEADLINE.size, 0))[0])
        except (OSError, struct.error):
            return NEVER

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._handle)
