"""Virtual time for an imaginary fleet.

It is kept with the fleet, so that it continues after a restart.
"""

import math
import time
from collections.abc import Callable

from launcher.core.model.run import Run
from launcher.core.model.simulation import SimSettings
from launcher.sim.world import Rows

WAKE_S = 0.02
"""How often a real wait looks whether it is woken, and how long it lasts at least (s): no clock takes a whole CPU."""


class SimClock:
    """The time of one run in an imaginary fleet, the same in every process that asks.

    At infinite speed a wait takes no time and moves the clock; at a finite one the clock runs `speed` times as fast
    as real time, also while no controller lives.
    """

    def __init__(self, rows: Rows, run: Run) -> None:
        self._rows = rows
        self._key = f"{run.fleet.name}//{run.id}/clock"
        self._speed = (run.fleet.sim or SimSettings()).speed
        self._jumps = math.isinf(self._speed)
        self._at, self._real = 0.0, time.time()
        if not self._read():
            self._save(self._at)

    def now(self) -> float:
        """Return the virtual time in seconds since the clock was first asked."""
        if self._jumps:
            self._read()
            return self._at
        return self._at + max(0.0, time.time() - self._real) * self._speed

    def wall(self) -> float:
        """Return the imaginary time of day.

        That of the first call, and what has passed since.
        """
        return self._real + self.now()

    def wait(self, until: float, wake: Callable[[], bool]) -> None:
        """Return at the virtual time `until`, or as soon as `wake()` is true.

        A wait without an end takes real time.
        """
        if not self._jumps and not wake():
            time.sleep(WAKE_S)
        while not wake() and (left := until - self.now()) > 0:
            if self._jumps and math.isfinite(until):
                self._save(until)
                return
            time.sleep(WAKE_S if self._jumps else min(WAKE_S, left / self._speed))

    def _read(self) -> bool:
        text = self._rows.world(self._key)
        if text is None:
            return False
        at, real = text.split()
        self._at, self._real = float(at), float(real)
        return True

    def _save(self, at: float) -> None:
        self._at = at
        self._rows.save_world(self._key, f"{at!r} {self._real!r}")
