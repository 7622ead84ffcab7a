"""The newest status of each node, as the head's agent has heard it, and what has changed since a look.

A status is kept as its node packed it, under the name that its connection has proven: no node speaks for another. It
counts from the moment that its node says, before the earliest at which its line can have come; what follows from it is
decided by the launcher, which asks nodes directly, too (`transport/agent/stream.py`).
"""

import os
import threading
from collections.abc import Callable
from typing import NamedTuple

from .deadline import now
from .handshake import PROOF
from .protocol import PROTOCOL, StatusReply
from .protocol_views import FRESH_S, GONE, MOST_TEXT, NodeViews

LINE = MOST_TEXT + 64 + PROOF
"""Bytes of a line with a status."""

ANSWER = 2 << 20
"""Bytes of statuses in one answer; the rest follows in the next one."""

_LONGEST_MS = 10**9


class _Row(NamedTuple):
    """A status: the number of its change, when it was made and last confirmed (s)."""

    number: int
    data: str
    made: float
    confirmed: float


class StatusBoard:
    """The statuses of all nodes. Safe to use from several threads."""

    def __init__(self, clock: Callable[[], float] = now) -> None:
        self._clock = clock
        self._turn = threading.Lock()
        self._epoch = os.urandom(8).hex()
        self._number = 0
        self._rows: dict[str, _Row] = {}  # in the order of their numbers

    def put(self, name: str, word: bytes, at: float) -> bool:
        """Keep the status in a `state` word that came at `at` or later; return whether the word is one."""
        parts = word.split(b" ")
        if len(parts) != 4 or not parts[1].isdigit() or not parts[2].isdigit() or len(parts[3]) > MOST_TEXT:
            return False
        try:
            data = parts[3].decode("ascii")
        except UnicodeDecodeError:
            return False
        self._set(name, data, at - _seconds(parts[1]), at - _seconds(parts[2]))
        return True

    def confirm(self, name: str, word: bytes, at: float) -> None:
        """Take note of a heartbeat that came at `at` or later: it says how old the status of its node is."""
        age = word.partition(b" ")[2]
        with self._turn:
            row = self._rows.get(name)
            if row is not None and age.isdigit():
                self._rows[name] = row._replace(confirmed=max(row.confirmed, at - _seconds(age)))

    def forget(self, name: str) -> None:
        """Drop the status of a node that has left."""
        if name in self._rows:
            self._set(name, GONE, self._clock(), self._clock())

    def _set(self, name: str, data: str, made: float, confirmed: float) -> None:
        with self._turn:
            self._number += 1
            self._rows.pop(name, None)
            self._rows[name] = _Row(self._number, data, made, confirmed)

    def reply(self, since: tuple[str, int]) -> StatusReply:
        """Return what has changed since a number of an epoch, as a reply."""
        return {"ok": True, "protocol": PROTOCOL, "views": self.since(*since)}

    def since(self, epoch: str, number: int) -> NodeViews:
        """Return what has changed since a number of an epoch; everything in another epoch."""
        with self._turn:
            at, after, size = self._clock(), number if epoch == self._epoch else 0, 0
            views: NodeViews = {"epoch": self._epoch, "number": after, "more": False, "rows": [], "late": {}}
            fresh = []
            for name in reversed(self._rows):
                row = self._rows[name]
                if row.number <= after:
                    break
                fresh.append((name, row))
            for name, row in reversed(fresh):
                size += len(row.data) + len(name)
                if size > ANSWER:
                    views["more"] = True
                    break
                views["rows"].append({"name": name, "data": row.data, "made": max(0.0, at - row.made)})
                views["number"] = row.number
            for name, row in self._rows.items():
                if at - row.confirmed > FRESH_S and row.data != GONE:
                    views["late"][name] = round(at - row.confirmed, 2)
            return views


def _seconds(text: bytes) -> float:
    return min(int(text[:12]), _LONGEST_MS) / 1000
