"""How long an agent waits for a launcher once it has stopped its node.

Where the run ended meanwhile, or its launcher is gone, nobody else could release the lease. That the head's machine
answers again changes nothing: of a run that has ended only the machine is left.
"""

import logging
import threading
from collections.abc import Callable

from .deadline import now


class Patience:
    """Ends an agent that has stopped its node, and that nobody has asked for `limit` seconds.

    `end` returns whether it could; else it is tried again after as long.
    """

    def __init__(self, limit: float, end: Callable[[], bool], clock: Callable[[], float] = now) -> None:
        self._limit = limit
        self._end = end
        self._clock = clock
        self._since: float | None = None
        self._ending = threading.Lock()

    def begin(self) -> None:
        """Wait from now on: the node was just stopped."""
        self._since = self._clock()

    def asked(self) -> None:
        """Take note that a launcher is there: it decides what becomes of this node."""
        self._since = None

    def tick(self) -> None:
        """End the agent if nobody asks any more; called by a thread that must not wait."""
        since = self._since
        if since is None or self._clock() - since < self._limit:
            return
        if self._ending.acquire(blocking=False):
            threading.Thread(target=self._give_up, name="end", daemon=True).start()

    def _give_up(self) -> None:
        logging.warning("stopped, and asked by no launcher for %.0f s: ending", self._limit)
        if not self._end():
            self.begin()
            self._ending.release()
