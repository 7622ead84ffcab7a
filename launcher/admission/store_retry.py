"""Retries while the store fails.

A locked or full disk must not leave a run without its controller.
"""

import os
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from launcher.errors import StoreError
from launcher.transport.clock import SystemClock

AGAIN_S = 1.0
"""How long to wait before a failed store is tried again (s)."""

Say = Callable[[str], None]
T = TypeVar("T")


class StoreRetry:
    """Waits for a failing store.

    Each error is reported once, and so is that the store works again.

    `say` takes log lines.
    """

    def __init__(self, say: Say) -> None:
        self._say = say
        # Real time also for an imaginary fleet, whose clock is in the store.
        self._clock = SystemClock()
        self._reported: set[str] = set()

    def report(self, error: StoreError) -> None:
        """Report an error, unless it was reported since the store last worked."""
        if error.advice not in self._reported:
            self._reported.add(error.advice)
            self._say(f"waiting for the store: {error.advice}")

    def recovered(self) -> None:
        """Report that the store works again, where an error was reported."""
        if self._reported:
            self._reported.clear()
            self._say("the store works again")

    def wait(self, error: StoreError, stopped: Callable[[], bool]) -> bool:
        """Report an error and wait for `AGAIN_S`.

        Return whether to try again, False as soon as `stopped()`.
        """
        self.report(error)
        self._clock.wait(self._clock.now() + AGAIN_S, stopped)
        return not stopped()

    def call(self, do: Callable[[], T], stopped: Callable[[], bool]) -> T:
        """Return the result of `do`, retried while the store fails.

        StoreError where `stopped()` came first.
        """
        while True:
            try:
                done = do()
            except StoreError as error:
                if not self.wait(error, stopped):
                    raise
            else:
                self.recovered()
                return done


class ControllerLog:
    """The log of a controller.

    Its stderr. Lines that a full disk does not take are written before the next line.
    """

    def __init__(self) -> None:
        self._left = b""

    def __call__(self, line: str) -> None:
        """Write a line, with the time."""
        self._left += f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}\n".encode("utf-8", "replace")
        try:
            while self._left:
                self._left = self._left[os.write(sys.stderr.fileno(), self._left) :]
        except OSError:
            return
