"""A program on a machine, spoken to over a session of a kept connection."""

import contextlib
import queue
import threading
from collections.abc import Callable, Sequence

import paramiko

from launcher.errors import LaunchError
from launcher.transport.bounded import last_lines
from launcher.transport.ssh import command
from launcher.transport.ssh.connections import Connection
from launcher.transport.ssh.operation import Operation

_PART = 1 << 20
_BEFORE = 1 << 20
"""Bytes that start-up files of a login shell may print before the program begins."""


class KeptTalk:
    """A session of its own, open as long as both sides want."""

    def __init__(self, link: Connection, op: Operation, argv: Sequence[str]) -> None:
        self._link = link
        self._channel = link.keep(op)
        self._before: bytes | None = b""
        self._mute = False
        try:
            self._channel.settimeout(op.left)
            self._channel.exec_command(command.kept(argv))
        except (paramiko.SSHException, EOFError, OSError) as error:
            self.give_up()
            raise op.error("command", f"the connection was lost: {str(error) or type(error).__name__}") from error

    def send(self, data: bytes) -> None:
        """Write to its stdin."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):  # the reader reports it
            self._channel.sendall(data)

    def read(self) -> bytes:
        """Return what the program wrote, without what a login printed before."""
        self._channel.settimeout(None)
        while True:
            try:
                part = self._channel.recv(_PART)
            except (OSError, EOFError, paramiko.SSHException):
                return b""
            if self._before is None or not part:
                return part
            self._before += part
            own = command.output(self._before)
            if own is None and len(self._before) > _BEFORE:
                return b""
            if own is not None:
                self._before = None
                if own:
                    return own

    def last_words(self) -> str:
        """Return why it ended."""
        if self._mute:
            return "no reply over an open connection"
        if self._before is not None:
            said = last_lines(self._before, 1)
            return f"the login shell runs no commands: {said[0] if said else 'it ended at once'}"
        if self._link.transport.is_active():
            return "the relay on the machine has ended"
        return "the connection was lost"

    def give_up(self) -> None:
        """Begin nothing more on this connection, and close the session."""
        self._mute = True
        self._link.retire()
        self._link.let_go(self._channel)

    def close(self) -> None:
        """Close the session."""
        self._link.let_go(self._channel)


class SingleTalk:
    """The same where a machine allows one session at a time.

    Each thing that is sent is a program's whole stdin.
    """

    def __init__(self, run: Callable[[bytes], bytes]) -> None:
        self._run = run
        self._said: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._why = "it was closed"

    def send(self, data: bytes) -> None:
        """Run the program once."""
        threading.Thread(target=self._once, args=(data,), name="once", daemon=True).start()

    def _once(self, data: bytes) -> None:
        try:
            self._said.put(self._run(data))
        except LaunchError as error:
            self._why = error.advice
            self._said.put(b"")

    def read(self) -> bytes:
        """Return what a program wrote to its end."""
        return self._said.get()

    def last_words(self) -> str:
        """Return why it ended."""
        return self._why

    def give_up(self) -> None:
        """Wait for nothing more."""
        self._said.put(b"")

    def close(self) -> None:
        """Wait for nothing more."""
        self._said.put(b"")
