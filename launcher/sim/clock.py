"""Virtual time for an imaginary fleet, kept with its world, so that it goes on where it was after a restart."""

import math
import time
from collections.abc import Callable

from launcher.sim.world import Rows

WAKE_S = 0.02
"""How often a real wait looks whether it is woken (s)."""


class SimClock:
    """The time of one run in an imaginary fleet.

    At infinite speed a wait takes no time and moves the clock; at a finite one the clock runs `speed` times as fast
    as real time, also while nobody looks at it. Every process that opens the clock of a run sees the same time.
    """

    def __init__(self, rows: Rows, *, fleet: str, run: str, speed: float = math.inf, start: float = 0.0) -> None:
        self._rows = rows
        self._key = f"{fleet}//{run}/clock"
        self._speed = speed
        self._at, self._real = self._read(start)

    def now(self) -> float:
        """Answer the virtual time (s)."""
        if math.isinf(self._speed):
            return self._at
        return self._at + max(0.0, time.time() - self._real) * self._speed

    def wait(self, until: float, wake: Callable[[], bool]) -> None:
        """Return at the virtual time `until`, or as soon as `wake()` is true; a wait without an end really waits."""
        jump = math.isinf(self._speed) and math.isfinite(until)
        while not wake():
            left = until - self.now()
            if left <= 0:
                return
            if jump:
                self._at, _ = self._save(until, self._real)
                return
            time.sleep(min(WAKE_S, left / self._speed) if math.isfinite(self._speed) else WAKE_S)

    def _read(self, start: float) -> tuple[float, float]:
        text = self._rows.world(self._key)
        if text is None:
            return self._save(start, time.time())
        at, real = text.split()
        return float(at), float(real)

    def _save(self, at: float, real: float) -> tuple[float, float]:
        self._rows.save_world(self._key, f"{at!r} {real!r}")
        return at, real
