"""The shell of a machine over SSH: kept connections, verified hosts, deadlines."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from launcher.core.model.inventory import Access
from launcher.ports import Completed, LearntKey, Take, Talk
from launcher.ports import Stdin as Input
from launcher.transport.ssh import command, terminal
from launcher.transport.ssh.config import Resolver
from launcher.transport.ssh.dial import Dialler
from launcher.transport.ssh.exchange import Stdin, exchange
from launcher.transport.ssh.host_keys import HostKey, HostKeys
from launcher.transport.ssh.operation import LoginError, LostError, Operation, tail
from launcher.transport.ssh.pool import KEPT, ConnectionPool
from launcher.transport.ssh.talk import KeptTalk, SingleTalk

KNOWN_HOSTS = "known_hosts"
TERMINAL_S = 30.0
STUCK_S = 30.0
"""Seconds for which a login that came to no command is not tried again."""


class SshShell:
    """Runs commands and writes files on machines over SSH.

    `home` keeps the host keys that are learnt; with `strict` none is. So many connections are `kept` without a session.
    """

    def __init__(self, home: Path, *, strict: bool = False, kept: int = KEPT) -> None:
        self._resolver = Resolver(home, strict=strict)
        self._keys = HostKeys(home / KNOWN_HOSTS)
        self._dialler = Dialler(self._keys)
        self._stuck: dict[Access, tuple[LoginError, float]] = {}
        self._links = ConnectionPool(self._resolver.resolve, self._dialler.dial, kept)

    def run(
        self,
        at: Access,
        argv: Sequence[str],
        *,
        stdin: Input = b"",
        timeout: float,
        take: Take | None = None,
    ) -> Completed:
        """Run a command to its end.

        RemoteError where the machine is not reached or the time is over.
        """
        return self._run(at, argv, (stdin,), Operation(at.address, timeout), take)

    def put(self, at: Access, folder: str, files: Mapping[str, tuple[bytes, int]], *, timeout: float) -> None:
        """Write files below a folder (0700), all of them or none.

        Each by a rename; RemoteError where not possible.
        """
        op = Operation(at.address, timeout)
        argv = [at.python or "python3", "-EsS", "-c", command.UNPACK, folder]
        ended = self._run(at, argv, (command.packed(files),), op)
        if ended.status != 0:
            said = tail(ended.stderr)
            message = f"cannot write to `{folder}`: {said[-1] if said else f'status {ended.status}'}"
            op.fail("put", message, tail=said)

    def converse(self, at: Access, argv: Sequence[str], *, timeout: float, knock: float) -> Talk:
        """Start a program to speak with, on a session of a kept connection.

        RemoteError where the machine is not reached. Where sshd allows no session besides, each thing that is sent has
        a session of its own.
        """
        op = Operation(at.address, timeout, knock)
        link = self._links.link(at, op)
        if not link.is_roomy:
            return SingleTalk(lambda data: self.run(at, argv, stdin=data, timeout=timeout).stdout)
        try:
            return KeptTalk(link, op, argv)
        except LostError:
            return KeptTalk(self._links.link(at, op), op, argv)

    def terminal(self, at: Access, argv: Sequence[str]) -> tuple[str, ...]:
        """Return the `ssh` command that runs a command at a terminal.

        RemoteError where the machine is not reached. It is reached first, so that its host key, and those on the way,
        are verified and known to `ssh` as well.
        """
        op = Operation(at.address, TERMINAL_S)
        settings = self._resolver.resolve(at, op)
        link = self._links.link(at, op)
        if settings.pin is not None:
            shown = link.transport.get_remote_server_key()
            self._keys.replace(settings.known_as, HostKey(shown.get_name(), shown.asbytes()))
        return terminal.argv(settings, self._keys.own, argv)

    def take_learnt(self) -> Sequence[LearntKey]:
        """Return the host keys that were learnt since the last call."""
        taken = list(self._keys.learnt)
        del self._keys.learnt[: len(taken)]
        return taken

    def close(self) -> None:
        """Close every connection, also those that are being made.

        What runs on the machines goes on.
        """
        self._links.close()
        self._dialler.close()

    def _run(self, at: Access, argv: Sequence[str], stdin: Stdin, op: Operation, take: Take | None = None) -> Completed:
        with self._remembered(at):
            try:
                return self._once(at, argv, stdin, op, take)
            except LostError:
                return self._once(at, argv, stdin, op, take)  # the connection was dead, and nothing was begun on it

    @contextlib.contextmanager
    def _remembered(self, at: Access) -> Iterator[None]:
        """Fail at once where a login did not end a moment ago: a launch asks a node many times."""
        error, at_s = self._stuck.get(at, (None, 0.0))
        if error is not None and time.monotonic() - at_s < STUCK_S:
            raise error.with_traceback(None)
        try:
            yield
        except LoginError as found:
            self._stuck[at] = (found, time.monotonic())
            raise

    def _once(self, at: Access, argv: Sequence[str], stdin: Stdin, op: Operation, take: Take | None) -> Completed:
        link = self._links.link(at, op)
        with link.session(op) as channel:
            return exchange(link, channel, argv, stdin, op, take)
