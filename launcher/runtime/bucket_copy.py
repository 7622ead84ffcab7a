"""Copies one bucket, or one file of a web server, to the node, and says how far it is."""

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import bucket_commands
from .protocol_buckets import BucketSpec

SHOWN = 20
"""Lines of rclone's own messages that are shown."""
LINE = 500
READ = 1 << 16
"""Characters of a line that are read at once: what a server says may be long."""
QUIET_S = 30.0
"""Seconds without progress after which that is said."""
STALLED_S = 600.0
"""Seconds without progress after which the copy is given up: rclone itself would try for over an hour."""
_NO_ROOM = "max transfer limit reached"
_RESERVE = 1 << 30


class CopyError(Exception):
    """A bucket cannot be copied; the message says why."""


class CopyLog:
    """What rclone logs while it copies: `tell` is given how far it is, `show` each of the first messages.

    `last` is the last error.
    """

    def __init__(
        self, tell: Callable[[str], object], show: Callable[[str], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tell = tell
        self._show = show
        self._clock = clock
        self._moved_at = clock()
        self._moved: tuple[Any, ...] = ()
        self._count = 0
        self.last = ""

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
        self._tell(progress(stats) + (f"; nothing new for {quiet:.0f} s" if quiet >= QUIET_S else ""))

    def _say(self, message: str) -> None:
        if not message:
            return
        self.last = message[:LINE]
        self._count += 1
        if self._count <= SHOWN:
            self._show(self.last)
        elif self._count == SHOWN + 1:
            self._show("further messages are not shown")


def copy(
    program: str,
    bucket: BucketSpec,
    to: str,
    env: Mapping[str, str],
    umask: int,
    tell: Callable[[str], object],
    show: Callable[[str], object],
) -> None:
    """Copy a bucket to a path; CopyError, OSError."""
    Path(to).parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(Path(to).parent).free
    log = CopyLog(tell, show)
    argv = bucket_commands.copy(program, bucket, to, max(1, free - min(_RESERVE, free // 20)))
    with subprocess.Popen(
        argv,
        env=env,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        umask=umask,
        text=True,
        errors="replace",
    ) as running:
        assert running.stderr is not None
        try:
            while line := running.stderr.readline(READ):
                log.read(line)
        except (CopyError, OSError):
            running.kill()
            raise
    if running.returncode != 0:
        if _NO_ROOM in log.last:
            raise CopyError(f"it does not fit: {amount(free)} are free there")
        raise CopyError(log.last or f"rclone ended with {running.returncode}")


def progress(stats: Mapping[str, Any]) -> str:
    """Return how far a copy is, from the numbers that rclone logs."""
    done, size = stats.get("transfers", 0), stats.get("totalTransfers", 0)
    return f"{done} of {size} files, {amount(stats.get('bytes', 0))} of {amount(stats.get('totalBytes', 0))}"


def amount(size: float) -> str:
    """Return a number of bytes for people."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit in ("B", "KB") else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
