"""The shell of a machine that is this one: subprocesses and files."""

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn

from launcher.core.model.inventory import Access
from launcher.errors import LaunchError, RemoteError
from launcher.ports import Completed, Stdin, Take, Talk
from launcher.transport.bounded import STDERR, STDOUT, KeptOutput, TooMuch
from launcher.transport.private import make_private

_PART = 1 << 16


HANG_UP_S = 10.0
"""How long a process may take to end what it started, once nobody reads it any more (s)."""


class LocalShell:
    """Runs commands in sessions of their own.

    So a time-out ends all that they started.
    """

    def run(
        self, at: Access, argv: Sequence[str], *, stdin: Stdin = b"", timeout: float, take: Take | None = None
    ) -> Completed:
        """Run a command to its end.

        RemoteError after `timeout` seconds, or where it cannot be started.
        """
        begun = time.monotonic()
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise RemoteError(
                f"cannot start `{argv[0]}`: {error.strerror}", node=at.address, stage="command"
            ) from error
        with process:

            def too_much(what: str) -> NoReturn:
                raise RemoteError(f"`{argv[0]}` {what}", node=at.address, stage="command")

            try:
                stdout, stderr = _streams(process, stdin, timeout, take, too_much)
            except LaunchError:
                _hang_up(process)
                raise
            except subprocess.TimeoutExpired as error:
                os.killpg(process.pid, signal.SIGKILL)
                elapsed = time.monotonic() - begun
                message = f"`{argv[0]}` did not end within {timeout:.0f} s"
                raise RemoteError(message, node=at.address, stage="command", elapsed=elapsed) from error
        # A signal reads 128 + n, as from every shell.
        status = process.returncode if process.returncode >= 0 else 128 - process.returncode
        return Completed(status=status, stdout=stdout, stderr=stderr)

    def put(self, at: Access, folder: str, files: Mapping[str, tuple[bytes, int]], *, timeout: float) -> None:
        """Write files below a folder (0700), each by a rename.

        RemoteError where that is impossible.
        """
        del timeout  # a local disk has none
        try:
            for name, (content, mode) in files.items():
                _write(Path(folder) / name, content, mode)
        except OSError as error:
            message = f"cannot write to `{folder}`: {error.strerror}"
            raise RemoteError(message, node=at.address, stage="put") from error

    def converse(self, at: Access, argv: Sequence[str], *, timeout: float, knock: float) -> Talk:
        """Start a program to speak with."""
        del timeout, knock  # a process starts at once
        try:
            return _LocalTalk(argv)
        except OSError as error:
            message = f"cannot start `{argv[0]}`: {error.strerror}"
            raise RemoteError(message, node=at.address, stage="command") from error

    def terminal(self, at: Access, argv: Sequence[str]) -> tuple[str, ...]:
        """Return the command itself: it is this machine's terminal."""
        del at
        return tuple(argv)

    def close(self) -> None:
        """Nothing is kept open."""


class _LocalTalk:
    """A process and its streams."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", bufsize=0, start_new_session=True
        )

    def send(self, data: bytes) -> None:
        """Write to its stdin."""
        assert self._process.stdin
        with contextlib.suppress(OSError, ValueError):  # it has ended: its stdout says so
            self._process.stdin.write(data)

    def read(self) -> bytes:
        """Return what it wrote."""
        assert self._process.stdout
        try:
            return os.read(self._process.stdout.fileno(), _PART)
        except (OSError, ValueError):
            return b""

    def last_words(self) -> str:
        """Return how it ended."""
        return f"the relay on this machine ended with {self._process.wait()}"

    def give_up(self) -> None:
        """End it."""
        self._process.kill()

    def close(self) -> None:
        """End it, and wait for its end."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()


def _hang_up(process: "subprocess.Popen[bytes]") -> None:
    """Close a process's streams, as a lost connection does.

    It may clean up before it is killed.
    """
    for pipe in (process.stdout, process.stderr):
        if pipe:
            pipe.close()
    try:
        process.wait(HANG_UP_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


def _streams(
    process: "subprocess.Popen[bytes]", stdin: Stdin, timeout: float, take: Take | None, too_much: TooMuch
) -> tuple[bytes, bytes]:
    """Return what a process writes to its end.

    Without the stdout that was taken; TimeoutExpired as `communicate`, RemoteError where it writes too much.
    """

    stdout, stderr = KeptOutput("stdout", STDOUT, too_much), KeptOutput("stderr", STDERR, too_much)
    assert process.stdin
    assert process.stdout
    assert process.stderr
    feeder = threading.Thread(target=_feed, args=(process.stdin, stdin), daemon=True, name="stdin")
    feeder.start()
    deadline, hear = time.monotonic() + timeout, take or stdout.add
    with selectors.DefaultSelector() as selector:
        for source in (process.stdout, process.stderr):
            selector.register(source, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired(process.args, timeout)
            for key, _ in selector.select(left):
                part = os.read(key.fd, _PART)
                if not part:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    hear(part)
                else:
                    stderr.add(part)
    process.wait(max(0.1, deadline - time.monotonic()))
    return bytes(stdout.data), bytes(stderr.data)


def _feed(pipe: IO[bytes], data: Stdin) -> None:
    try:
        with pipe:
            pipe.write(data)
    except BrokenPipeError:
        return  # it ended without reading: its exit status tells why


def _write(target: Path, content: bytes, mode: int) -> None:
    make_private(target.parent)
    # Two writers at once must not share a file before either renames it.
    partial = target.with_name(f".{target.name}.{os.getpid()}.{time.monotonic_ns()}")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
    partial.replace(target)
