"""The byte stream to a machine's sshd.

A socket, a channel through a jump host, or the user's ProxyCommand.
"""

import contextlib
import errno
import os
import queue
import signal
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from typing import IO, Any

import paramiko

from launcher.core.model.secret_words import secret_values, without_own_words, words_of
from launcher.transport.ssh.config import Settings
from launcher.transport.ssh.operation import DroppedError, Operation, SilentError, tail

Pipe = socket.socket | paramiko.Channel
_Address = tuple[Any, Any, int, str, Any]

_IDLE_S, _PROBES_S, _PROBES = 20, 10, 4
_UNHEARD_S = 60
"""When the kernel gives a connection up: nothing was heard for a minute. Shorter cuts are bridged."""

_POLL_S = 0.1

_OFF = "check that the machine is on, the address right, and no firewall drops packets"


class Route:
    """A byte stream to an sshd, and what has to end with it."""

    def __init__(
        self,
        pipe: Pipe,
        proxy: "subprocess.Popen[bytes] | None" = None,
        said: IO[bytes] | None = None,
        names: frozenset[str] = frozenset(),
    ):
        self.pipe = pipe
        self._names = names
        self._proxy = proxy
        self._said = said

    def await_word(self, op: Operation, patience: float) -> None:
        """Return once the sshd has sent its first bytes, as it does at once.

        A machine that never sends any must not delay others.
        """
        try:
            spoken = _speaks(self.pipe, max(0.001, patience))
        except TimeoutError:
            message = f"connected, but no SSH banner within {patience:.0f} s"
            op.fail("connect", message, "check that sshd answers, and that this is its port", tail=self.last_words())
        except OSError as error:
            raise self._dropped(op, (error.strerror or str(error)).lower()) from error
        if not spoken:
            raise self._dropped(op, "closed before the SSH banner")

    def _dropped(self, op: Operation, why: str) -> DroppedError:
        if self._proxy is None:
            return dropped(op, why)
        hint = "run the ProxyCommand of the SSH configuration by hand: it must pass on what sshd sends"
        return dropped(op, "the ProxyCommand ended", hint, self.last_words())

    def last_words(self) -> tuple[str, ...]:
        """Return what a ProxyCommand wrote to stderr, without the words of its own command line."""
        if self._proxy is None or self._said is None or self._said.closed:
            return ()
        self._said.seek(0)
        command = self._proxy.args
        own = words_of(command[-1]) if isinstance(command, list) else ()
        return without_own_words(tail(self._said.read()), own, secret_values(os.environ), self._names)

    def close(self) -> None:
        """Close it at once, also while another thread reads from it."""
        if not isinstance(self.pipe, paramiko.Channel):
            with contextlib.suppress(OSError):
                self.pipe.shutdown(socket.SHUT_RDWR)
        self.pipe.close()
        if self._proxy is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._proxy.pid, signal.SIGKILL)
            self._proxy.wait()
        if self._said is not None:
            self._said.close()


class Routes:
    """All routes, also those that are being made.

    Closing them does not wait for machines that hang.
    """

    def __init__(self) -> None:
        self.left = threading.Event()
        self._all: weakref.WeakSet[Route] = weakref.WeakSet()
        self._guard = threading.Lock()

    def add(self, way: Route) -> Route:
        """Return the route; closed, if all are closed already."""
        with self._guard:
            self._all.add(way)
        if self.left.is_set():
            way.close()
        return way

    def close(self) -> None:
        """Close them all; threads that wait for one get an error at once."""
        self.left.set()
        with self._guard:
            ways = list(self._all)
        for way in ways:
            way.close()


def direct(settings: Settings, ways: Routes, op: Operation) -> Route:
    """Return a TCP connection to a machine.

    RemoteError says whether it was refused or nothing answered.
    """
    patience = min(settings.connect_s, op.left, op.knock)
    refusal = OSError("it has no address")
    for family, kind, protocol, _, where in _addresses(settings, ways, op, patience):
        link = socket.socket(family, kind, protocol)
        way = ways.add(Route(link))
        try:
            link.settimeout(max(0.001, min(patience, op.left)))
            link.connect(where)
            _tune(link)
            return way
        except OSError as error:
            way.close()
            refusal = error
    message, hint = _why(refusal, settings, patience)
    raise op.error("connect", message, hint)


def _why(error: OSError, settings: Settings, patience: float) -> tuple[str, str]:
    if isinstance(error, TimeoutError) or error.errno == errno.EAGAIN:
        return f"no answer on port {settings.port} within {patience:.0f} s", _OFF
    if isinstance(error, ConnectionRefusedError):
        return f"port {settings.port} refuses connections", "check that sshd runs, on that port"
    return f"cannot connect to port {settings.port}: {(error.strerror or str(error)).lower()}", _OFF


def _addresses(settings: Settings, ways: Routes, op: Operation, patience: float) -> list[_Address]:
    """Return the addresses of a name.

    The resolver has no time limit, so that a thread of its own waits for it.
    """
    asked = (settings.hostname, settings.port, 0, socket.SOCK_STREAM)
    with contextlib.suppress(socket.gaierror):
        return socket.getaddrinfo(*asked, 0, socket.AI_NUMERICHOST)
    answer: queue.SimpleQueue[list[_Address] | OSError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answer.put(socket.getaddrinfo(*asked))
        except (OSError, UnicodeError) as error:
            answer.put(error if isinstance(error, OSError) else OSError(str(error)))

    threading.Thread(target=ask, daemon=True, name="resolve").start()
    found: list[_Address] | OSError = TimeoutError(f"the resolver does not answer within {patience:.0f} s")
    end = time.monotonic() + patience
    while time.monotonic() < end and not ways.left.is_set():
        with contextlib.suppress(queue.Empty):
            found = answer.get(timeout=_POLL_S)
            break
    if isinstance(found, OSError):
        message = f"cannot resolve its name: {(found.strerror or str(found)).lower()}"
        hint = f"add `{settings.hostname}` to DNS, or set the IP address as `address` of the node"
        op.fail("resolve", message, hint)
    return found


def _tune(link: socket.socket) -> None:
    """Let the kernel notice a dead peer.

    Where it lacks an option, deadlines alone notice it.
    """
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    values = (("TCP_KEEPIDLE", _IDLE_S), ("TCP_KEEPINTVL", _PROBES_S), ("TCP_KEEPCNT", _PROBES))
    for name, value in (*values, ("TCP_USER_TIMEOUT", _UNHEARD_S * 1000)):
        if hasattr(socket, name):
            link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def proxied(settings: Settings, op: Operation) -> Route:
    """Return the standard streams of the user's own ProxyCommand.

    An inventory cannot name one.
    """
    ours, theirs = socket.socketpair()
    said = tempfile.TemporaryFile()  # noqa: SIM115 it lives as long as the way
    try:
        proxy = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {settings.proxy_command}"],
            stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=said, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        ours.close()
        said.close()
        op.fail("connect", f"cannot start the ProxyCommand: {error.strerror}")
    finally:
        theirs.close()
    return Route(ours, proxy, said, frozenset((settings.hostname, settings.address)))


def through(transport: paramiko.Transport, settings: Settings, op: Operation) -> Route:
    """Return a channel through a jump host, which connects to the machine itself."""
    patience = min(settings.connect_s, op.left, op.knock)
    jump = settings.via.address if settings.via else ""
    try:
        where = (settings.hostname, settings.port)
        return Route(transport.open_channel("direct-tcpip", where, ("127.0.0.1", 0), timeout=patience))
    except paramiko.ChannelException as error:
        if error.code == 1:
            hint = f"check `AllowTcpForwarding` and `PermitOpen` in sshd_config of `{jump}`"
            op.fail("connect", f"jump host `{jump}` refuses to forward connections", hint)
        op.fail("connect", f"jump host `{jump}` cannot connect to port {settings.port}", _OFF)
    except (paramiko.SSHException, EOFError, OSError) as error:
        if transport.is_active() and "Timeout" not in str(error):  # another thread took the reason
            op.fail("connect", f"jump host `{jump}` cannot connect to port {settings.port}", _OFF)
        if transport.is_active():
            message = f"jump host `{jump}` gets no answer on port {settings.port} within {patience:.0f} s"
            raise op.error("connect", message, _OFF, kind=SilentError) from error
        raise dropped(op, f"jump host `{jump}` closed the connection") from error


_BUSY = "raise `MaxStartups` in its sshd_config: it drops connections when many come at once"


def dropped(op: Operation, why: str, hint: str = _BUSY, said: tuple[str, ...] = ()) -> DroppedError:
    """Return the error for an sshd that closed before the handshake.

    A new attempt may succeed.
    """
    return DroppedError(
        f"no SSH handshake: {why}",
        node=op.node,
        stage="connect",
        elapsed=op.elapsed,
        tail=said,
        hints=(hint,),
    )


def _speaks(pipe: Pipe, patience: float) -> bool:
    """Whether bytes came, which stay unread; false where it was closed.

    TimeoutError where none came.
    """
    if not isinstance(pipe, paramiko.Channel):
        pipe.settimeout(patience)
        return bool(pipe.recv(1, socket.MSG_PEEK))
    bell = Bell()
    pipe.in_buffer.set_event(bell)
    if not bell.wait(patience):
        raise TimeoutError
    return pipe.recv_ready()


class Bell(threading.Event):
    """An event for several buffers: it rings when there is something to read.

    No buffer may silence it for the others.
    """

    def clear(self) -> None:
        """Do nothing: one empty buffer says nothing of the others."""

    def wait(self, timeout: float | None = None) -> bool:
        """Whether it rang; it can ring again."""
        rung = super().wait(timeout)
        super().clear()
        return rung
