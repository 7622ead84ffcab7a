"""What the monitor of a node's mounts writes down of them, and what is left unsent in their caches."""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

from . import files
from .protocol_buckets import MountsFile

NAME = "mounts.json"
CACHES = "bucket-cache"
"""The folder in a run's folder with a cache of writes for each bucket that is mounted with one."""
UNSENT = "unsent"
"""The folder in a run's folder that keeps writes which were not sent when the run was killed here."""
MOST_NAMES = 5
REST = 20.0
"""How much longer than it took a cache is not read again: ranks need the CPU."""
MOST_FILES = 20_000
"""Files of a cache that are looked at: beyond that, their number is a lower bound."""


def read(folder: Path) -> MountsFile | None:
    """Return what the monitor said last; None where it has said nothing."""
    return cast("MountsFile | None", files.read(folder / NAME))


def cache(folder: Path, number: int) -> Path:
    """Return the cache of a mount."""
    return folder / CACHES / str(number)


def unsent(cache: Path) -> list[tuple[str, int]]:
    """Return the files in a cache that are not in the bucket, with their sizes in bytes.

    rclone keeps what it knows of a file beside the file, and there `Dirty` until it is sent.
    """
    return list(_unsent(cache / "vfsMeta"))


def all_sent(folder: Path) -> bool:
    """Whether every write in the caches of a run is known to be in its bucket.

    What cannot be read counts as one that is not.
    """
    caches = folder / CACHES
    try:
        return not caches.exists() or all(map(_is_sent, caches.iterdir()))
    except OSError:
        return False


def _is_sent(cache: Path) -> bool:
    failed: list[OSError] = []
    for folder, _, names in os.walk(cache / "vfsMeta", onerror=failed.append):
        for name in names:
            try:
                found = json.loads((Path(folder) / name).read_bytes())
            except (OSError, ValueError):
                return False
            if not isinstance(found, dict) or found.get("Dirty", True):
                return False
    return not any(not isinstance(one, FileNotFoundError) for one in failed)


class UnsentWrites:
    """The unsent writes of a cache for a reader that asks often: a large cache is not read each time."""

    def __init__(self, cache: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._cache = cache
        self._clock = clock
        self._found: list[tuple[str, int]] = []
        self._not_before = 0.0

    def now(self) -> list[tuple[str, int]]:
        """Return what `unsent` returns, or what it returned at most `REST` times as long ago as it took."""
        begun = self._clock()
        if begun >= self._not_before:
            self._found = unsent(self._cache)
            ended = self._clock()
            self._not_before = ended + REST * (ended - begun)
        return self._found


def _unsent(meta: Path) -> Iterator[tuple[str, int]]:
    seen = 0
    for folder, _, names in os.walk(meta):
        for name in sorted(names):
            seen += 1
            if seen > MOST_FILES:
                return
            path = Path(folder) / name
            try:
                found = json.loads(path.read_bytes())
            except (OSError, ValueError):
                continue  # it is being written, or has just been removed
            if isinstance(found, dict) and found.get("Dirty"):
                size = found.get("Size")
                yield str(path.relative_to(meta)), size if isinstance(size, int) else 0
