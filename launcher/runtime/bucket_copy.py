"""Copies one bucket, or one file of a web server, to the node, and says how far it is."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from . import bucket_commands
from .protocol_buckets import BucketSpec
from .protocol_rclone import CopyError, CopyLog, Tell, copied

_NO_ROOM = "max transfer limit reached"
_RESERVE = 1 << 30


def copy(
    program: str,
    bucket: BucketSpec,
    to: str,
    env: Mapping[str, str],
    umask: int,
    tell: Tell,
    show: Callable[[str], object],
) -> None:
    """Copy a bucket to a path; CopyError, OSError."""
    Path(to).parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(Path(to).parent).free
    log = CopyLog(tell, show)
    argv = bucket_commands.copy(program, bucket, to, max(1, free - min(_RESERVE, free // 20)))
    if (code := copied(argv, env, log, umask)) != 0:
        if _NO_ROOM in log.last:
            raise CopyError(f"it does not fit: {amount(free)} are free there")
        raise CopyError(log.last or f"rclone ended with {code}")


def amount(size: float) -> str:
    """Return a number of bytes for people."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit in ("B", "KB") else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
