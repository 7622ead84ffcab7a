"""How long an agent waits for a launcher once it has stopped its node.

Where the run ended meanwhile, or its launcher is gone, nobody else could release the lease.
"""

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from .heartbeat import now


class Stoppable(Protocol):
    """The heartbeats of a node, or those that the head receives."""

    @property
    def stopped(self) -> bool:
        """Whether what runs here was stopped for want of heartbeats."""


class Patience:
    """Ends an agent that has stopped its node, and that nobody has asked for `limit` seconds.

    `watched` knows whether the node is stopped; `end` returns whether it could; else it is tried again after as long.
    """

    def __init__(
        self, limit: float, watched: "Stoppable", end: Callable[[], bool], clock: Callable[[], float] = now
    ) -> None:
        self._limit = limit
        self._watched = watched
        self._end = end
        self._clock = clock
        self._since = clock()
        self._ending = threading.Lock()

    def begin(self) -> None:
        """Wait from now on: a launcher has asked something, or the node was just stopped."""
        self._since = self._clock()

    def tick(self) -> None:
        """End the agent if nobody asks any more; called by a thread that must not wait."""
        if not self._watched.stopped or self._clock() - self._since < self._limit:
            return
        if self._ending.acquire(blocking=False):
            threading.Thread(target=self._give_up, name="end", daemon=True).start()

    def _give_up(self) -> None:
        logging.warning("stopped, and asked by no launcher for %.0f s: ending", self._clock() - self._since)
        if not self._end():
            self.begin()
            self._ending.release()
