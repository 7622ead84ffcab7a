"""The commands of rclone for one bucket. Keys are in its environment alone."""

import os
import posixpath
from collections.abc import Sequence
from pathlib import Path

from .protocol_buckets import BucketSpec
from .protocol_rclone import LOGGED

CONNECT_S = 10
IDLE_S = 60
"""Seconds to connect to a store, and without a byte from it, after which a request is made again."""

LOOK_IDLE_S = 15
"""Seconds without a byte after which a look at a bucket gives up: twice this is less than `bucket_look.LOOK_S`."""

_COMMON = ("--contimeout", f"{CONNECT_S}s", "--timeout", f"{IDLE_S}s")
_COPY = ("--checksum", "--transfers", "16", "--checkers", "16", "--retries", "5", "--retries-sleep", "2s")


def target(folder: Path, to: str) -> str:
    """Return the path of a bucket on the node."""
    return os.path.normpath(folder / "workdir" / Path(to).expanduser())


def copy(program: str, spec: BucketSpec, to: str, room: int) -> list[str]:
    """Return the command that copies a bucket, or a file of it, or one of a web server.

    It fails rather than to write more than `room` bytes: a server may send without end.
    """
    limits = (*_COMMON, "--max-transfer", f"{room}B", "--cutoff-mode", "hard")
    if spec["web"]:
        at = (
            posixpath.join(to, posixpath.basename(spec["remote"].partition("?")[0])) if spec["to"].endswith("/") else to
        )
        return [program, "copyurl", *limits, "--retries", "5", *LOGGED, "--", spec["remote"], at]
    return [program, "copyto", *limits, *_COPY, *LOGGED, "--", spec["remote"], to]


def look(program: str, spec: BucketSpec) -> list[str]:
    """Return the command that lists a bucket: a mount is made without asking the store."""
    return [program, "lsf", *_brief(), "--max-depth", "1", "--", spec["remote"]]


def _brief() -> Sequence[str]:
    """Return the options of a command that is made again by itself."""
    limits = ("--contimeout", f"{CONNECT_S}s", "--timeout", f"{LOOK_IDLE_S}s")
    return (*limits, "--retries", "1", "--low-level-retries", "1")


def make(program: str, spec: BucketSpec) -> list[str]:
    """Return the command that makes a bucket, unless there is one."""
    return [program, "mkdir", *_brief(), "--", spec["remote"]]


def mount(program: str, spec: BucketSpec, to: str, device: str, cache: Path, *, allow_other: bool) -> Sequence[str]:
    """Return the command that mounts a bucket and stays.

    With `allow_other` root reaches it, such as the daemon of a container engine. The kernel alone keeps other users out
    then: FUSE checks no mode by itself.
    """
    cached = spec["mode"] == "MOUNT_CACHED"
    return [
        *(program, "mount", *_COMMON, "--devname", device, "--cache-dir", str(cache)),
        *("--vfs-cache-mode", "writes" if cached else "off"),
        *(("--vfs-write-back", "1s", "--vfs-cache-max-age", "1h") if cached else ()),
        *(("--allow-other", "--default-permissions", "--umask", "077") if allow_other else ()),
        *("--dir-cache-time", "10s", "--", spec["remote"], to),
    ]
