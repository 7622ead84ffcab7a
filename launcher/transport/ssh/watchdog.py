"""Acts at deadlines that are seldom reached: one thread for all of them, instead of one for each command."""

import heapq
import itertools
import threading
import time
from collections.abc import Callable

Act = Callable[[], object]


class WatchedMoment:
    """A moment at which something is done, unless it is cancelled before."""

    __slots__ = ("_act",)

    def __init__(self, act: Act) -> None:
        self._act: Act | None = act

    def cancel(self) -> None:
        """Do nothing then."""
        self._act = None

    def take(self) -> Act | None:
        """Return what is to be done now; None after that, or once it was cancelled."""
        act, self._act = self._act, None
        return act


class Watchdog:
    """All deadlines of a process, in one thread that is started with the first."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, WatchedMoment]] = []
        self._numbers = itertools.count()
        self._earlier = threading.Condition()
        self._thread: threading.Thread | None = None

    def after(self, seconds: float, act: Act) -> WatchedMoment:
        """Do something after so many seconds, in a thread of its own: it may block."""
        deadline = WatchedMoment(act)
        due = (time.monotonic() + seconds, next(self._numbers), deadline)
        with self._earlier:
            heapq.heappush(self._due, due)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
                self._thread.start()
            elif self._due[0] is due:
                self._earlier.notify()
        return deadline

    def _watch(self) -> None:
        while True:
            with self._earlier:
                now = time.monotonic()
                if not self._due or (left := self._due[0][0] - now) > 0:
                    self._earlier.wait(left if self._due else None)
                    continue
                _, _, deadline = heapq.heappop(self._due)
            if act := deadline.take():
                threading.Thread(target=act, name="deadline", daemon=True).start()


WATCHDOG = Watchdog()
