"""One command in one session: its streams, its end, and its errors."""

import threading
from collections.abc import Iterable, Sequence
from typing import NoReturn

import paramiko

from launcher.ports import Completed, Take
from launcher.transport.bounded import STDERR, STDOUT, KeptOutput
from launcher.transport.ssh import command
from launcher.transport.ssh.connections import GRACE_S, Connection
from launcher.transport.ssh.operation import Operation, tail
from launcher.transport.ssh.route import Bell

_AT_ONCE = 1 << 16  # bytes of stdin that fit into sshd's window (2 MiB): no thread is needed to send them
_PART = 1 << 20
BANNER = 2 << 20
"""Bytes that start-up files of a login shell may print before a command whose stdout is passed on."""
_PACKET = 32_000  # what one packet of SSH holds: more would be copied again and again

Stdin = Sequence[bytes | memoryview]


class _Stdout:
    """What a command itself writes, after the mark.

    It is kept, or passed to `take` as it comes; what is kept has a limit.
    """

    def __init__(self, take: Take | None, kept: KeptOutput) -> None:
        self.kept = kept
        self._take = take
        self._begun = False

    def add(self, part: bytes) -> None:
        if self._take is not None and self._begun:
            self._take(part)
            return
        self.kept.add(part)
        if self._take is None:
            return
        data = self.kept.data
        mark = data.find(command.MARK, max(0, len(data) - len(part) - len(command.MARK)))
        if mark >= 0:
            self._begun = True
            own = bytes(data[mark + len(command.MARK) :])
            del data[mark + len(command.MARK) :]
            self._take(own)


def exchange(
    link: Connection,
    channel: paramiko.Channel,
    argv: Sequence[str],
    stdin: Stdin,
    op: Operation,
    take: Take | None = None,
) -> Completed:
    """Return the end of a command.

    RemoteError where it did not end in time or the connection was lost.
    """
    limit = op.left
    begun = op.elapsed
    bell = Bell()
    channel.in_buffer.set_event(bell)
    channel.in_stderr_buffer.set_event(bell)
    try:
        channel.exec_command(command.line(argv, limit))
        _feed(channel, stdin, limit + GRACE_S)

        def too_much(what: str) -> NoReturn:
            op.fail("command", f"`{argv[0]}` {what}")

        kept = KeptOutput("stdout", STDOUT if take is None else BANNER, too_much)
        stdout, stderr = _drain(channel, bell, op, _Stdout(take, kept), KeptOutput("stderr", STDERR, too_much))
        channel.status_event.wait(op.left + GRACE_S)
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise _lost(op, begun, b"", str(error)) from error
    status = channel.exit_status
    own = command.output(stdout)
    took = op.elapsed - begun
    if status == command.KILLED and took >= limit:
        op.fail("command", f"`{argv[0]}` did not end within {op.timeout:.0f} s", tail=tail(stderr))
    if status == -1 and (op.left == 0 or not link.transport.is_active()):
        raise _lost(op, begun, stderr, "")
    if own is None:
        _not_begun(stdout, stderr, status, op)
    if status in (126, 127) and stderr.startswith(b"timeout: failed to run command"):
        reason = tail(stderr)[0].rsplit(": ", 1)[-1]
        op.fail("command", f"cannot start `{argv[0]}`: {reason}")
    return Completed(status=command.KILLED if status == -1 else status, stdout=own, stderr=stderr)


def _feed(channel: paramiko.Channel, stdin: Stdin, limit: float) -> None:
    """Send stdin, in a thread of its own if it is large.

    A command may write before it has read it all.
    """
    channel.settimeout(limit)
    if sum(len(part) for part in stdin) <= _AT_ONCE:
        _send(channel, (b"".join(stdin),))
        return
    threading.Thread(target=_send, args=(channel, stdin), daemon=True, name="stdin").start()


def _send(channel: paramiko.Channel, stdin: Iterable[bytes | memoryview]) -> None:
    try:
        for part in stdin:
            view = memoryview(part)
            while view:
                view = view[channel.send(bytes(view[:_PACKET])) :]
        channel.shutdown_write()
    except (OSError, EOFError, paramiko.SSHException):
        return  # it ended without reading: its exit status tells why


def _drain(
    channel: paramiko.Channel, bell: Bell, op: Operation, stdout: _Stdout, stderr: KeptOutput
) -> tuple[bytes, bytes]:
    while True:
        over = channel.closed or channel.eof_received
        while channel.recv_ready():
            stdout.add(channel.recv(_PART))
        while channel.recv_stderr_ready():
            stderr.add(channel.recv_stderr(_PART))
        if over or (not bell.wait(op.left + GRACE_S) and op.left == 0):
            return bytes(stdout.kept.data), bytes(stderr.data)


def _lost(op: Operation, begun: float, stderr: bytes, why: str) -> Exception:
    took = op.elapsed - begun
    said = f": {why}" if why else ""
    message = f"the connection was lost {took:.0f} s into the command{said}"
    if op.left == 0:
        message = f"no reply from the command within {op.timeout:.0f} s, and the connection was closed"
    return op.error("command", message, "it may have run: check before running it again", tail=tail(stderr))


def _not_begun(stdout: bytes, stderr: bytes, status: int, op: Operation) -> NoReturn:
    """Raise RemoteError for a login that runs no commands.

    `nologin`, a forced command, an expired account.
    """
    said = tail(stdout + b"\n" + stderr)
    message = f"the login shell runs no commands: {said[-1] if said else f'it ended with {status}'}"
    op.fail("command", message, "give the user a login shell that runs `/bin/sh -c`", tail=said)
