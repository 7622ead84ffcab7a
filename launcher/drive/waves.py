"""Actions on many machines in waves: a bounded number at once, in turn over racks, and a slow rack delays no other.

Why these numbers: an action costs this machine some milliseconds, and waits for its node for the rest of its time. So
`AT_ONCE` actions that go well keep one core busy, and hold as many connections and threads; a launch of ten thousand
nodes takes no longer with more. One that has taken `SLOW_S` waits for a machine that is silent, starts up or takes many
files: it costs nothing here, so that it gives its place to others, up to `MOST` in all. A rack with such an action gets
`EACH_SLOW` places until one of its actions is quick, or its share where there are few racks: a hundred dead racks leave
room for all others. Each action has deadlines of its own.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from launcher.core.model.receipt import Answer

AT_ONCE = 64
"""Actions at once, besides slow ones."""

MOST = 128
"""Actions at once, and threads."""

SLOW_S = 5.0
"""Seconds after which an action is slow: a login, a start of an agent and a question take a second or two."""

EACH_SLOW = 1
"""Actions at once on a rack that has a slow one, or whose last one was slow."""

Act = Callable[[], Answer]


class Waves:
    """Threads that carry out actions, and whose turn it is."""

    def __init__(self, *, slow_s: float = SLOW_S) -> None:
        self._slow_s = slow_s
        self._news = threading.Condition()
        self._waiting: dict[str, deque[tuple[Act, Future[Answer]]]] = {}
        self._begun: dict[str, list[float]] = {}
        self._turns: deque[str] = deque()
        self._slow: set[str] = set()
        self._threads = self._idle = self._count = 0
        self._closed = False

    def submit(self, lane: str, act: Act) -> "Future[Answer]":
        """Carry out an action of a lane, such as a rack, when its turn has come; return its future."""
        future: Future[Answer] = Future()
        with self._news:
            if lane not in self._waiting:
                self._waiting[lane] = deque()
                self._turns.append(lane)
            self._waiting[lane].append((act, future))
            self._count += 1
            self._news.notify()
            if self._count > self._idle and self._threads < MOST:
                self._threads += 1
                threading.Thread(target=self._work, name=f"act-{self._threads}", daemon=True).start()
        return future

    def shutdown(self) -> None:
        """Begin nothing more; what is under way ends by its own deadline."""
        with self._news:
            self._closed = True
            waiting = [future for lane in self._waiting.values() for _, future in lane]
            self._waiting.clear()
            self._turns.clear()
            self._news.notify_all()
        for future in waiting:
            future.cancel()

    def _work(self) -> None:
        while (taken := self._await_turn()) is not None:
            lane, begun, act, future = taken
            if future.set_running_or_notify_cancel():
                try:
                    answer = act()
                except BaseException as error:  # noqa: BLE001  raised again by whoever collects the answer
                    future.set_exception(error)
                else:
                    future.set_result(answer)
            with self._news:
                self._end(lane, begun)

    def _await_turn(self) -> tuple[str, float, Act, "Future[Answer]"] | None:
        """Return the next action, once there is one that may begin; None after the end."""
        with self._news:
            while not self._closed:
                now = time.monotonic()
                if (lane := self._next(now)) is not None:
                    act, future = self._waiting[lane].popleft()
                    self._count -= 1
                    self._begun.setdefault(lane, []).append(now)
                    if self._waiting[lane]:
                        self._turns.append(lane)
                    else:
                        del self._waiting[lane]
                    return lane, now, act, future
                self._idle += 1
                self._news.wait(self._patience(now))
                self._idle -= 1
            return None

    def _next(self, now: float) -> str | None:
        """Return the lane whose turn it is; it is taken out of the turns."""
        under_way = slow = 0
        for lane, begun in self._begun.items():
            under_way += len(begun)
            if late := sum(now - at >= self._slow_s for at in begun):
                slow += late
                self._slow.add(lane)
        if under_way - slow >= AT_ONCE or under_way >= MOST:
            return None
        share = max(EACH_SLOW, AT_ONCE // max(1, len(self._waiting.keys() | self._begun.keys())))
        for _ in range(len(self._turns)):
            lane = self._turns.popleft()
            if lane not in self._slow or len(self._begun.get(lane, ())) < share:
                return lane
            self._turns.append(lane)
        return None

    def _patience(self, now: float) -> float | None:
        """Return after how many seconds an action becomes slow and gives its place away; None while nothing waits."""
        left = [at + self._slow_s - now for begun in self._begun.values() for at in begun]
        return min((one for one in left if one > 0), default=None) if self._turns else None

    def _end(self, lane: str, begun: float) -> None:
        (self._slow.discard if time.monotonic() - begun < self._slow_s else self._slow.add)(lane)
        self._begun[lane].remove(begun)
        if not self._begun[lane]:
            del self._begun[lane]
        if self._turns:
            self._news.notify()
