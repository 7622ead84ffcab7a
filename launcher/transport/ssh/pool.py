"""The connections of a shell, one for each machine; the number of those without a session is bounded."""

import threading
import time
from collections.abc import Callable
from itertools import islice

from launcher.core.model.inventory import Access
from launcher.errors import RemoteError
from launcher.transport.ssh.config import Settings
from launcher.transport.ssh.connections import Connection
from launcher.transport.ssh.operation import Operation

KEPT = 1000
"""Connections that are open without a session, if nobody says otherwise."""

LOOKED_AT = 64
"""Connections that are looked at each time to find some to close."""

USED_S = 2.0
"""Seconds for which a connection is not closed after it was asked for: whoever did opens a session on it."""


class _Machine:
    """The connection to one machine.

    One thread makes it while others wait for the outcome.
    """

    def __init__(self) -> None:
        self.link: Connection | None = None
        self.used = 0.0
        self._making = threading.Lock()
        self._failure: tuple[float, RemoteError] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nobody uses its connection, or makes one."""
        return not self._making.locked() and (self.link is None or self.link.is_idle)

    def get(self, make: Callable[[], Connection], op: Operation) -> Connection:
        link = self.link
        if link is not None and link.alive:
            return link
        came = time.monotonic()
        if not self._making.acquire(timeout=op.left):
            op.fail("connect", f"connecting took longer than {op.timeout:.0f} s", "allow more time")
        try:
            if self.link is not None and self.link.alive:
                return self.link
            if self._failure is not None and self._failure[0] > came:
                raise self._failure[1]
            if self.link is not None:
                self.link.retire()
            try:
                self.link = make()
            except RemoteError as error:
                self._failure = (time.monotonic(), error)
                raise
            return self.link
        finally:
            self._making.release()


class ConnectionPool:
    """All connections of a shell.

    With more than `kept` of them, those that were used longest ago are closed, unless they have a session or lead to
    other machines.
    """

    def __init__(
        self,
        resolve: Callable[[Access, Operation], Settings],
        dial: Callable[[Settings, Callable[[Settings, Operation], Connection], Operation], Connection],
        kept: int = KEPT,
    ) -> None:
        self._resolve = resolve
        self._dial = dial
        self._kept = kept
        self._machines: dict[Settings, _Machine] = {}  # those used longest ago first
        self._hops: set[Settings] = set()
        self._guard = threading.Lock()
        self._closed = False

    def link(self, at: Access, op: Operation) -> Connection:
        """Return the connection to a machine, made if there is none.

        RemoteError says why that fails.
        """
        return self.to(self._resolve(at, op), op)

    def to(self, settings: Settings, op: Operation) -> Connection:
        """Return the connection to a machine by its settings, as for a jump host."""
        with self._guard:
            machine = self._machines.pop(settings, None) or _Machine()
            self._machines[settings], machine.used = machine, time.monotonic()
            if settings.via is not None:
                self._hops.add(settings.via)
            surplus = self._surplus(len(self._machines) - self._kept)
        for link in surplus:
            link.retire()
        link = machine.get(lambda: self._dial(settings, self.to, op), op)
        if self._closed:
            link.cut()
            op.fail("connect", "the launcher is closing its connections")
        return link

    def _surplus(self, count: int) -> list[Connection]:
        """Take out so many machines whose connection is not in use, as far as there are any; return those of them."""
        found: list[Connection] = []
        for settings, machine in list(islice(self._machines.items(), 0 if count <= 0 else LOOKED_AT)):
            if len(found) == count or time.monotonic() - machine.used <= USED_S:
                break
            del self._machines[settings]
            if settings in self._hops or not machine.is_idle:
                self._machines[settings] = machine  # as if it was just used: others are looked at next time
            elif machine.link is not None:
                found.append(machine.link)
        return found

    def close(self) -> None:
        """Close all connections, those behind others first."""
        with self._guard:
            self._closed = True
            machines = sorted(self._machines.items(), key=lambda item: -_depth(item[0]))
        for _, machine in machines:
            if machine.link is not None:
                machine.link.cut()


def _depth(settings: Settings) -> int:
    return 0 if settings.via is None else 1 + _depth(settings.via)
