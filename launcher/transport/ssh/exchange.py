"""One command in one session: its streams, its end, and its errors."""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

import paramiko

from launcher.ports import Completed, Take
from launcher.transport.bounded import STDERR, STDOUT, KeptOutput, TooMuch
from launcher.transport.ssh import command
from launcher.transport.ssh.connections import GRACE_S, Connection
from launcher.transport.ssh.operation import LoginError, Operation, tail
from launcher.transport.ssh.route import Bell

_AT_ONCE = 1 << 16  # bytes of stdin that fit into sshd's window (2 MiB): no thread is needed to send them
_PART = 1 << 20
BANNER = 2 << 20
"""Bytes that start-up files of a login shell may print before a command whose stdout is passed on."""
_PACKET = 32_000  # what one packet of SSH holds: more would be copied again and again

Stdin = Sequence[bytes | memoryview]


class _Stdout:
    """What a command itself writes, after the mark: kept, or passed to `take` as it comes.

    Before the mark, `kept` has what start-up files print. Both have a limit.
    """

    def __init__(self, mark: str, take: Take | None, too_much: TooMuch) -> None:
        self.kept = KeptOutput("stdout", BANNER, too_much)
        self.begun = False
        self._mark = mark
        self._take = take
        self._too_much = too_much

    def add(self, part: bytes) -> None:
        if not self.begun:
            self.kept.add(part)
            own = command.output(bytes(self.kept.data), self._mark)
            if own is None:
                return
            self.begun, part = True, own
            self.kept = KeptOutput("stdout", STDOUT, self._too_much)
        if self._take is None:
            self.kept.add(part)
        else:
            self._take(part)


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
    user = link.transport.get_username() or ""
    bell, mark = Bell(), command.new_mark()

    def too_much(what: str) -> NoReturn:
        op.fail("command", f"`{argv[0]}` {what}")

    out = _Stdout(mark, take, too_much)
    channel.in_buffer.set_event(bell)
    channel.in_stderr_buffer.set_event(bell)
    try:
        channel.exec_command(command.line(argv, limit, mark, user))
        if not any(stdin):
            channel.shutdown_write()
        stderr_kept = KeptOutput("stderr", STDERR, too_much)
        stdout, stderr = _drain(channel, bell, op, out, stderr_kept, lambda: _feed(channel, stdin, limit + GRACE_S))
        if not out.begun and not (channel.closed or channel.eof_received):
            raise stuck(op, user, stdout + b"\n" + stderr)
        channel.status_event.wait(op.left + GRACE_S)
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise _lost(op, begun, b"", str(error)) from error
    status = channel.exit_status
    took = op.elapsed - begun
    if status == command.KILLED and took >= limit:
        op.fail("command", f"`{argv[0]}` did not end within {op.timeout:.0f} s", tail=tail(stderr))
    if status == -1 and (op.left == 0 or not link.transport.is_active()):
        raise _lost(op, begun, stderr, "")
    if not out.begun:
        raise left(op, user, stdout + b"\n" + stderr, status)
    if status in (126, 127) and stderr.startswith(b"timeout: failed to run command"):
        reason = tail(stderr)[0].rsplit(": ", 1)[-1]
        op.fail("command", f"cannot start `{argv[0]}`: {reason}")
    return Completed(status=command.KILLED if status == -1 else status, stdout=stdout, stderr=stderr)


def _feed(channel: paramiko.Channel, stdin: Stdin, limit: float) -> None:
    """Send stdin, in a thread of its own if it is large: a command may write before it has read it all.

    Called once the command has begun: a start-up file that reads would take it.
    """
    if not any(stdin):
        return
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
    channel: paramiko.Channel,
    bell: Bell,
    op: Operation,
    stdout: _Stdout,
    stderr: KeptOutput,
    feed: Callable[[], None],
) -> tuple[bytes, bytes]:
    """Return what was written until the end, or until the time for it is over; `feed` is called as soon as it began."""
    fed, login = False, op.elapsed + command.LOGIN_S
    while True:
        over = channel.closed or channel.eof_received
        while channel.recv_ready():
            stdout.add(channel.recv(_PART))
        while channel.recv_stderr_ready():
            stderr.add(channel.recv_stderr(_PART))
        if stdout.begun and not fed:
            fed = True
            feed()
        if over:
            break
        if not stdout.begun:
            left = login - op.elapsed
            if left <= 0 or (not bell.wait(min(left, op.left + GRACE_S)) and op.left == 0):
                break
        elif not bell.wait(op.left + GRACE_S) and op.left == 0:
            break
    return bytes(stdout.kept.data), bytes(stderr.data)


def _lost(op: Operation, begun: float, stderr: bytes, why: str) -> Exception:
    took = op.elapsed - begun
    said = f": {why}" if why else ""
    message = f"the connection was lost {took:.0f} s into the command{said}"
    if op.left == 0:
        message = f"no reply from the command within {op.timeout:.0f} s, and the connection was closed"
    return op.error("command", message, "it may have run: check before running it again", tail=tail(stderr))


def stuck(op: Operation, user: str, printed: bytes) -> LoginError:
    """Return the error for a login that does not come to its command in time."""
    message = f"the login of `{user}` does not end within {min(command.LOGIN_S, op.timeout):.0f} s: `~/.bashrc`?"
    hint = f"see where `ssh {user}@{op.node} true` waits: in a start-up file, or in the login shell itself"
    return _login_error(op, message, hint, printed)


def left(op: Operation, user: str, printed: bytes, status: int) -> LoginError:
    """Return the error for a login that ended before its command.

    `nologin`, a restricted shell, a forced command, an expired account, a start-up file with `exit`.
    """
    said = tail(printed)
    last = said[-1] if said else f"it ended with {status} and printed nothing"
    kinds = {"account is currently not available": "`nologin`", "restricted": "restricted (`rbash`)"}
    kind = next((kind for words, kind in kinds.items() if words in last), None)
    if kind is None:
        message = f"login shell of `{user}` runs no commands: {last}"
        hint = "give the user a shell that does; a start-up file with `exit` or `exec` looks the same: `~/.bashrc`?"
        return _login_error(op, message, hint, printed)
    return _login_error(op, f"login shell of `{user}` is {kind}: {last}", "give the user another login shell", printed)


def _login_error(op: Operation, message: str, hint: str, printed: bytes) -> LoginError:
    error = op.error("command", message, hint, tail=tail(printed), kind=LoginError)
    assert isinstance(error, LoginError)
    return error
