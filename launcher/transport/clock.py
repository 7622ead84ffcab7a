"""The time of this machine."""

import time
from collections.abc import Callable

# How often a waiting loop checks whether it may go on (s).
GLANCE = 0.05


class SystemClock:
    """Seconds since this machine booted, suspension included.

    It never goes back and outlives the process.
    """

    def now(self) -> float:
        """Return the time in seconds."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall(self) -> float:
        """Return the time of day (s since the epoch)."""
        return time.time()

    def wait(self, until: float, wake: Callable[[], bool]) -> None:
        """Return at `until`, or as soon as `wake()` is true."""
        while not wake() and (left := until - self.now()) > 0:
            time.sleep(min(left, GLANCE))


def pause(seconds: float) -> None:
    """Wait (s): for loops that read the store again and again."""
    time.sleep(seconds)
