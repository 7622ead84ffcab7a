"""Connections to machines, shared by sessions, and how many handshakes are made at once."""

import contextlib
import threading
from collections.abc import Iterator

import paramiko
from tenacity import (
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_after_attempt,
    wait_random_exponential,
)

from launcher.transport.ssh.config import Settings
from launcher.transport.ssh.operation import DroppedError, LostError, Operation
from launcher.transport.ssh.route import Route
from launcher.transport.ssh.watchdog import WATCHDOG

CONNECTING = 64
CONNECTING_BY_JUMP = 8
"""Handshakes at once, of all and behind one jump host: more make its sshd the slowest part."""

SESSIONS = 8
"""Sessions of a connection; sshd's own default limit is 10 (MaxSessions)."""

GRACE_S = 3.0
"""Seconds beyond a command's time in which the machine may tell its end; where they pass, it is mute."""

_OPEN_S = 10.0
_ANSWER_S = 3.0
_TRIES = 8
_LEAST_S = 0.5


def patiently(op: Operation, left: threading.Event) -> Retrying:
    """Return a retry policy for a machine that drops connections for now.

    A few times, at random moments. `left` is set once nobody waits any more. Each try has at least half of the time
    that is left.
    """
    tries = stop_after_attempt(_TRIES)
    moment = wait_random_exponential(multiplier=0.25, max=3)
    return Retrying(
        retry=retry_if_exception_type(DroppedError),
        wait=lambda state: min(moment(state), op.left / 2),
        stop=lambda state: tries(state) or left.is_set() or op.left < _LEAST_S,
        sleep=sleep_using_event(left),
        reraise=True,
    )


class HandshakeSlots:
    """Bounds the number of handshakes at once."""

    def __init__(self) -> None:
        self._all = threading.BoundedSemaphore(CONNECTING)
        self._by_jump: dict[Settings, threading.BoundedSemaphore] = {}

    @contextlib.contextmanager
    def turn(self, via: Settings | None, op: Operation) -> Iterator[None]:
        """Hold a slot in this block; RemoteError where none is free in time."""
        with contextlib.ExitStack() as held:
            if via is not None:
                fresh = threading.BoundedSemaphore(CONNECTING_BY_JUMP)
                self._take(self._by_jump.setdefault(via, fresh), held, op)
            self._take(self._all, held, op)
            yield

    @staticmethod
    def _take(turns: threading.BoundedSemaphore, held: contextlib.ExitStack, op: Operation) -> None:
        if not turns.acquire(timeout=op.left):
            op.fail("connect", f"no handshake slot was free within {op.timeout:.0f} s", "allow more time")
        held.callback(turns.release)


class Connection:
    """A connection to a machine after the login."""

    def __init__(self, transport: paramiko.Transport, way: Route) -> None:
        self.transport = transport
        self._way = way
        self._free = threading.Condition()
        self._open = 0
        self._limit = SESSIONS
        self._retired = False
        self._kept: set[paramiko.Channel] = set()
        self._gone = threading.Event()

    @property
    def alive(self) -> bool:
        """Whether it may still be used, as far as known."""
        return not self._retired and self.transport.is_active()

    @contextlib.contextmanager
    def session(self, op: Operation) -> Iterator[paramiko.Channel]:
        """Open a session until the operation's time is over.

        LostError where nothing was begun because the connection is gone. paramiko's own calls have no limit, and a dead
        peer is mute: a session whose time is over is closed from here.
        """
        channel = patiently(op, self._gone)(self._session, op)
        watch = WATCHDOG.after(op.left + GRACE_S, lambda: self._give_up(channel))
        try:
            yield channel
        finally:
            watch.cancel()
            channel.close()
            self._release()

    @property
    def is_idle(self) -> bool:
        """Whether it has no session."""
        return self._open == 0

    @property
    def is_roomy(self) -> bool:
        """Whether a session may be kept open without taking the last one."""
        return self._limit > 1

    def keep(self, op: Operation) -> paramiko.Channel:
        """Open a session until `let_go`; LostError as for any session."""
        channel = patiently(op, self._gone)(self._session, op)
        with self._free:
            self._kept.add(channel)
        return channel

    def let_go(self, channel: paramiko.Channel) -> None:
        """Close a session that was kept."""
        with self._free:
            if channel not in self._kept:
                return
            self._kept.discard(channel)
        channel.close()
        self._release()

    def _give_up(self, channel: paramiko.Channel) -> None:
        """Close a session that is mute, and use the connection for no new one.

        Replies to sessions that are open may still come.
        """
        self._retired = True
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            channel.close()

    def _session(self, op: Operation) -> paramiko.Channel:
        with self._free:
            if not self._free.wait_for(lambda: self._open < self._limit or not self.alive, op.left):
                message = f"no free session within {op.timeout:.0f} s: {self._limit} are in use"
                op.fail("connect", message, "raise `MaxSessions` in sshd_config of the machine")
            self._open += 1
        try:
            return self.transport.open_session(timeout=min(_OPEN_S, op.left))
        except (paramiko.SSHException, EOFError, OSError) as error:
            self._release()
            if self.alive and "Timeout" not in str(error):
                self._learn_limit()
                message = f"sshd opens no more sessions on this connection: {str(error).lower()}"
                hint = "`MaxSessions` in sshd_config of the machine must be at least 1"
                raise op.error("connect", message, hint, kind=DroppedError) from error
            self.retire()
            message = f"the connection was lost: {str(error) or type(error).__name__}"
            raise op.error("connect", message, kind=LostError) from error

    def answers(self) -> bool:
        """Whether its sshd replies: it opens or refuses a session within seconds."""
        try:
            self.transport.open_session(timeout=_ANSWER_S).close()
        except paramiko.ChannelException:
            return True
        except (paramiko.SSHException, EOFError, OSError):
            return False
        return True

    def _learn_limit(self) -> None:
        """Take the number of open sessions as the limit, after a refusal.

        Other sessions wait for one of these to end.
        """
        with self._free:
            self._limit = max(1, min(self._limit, self._open))
            kept = () if self._limit > len(self._kept) else tuple(self._kept)
        for channel in kept:  # its holder continues without it; the threads that wait would not
            self.let_go(channel)

    def _release(self) -> None:
        with self._free:
            self._open -= 1
            last = self._retired and self._open == 0
            self._free.notify()
        if last:
            self.cut()

    def retire(self) -> None:
        """Take no more sessions, and close with the last of them."""
        with self._free:
            self._retired = True
            idle = self._open == 0
            self._free.notify_all()
        if idle:
            self.cut()

    def cut(self) -> None:
        """Close it at once; what runs on the machine goes on."""
        self._gone.set()
        self._way.close()
        self.transport.close()
        with self._free:
            self._free.notify_all()
