"""What is known of one unit of a run from its own replies, and who waits for news of it."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from launcher.core.model.observation import Refusal

KEPT_S = 3.0
"""Seconds for which the last reply holds."""

AGAIN_S = 1.5
"""Seconds between two requests of a unit that is asked in each look."""

Key = tuple[str, str]
"""Run and place of a unit; for a request other than a look an empty run and a number."""


class UnitStanding(NamedTuple):
    """How a unit stands by its own replies.

    `of` is when the request of the last one was sent, `touched` when the last action ended. For `failing` seconds all
    requests have failed. `missed`: we have asked it ourselves, and there is no reply. `acting`: an action is under way.
    `connected`: to ask it takes no new connection.
    """

    of: float
    touched: float
    failing: float
    missed: bool
    acting: bool
    connected: bool


@dataclass(slots=True)
class UnitView:
    """What is known of one unit on a machine.

    Times are monotonic (s), `since` is wall-clock time. `asked` is when the request under way was sent, `of` when that
    of the last reply was; `touched` is when the last action on the unit ended: earlier replies are out of date.
    `trouble` has lasted since `since`, and since `failed`; `refusal` says how the machine keeps us out, if it does.
    `reply` is as it came, and not checked. `begun` is when the request under way, or the connection for it, was begun:
    many requests wait for their turn. `unanswered` is when the first request was begun after the last that was
    answered. `acting` counts the actions under way.
    """

    asked: float | None = None
    reply: object = None
    of: float = 0.0
    touched: float = 0.0
    trouble: str = "no reply yet"
    since: float | None = None
    refusal: Refusal | None = None
    begun: float | None = None
    unanswered: float | None = None
    failed: float | None = None
    acting: int = 0

    def replied(self, reply: object) -> None:
        """Take in a reply to the request under way."""
        if self.asked is not None:
            self.reply, self.of, self.since, self.refusal = reply, self.asked, None, None
            self.failed = self.unanswered = None
        self.asked = self.begun = None

    def fail(self, message: str, refusal: Refusal | None = None) -> None:
        """Take in that the request under way has no reply."""
        self.asked, self.begun, self.trouble, self.refusal = None, None, message, refusal
        self.since = self.since or time.time()
        self.failed = self.failed or time.monotonic()

    def begin(self, at: float) -> None:
        """Take note that the request under way, or the connection for it, is begun."""
        self.begun = self.begun or at
        self.unanswered = self.unanswered or at

    def silence(self, now: float) -> float | None:
        """Return for how long it has not replied to us (s); None where it never has.

        From the last request that it answered, where we have asked it again within a look; else from when we did.
        """
        if self.reply is None or self.of < self.touched:
            return None
        asked = self.unanswered or now
        return now - (self.of if asked - self.of <= AGAIN_S else asked)

    def standing(self, now: float, patience: float, *, connected: bool) -> "UnitStanding":
        """Return how it stands; without a reply to the request under way for `patience` seconds it is missed."""
        missed = self.failed is not None or (self.begun is not None and now - self.begun >= patience)
        failing = now - self.failed if self.failed is not None else 0.0
        return UnitStanding(self.of, self.touched, failing, missed, self.acting > 0, connected)


class Changes(threading.Condition):
    """Guards what is known of units, and wakes a look only where that matters."""

    def __init__(self) -> None:
        super().__init__()
        self._followers: list[Callable[[Key], bool]] = []

    @contextlib.contextmanager
    def followed_by(self, take: Callable[[Key], bool]) -> Iterator[None]:
        """Tell `take` of each change in this block; True wakes the waiting thread.

        Called with the lock held.
        """
        self._followers.append(take)
        try:
            yield
        finally:
            self._followers.remove(take)

    def tell(self, keys: Iterable[Key]) -> None:
        """Report that these units have changed. Called with the lock held."""
        woken = [take(key) for key in keys for take in self._followers]
        if any(woken):
            self.notify_all()
