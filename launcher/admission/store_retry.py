"""A store that fails is told once and waited for: it is no reason to leave a run undriven."""

import os
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from launcher.errors import StoreError
from launcher.transport.clock import SystemClock

AGAIN_S = 1.0
"""How long to wait until a store that failed is tried again (s)."""

Say = Callable[[str], None]
T = TypeVar("T")


class Trouble:
    """What was said of a store that fails: each of its words once, and once that it works again.

    `say` takes a line for people.
    """

    def __init__(self, say: Say) -> None:
        self._say = say
        # Real time, also beside an imaginary fleet: its own clock is kept in the store.
        self._clock = SystemClock()
        self._told: set[str] = set()

    def tell(self, error: StoreError) -> None:
        """Say what is wrong, where that is news."""
        if error.advice not in self._told:
            self._told.add(error.advice)
            self._say(f"nothing is done until the store works again: {error.advice}")

    def over(self) -> None:
        """Say that it works again, where it did not."""
        if self._told:
            self._told.clear()
            self._say("the store works again")

    def wait(self, error: StoreError, stopped: Callable[[], bool]) -> bool:
        """Tell, and wait for a while; return whether to try again, which is so until `stopped()`."""
        self.tell(error)
        self._clock.wait(self._clock.now() + AGAIN_S, stopped)
        return not stopped()

    def overcome(self, do: Callable[[], T], stopped: Callable[[], bool]) -> T:
        """Return what `do` answers, however often it takes; StoreError where `stopped()` came first."""
        while True:
            try:
                done = do()
            except StoreError as error:
                if not self.wait(error, stopped):
                    raise
            else:
                self.over()
                return done


class Log:
    """The log of a controller, which is its stderr. It may lie on the very disk that is full: what it does not take is
    written before the next line."""

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
