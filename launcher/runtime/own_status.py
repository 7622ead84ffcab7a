"""The status of a node's agent, which goes to the head's agent with its heartbeats.

It is made four times a second by a thread of its own, since files that it reads may hang, and heartbeats must not. It
has a version, which is raised with each change; a direct question is answered from the same place. So whoever compares
two statuses of a node knows which is older, and that two of one version are equal.

A line `state` carries a status that the head's agent does not have yet; it follows a heartbeat that was answered, and
counts for nothing itself. Heartbeats after it say how long ago the agent last found the status unchanged: a status that
is not confirmed so grows old, whatever the heartbeats say of the node.
"""

import logging
import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from .deadline import now
from .handshake import BEAT, STATE
from .protocol import StatusReply
from .protocol_files import StepStatus
from .protocol_views import CALM_S, lasting, packed, text_number, without_texts

EVERY_S = 0.25
"""How often the status is made (s): so soon a change is on its way."""

STEP_S = 10.0
"""How often new steps of ranks are sent (s), where nothing else changes: they come with each step of a program."""

APART_S = 1.0
"""How far a time may be from what the last status says of it (s) before that is a change."""


class PackedStatus(NamedTuple):
    """A status that is ready to be sent: its version, when it was made, and when it was last found unchanged (s)."""

    version: int
    data: bytes
    made: float
    at: float


class OwnStatus:
    """Makes the status of this agent.

    `make` returns it, `changed` is called after each change. Safe to use from several threads.
    """

    def __init__(self, make: Callable[[], StatusReply], clock: Callable[[], float] = now) -> None:
        self.changed: Callable[[], object] = lambda: None
        self._make = make
        self._clock = clock
        self._turn = threading.Lock()
        self._token = os.urandom(8).hex()
        self._version = 0
        self._made = 0.0
        self._lasting: dict[str, Any] | None = None
        self._times: list[float] = []
        self._steps: list[StepStatus | None] = []
        self._newest: PackedStatus | None = None

    @property
    def newest(self) -> PackedStatus | None:
        """Return the newest status; None before the first."""
        return self._newest

    def numbered(self) -> StatusReply:
        """Return the status, made now, with its version."""
        with self._turn:
            at = self._clock()  # before it is made: what happens meanwhile may not be in it
            status = self._make()
            if number := text_number(status):
                status["texts"] = number
            news = self._is_news(status, at)
            if news:
                self._version += 1
            status["version"] = (self._token, self._version)
            if news:
                data = packed(without_texts(cast("dict[str, object]", status))).encode()
                self._newest = PackedStatus(self._version, data, at, at)
            elif self._newest:
                self._newest = self._newest._replace(at=at)
        if news:
            self.changed()
        return status

    def keep(self, stopping: threading.Event) -> None:
        """Make the status again and again until `stopping` is set."""
        while not stopping.wait(EVERY_S):
            try:
                self.numbered()
            except Exception:
                logging.exception("the status cannot be made")  # it grows old, and the launcher asks by itself

    def _is_news(self, status: StatusReply, at: float) -> bool:
        kept, passed = lasting(cast("dict[str, object]", status)), at - self._made
        times, steps = _times(status), [rank.get("step") for rank in status.get("ranks", ())]
        if (
            kept == self._lasting
            and all(_follows(was, passed, one) for was, one in zip(self._times, times, strict=True))
            and (passed < STEP_S or steps == self._steps)
        ):
            return False
        self._lasting, self._times, self._steps, self._made = kept, times, steps, at
        return True


def _times(status: StatusReply) -> list[float]:
    """Return what grows with time in a status; 0 where it does not, or has only just begun to."""
    found: list[float] = []
    for rank in status.get("ranks", ()):
        quiet = rank.get("quiet", 0.0)
        found += [quiet if quiet >= CALM_S else 0.0, rank.get("unready", 0.0), rank.get("ended_ago", 0.0)]
    return found


def _follows(was: float, passed: float, one: float) -> bool:
    """Whether a time is as far on as the clock."""
    return one == was if not was or not one else abs(was + passed - one) <= APART_S


class StatusLines:
    """The words of one connection to the head's agent: which status it was sent."""

    def __init__(self, own: OwnStatus) -> None:
        self._own = own
        self._sent = 0

    def beat(self, at: float) -> bytes:
        """Return the word of a heartbeat: with the age (ms) of the status that was sent, if that is the newest."""
        newest = self._own.newest
        return b"%s %d" % (BEAT, _ms(at - newest.at)) if newest and newest.version == self._sent else BEAT

    def state(self, at: float) -> bytes | None:
        """Return the word that sends the newest status: how long ago it was made and confirmed (ms); None if it was."""
        newest = self._own.newest
        if newest is None or newest.version == self._sent:
            return None
        self._sent = newest.version
        return b"%s %d %d %s" % (STATE, _ms(at - newest.made), _ms(at - newest.at), newest.data)


def _ms(seconds: float) -> int:
    return max(0, int(seconds * 1000) + 1)
