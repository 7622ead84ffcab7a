"""The launcher's own SSH shell over stand-in connections: everything but encryption and sshd is as with real machines.

A connection is one socket, and one thread reads all of them. What goes over them, and how many there are, is counted.
"""

import itertools
import json
import selectors
import socket
import threading
from pathlib import Path
from typing import Any

from paramiko.buffered_pipe import BufferedPipe, PipeTimeout

from launcher.core.model.inventory import Access
from launcher.transport.ssh.config import Settings
from launcher.transport.ssh.connections import Connection
from launcher.transport.ssh.operation import Operation
from launcher.transport.ssh.pool import ConnectionPool
from launcher.transport.ssh.shell import SshShell
from tests.standin.frames import CONTROL, Kind, Pieces, piece

PART = 1 << 18


class Traffic:
    """Counts bytes and connections of this process. `most` is the largest number at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.bytes = self.open = self.most = self.made = 0

    def add(self, size: int) -> None:
        """Count bytes."""
        with self._lock:
            self.bytes += size

    def opened(self, by: int) -> None:
        """Count a connection that was made (1) or closed (-1)."""
        with self._lock:
            self.open += by
            self.made += by > 0
            self.most = max(self.most, self.open)


class Reader:
    """Reads all connections in one thread."""

    def __init__(self) -> None:
        self._chosen = selectors.DefaultSelector()
        threading.Thread(target=self._read, name="wires", daemon=True).start()
        self._lock = threading.Lock()

    def add(self, transport: "StandInTransport") -> None:
        """Read a connection too."""
        self._chosen.register(transport.pipe, selectors.EVENT_READ, transport)

    def remove(self, transport: "StandInTransport") -> None:
        """Read it no more."""
        self._chosen.unregister(transport.pipe)

    def _read(self) -> None:
        while True:
            for key, _ in self._chosen.select(0.5):
                try:
                    part = key.data.pipe.recv(PART)
                except OSError:
                    part = b""
                if part:
                    key.data.take(part)
                else:
                    key.data.close()


class StandInTransport:
    """Takes the place of `paramiko.Transport` after a login."""

    def __init__(self, path: str, address: str, traffic: Traffic, reader: Reader) -> None:
        self.pipe = socket.socket(socket.AF_UNIX)
        self.pipe.connect(path)
        self._traffic = traffic
        self._reader = reader
        self._sending = threading.Lock()
        self._numbers = itertools.count(1)
        self._pieces = Pieces()
        self._active = True
        self.channels: dict[int, StandInChannel] = {}
        traffic.opened(1)
        self.send(0, Kind.HELLO, address.encode())
        reader.add(self)

    def is_active(self) -> bool:
        """Whether it is open."""
        return self._active

    def get_username(self) -> str:
        """Return the user."""
        return "bench"

    def open_session(self, timeout: float) -> "StandInChannel":
        """Open a session."""
        del timeout
        if not self._active:
            raise EOFError
        number = next(self._numbers)
        channel = self.channels[number] = StandInChannel(self, number)
        return channel

    def send(self, number: int, kind: Kind, content: bytes = b"") -> None:
        """Send a piece of a session."""
        self._traffic.add(len(content))
        with self._sending:
            self.pipe.sendall(piece(number, kind, content))

    def take(self, part: bytes) -> None:
        """Give pieces to their sessions."""
        for number, kind, content in self._pieces.take(part):
            self._traffic.add(len(content))
            if channel := self.channels.get(number):
                channel.take(kind, content)

    def close(self) -> None:
        """Close it, and all of its sessions."""
        with self._sending:
            if not self._active:
                return
            self._active = False
            self._reader.remove(self)
            self.pipe.close()
        self._traffic.opened(-1)
        for channel in list(self.channels.values()):
            channel.end()


class StandInChannel:
    """Takes the place of `paramiko.Channel`."""

    def __init__(self, transport: StandInTransport, number: int) -> None:
        self.in_buffer: Any = BufferedPipe()
        self.in_stderr_buffer: Any = BufferedPipe()
        self.status_event = threading.Event()
        self.exit_status = -1
        self.closed = self.eof_received = False
        self._transport = transport
        self._number = number
        self._timeout: float | None = None

    def exec_command(self, line: str) -> None:
        """Run a line."""
        self._send(Kind.OPEN, line.encode())

    def _send(self, kind: Kind, content: bytes = b"") -> None:
        if self.closed:
            raise OSError("Socket is closed")
        self._transport.send(self._number, kind, content)

    def take(self, kind: int, content: bytes) -> None:
        """Take in a piece."""
        if kind == Kind.DATA:
            self.in_buffer.feed(content)
        elif kind == Kind.ERROR:
            self.in_stderr_buffer.feed(content)
        else:
            self.exit_status = int(content)
            self.end()

    def end(self) -> None:
        """Take it for ended."""
        self.eof_received = True
        self.status_event.set()
        self.in_buffer.close()
        self.in_stderr_buffer.close()

    def settimeout(self, timeout: float | None) -> None:
        """Bound how long a read may take."""
        self._timeout = timeout

    def send(self, data: bytes) -> int:
        """Write to stdin."""
        self._send(Kind.DATA, data)
        return len(data)

    sendall = send

    def shutdown_write(self) -> None:
        """End stdin."""
        self._send(Kind.EOF)

    def recv_ready(self) -> bool:
        """Whether stdout has something."""
        return bool(self.in_buffer.read_ready())

    def recv_stderr_ready(self) -> bool:
        """Whether stderr has something."""
        return bool(self.in_stderr_buffer.read_ready())

    def recv(self, size: int) -> bytes:
        """Read stdout."""
        try:
            found: bytes = self.in_buffer.read(size, self._timeout)
        except PipeTimeout:
            raise TimeoutError from None
        return found

    def recv_stderr(self, size: int) -> bytes:
        """Read stderr."""
        found: bytes = self.in_stderr_buffer.read(size, self._timeout)
        return found

    def recv_exit_status(self) -> int:
        """Return the status, once there is one."""
        self.status_event.wait()
        return self.exit_status

    def close(self) -> None:
        """Close the session."""
        if self.closed:
            return
        if self._transport.is_active() and not self.eof_received:
            self._send(Kind.CLOSE)
        self.closed = True
        self._transport.channels.pop(self._number, None)
        self.end()


class _Way:
    """What has to end with a connection: nothing."""

    def close(self) -> None:
        """Nothing."""


class StandInShell(SshShell):
    """An SSH shell whose connections end at the stand-in machines."""

    def __init__(self, home: Path, path: str, traffic: Traffic, reader: Reader, kept: int) -> None:
        super().__init__(home)
        self._path, self._traffic, self._reader = path, traffic, reader
        self._links = ConnectionPool(self._settings, self._dial, kept)

    def _settings(self, at: Access, op: Operation) -> Settings:
        del op
        return Settings(address=at.address, hostname=at.address, port=22, user="bench", known_as=at.address)

    def _dial(self, settings: Settings, link_to: object, op: Operation) -> Connection:
        del link_to, op
        transport: Any = StandInTransport(self._path, settings.address, self._traffic, self._reader)
        way: Any = _Way()
        return Connection(transport, way)


def order(path: str, told: dict[str, Any]) -> None:
    """Ask the machines for faults; return once they have them."""
    with socket.socket(socket.AF_UNIX) as pipe:
        pipe.connect(path)
        pipe.sendall(piece(0, Kind.HELLO, CONTROL.encode()) + piece(1, Kind.DATA, json.dumps(told).encode()))
        pipe.recv(PART)
