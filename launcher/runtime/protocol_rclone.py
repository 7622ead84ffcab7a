"""What launcher and nodes agree on of rclone: how its program is known, how it copies, and what its log says of that.

A part of `protocol.py`.
"""

import hashlib
import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeAlias

LOGGED = ("--use-json-log", "--stats", "2s", "--stats-log-level", "NOTICE")
"""Options with which rclone logs as `CopyLog` reads it."""
READ = 1 << 16
"""Characters of a line that are read at once: what a server says may be long."""
SHOWN = 20
"""Lines of rclone's own messages that are shown."""
LINE = 500
QUIET_S = 30.0
"""Seconds without progress after which that is said."""
STALLED_S = 600.0
"""Seconds without progress after which the copy is given up: rclone itself would try for over an hour."""


Tell: TypeAlias = Callable[[int, int, str], object]
"""Is given the bytes that are copied, those that there are, and what else is to be said of a copy."""


class CopyError(Exception):
    """A bucket cannot be copied; the message says why."""


class CopyLog:
    """What rclone logs while it copies: `tell` is given how far it is, `show` each of the first messages.

    `last` is the last error.
    """

    def __init__(self, tell: Tell, show: Callable[[str], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._tell = tell
        self._show = show
        self._clock = clock
        self._moved_at = clock()
        self._moved: tuple[Any, ...] = ()
        self._count = 0
        self.last = ""

    def follow(self, stream: IO[str]) -> None:
        """Read a log to its end; CopyError as of `read`."""
        while line := stream.readline(READ):
            self.read(line)

    def read(self, line: str) -> None:
        """Take in a line; CopyError once nothing has been copied for `STALLED_S`."""
        try:
            entry = json.loads(line)
            level, stats = entry.get("level"), entry.get("stats")
        except (ValueError, AttributeError, RecursionError):
            self._say(line.strip())
            return
        if isinstance(stats, dict):
            self._heed(stats)
        elif level in ("error", "warning", "fatal", "critical"):
            what = f"{entry['object']}: " if "object" in entry else ""
            self._say(f"{what}{str(entry.get('msg', '')).strip()}")

    def _heed(self, stats: Mapping[str, Any]) -> None:
        now = self._clock()
        moved = tuple(stats.get(name) for name in ("bytes", "transfers", "checks", "listed"))
        if moved != self._moved or stats.get("checking"):  # a large file that is there already is read here
            self._moved, self._moved_at = moved, now
        quiet = now - self._moved_at
        if quiet >= STALLED_S:
            raise CopyError(f"nothing has been copied for {quiet:.0f} s")
        if stats.get("lastError"):
            self.last = str(stats["lastError"])[:LINE]
        self._tell(_number(stats, "bytes"), _number(stats, "totalBytes"), _quiet(quiet))

    def _say(self, message: str) -> None:
        if not message:
            return
        self.last = message[:LINE]
        self._count += 1
        if self._count <= SHOWN:
            self._show(self.last)
        elif self._count == SHOWN + 1:
            self._show("further messages are not shown")


def copied(argv: Sequence[str], env: Mapping[str, str], log: CopyLog, umask: int = -1) -> int:
    """Run a copy of rclone, with the options `LOGGED`, to its end and read its log; return its exit status.

    CopyError as of `CopyLog.read`, OSError; whatever ends this ends rclone. A `umask` of -1 is that of this process.
    """
    with subprocess.Popen(
        argv,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        umask=umask,
        text=True,
        errors="replace",
    ) as running:
        assert running.stderr is not None
        try:
            log.follow(running.stderr)
        except BaseException:  # Ctrl-C too
            running.kill()
            raise
    return running.returncode


def program_hash(path: Path) -> str:
    """Return the hash by which a program is known: SHA-256 of the file; OSError."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            found.update(part)
    return found.hexdigest()


def _number(stats: Mapping[str, Any], name: str) -> int:
    value = stats.get(name)
    return value if isinstance(value, int) else 0


def _quiet(seconds: float) -> str:
    """Return how long nothing has been copied, in few steps; empty for a short time."""
    if seconds < QUIET_S:
        return ""
    return f"; nothing new for {f'{seconds // 60:.0f} min' if seconds >= 60 else '30 s'}"
