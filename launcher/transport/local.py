"""The shell of a machine that is this one: subprocesses and files."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from launcher.core.fleet import Access
from launcher.errors import RemoteError
from launcher.ports import Completed


class LocalShell:
    """Runs commands in sessions of their own, so that a time-out ends all that they started."""

    def run(self, at: Access, argv: Sequence[str], *, stdin: bytes = b"", timeout: float) -> Completed:
        """Run a command to its end; RemoteError after `timeout` seconds or where it cannot be started."""
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
            try:
                stdout, stderr = process.communicate(stdin, timeout=timeout)
            except subprocess.TimeoutExpired as error:
                os.killpg(process.pid, signal.SIGKILL)
                elapsed = time.monotonic() - begun
                words = f"`{argv[0]}` did not end within {timeout:.0f} s"
                raise RemoteError(words, node=at.address, stage="command", elapsed=elapsed) from error
        return Completed(status=process.returncode, stdout=stdout, stderr=stderr)

    def put(self, at: Access, folder: str, files: Mapping[str, tuple[bytes, int]], *, timeout: float) -> None:
        """Write files below a folder (0700), each by rename; RemoteError where that is impossible."""
        del timeout  # a local disk has none
        try:
            for name, (content, mode) in files.items():
                _write(Path(folder) / name, content, mode)
        except OSError as error:
            words = f"cannot write to `{folder}`: {error.strerror}"
            raise RemoteError(words, node=at.address, stage="put") from error

    def close(self) -> None:
        """Nothing is kept open."""


def _write(target: Path, content: bytes, mode: int) -> None:
    for folder in (target.parent.parent, target.parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Two at once must not write into one file before either renames it.
    partial = target.with_name(f".{target.name}.{os.getpid()}.{time.monotonic_ns()}")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
    partial.replace(target)
