"""The agent's side of mounts: their monitor, what it says, and what is left once they end."""

import contextlib
import logging
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from . import environment, files, fuse, mounts_file, procs
from .agent_programs import PACKAGE
from .bucket_copy import amount
from .protocol import Reply
from .protocol_buckets import BUCKETS, BucketsSpec, MountRow
from .protocol_files import AgentSpec
from .watched import WatchedProgram

PAUSE_S = 1.0
"""Seconds between two starts of the monitor."""
SEND_S = 600.0
"""Seconds after the first request to stop in which writes may still be sent."""
STUCK_S = 5.0
"""Seconds after which a killed program is taken to wait for a mount."""
SPARED = "mount"
"""What the mark of the monitor and of rclone has in place of a generation."""


class Mounts:
    """The mounts of a run on this node. `tick` is called by the agent's main thread."""

    def __init__(self, monitor: WatchedProgram, folder: Path, spec: AgentSpec) -> None:
        self._monitor = monitor
        self._folder = folder
        self._spec = spec
        self._command: tuple[list[str], dict[str, str]] | None = None
        self._not_before = 0.0
        self._stop_at: float | None = None
        self.lost = ""

    @property
    def wanted(self) -> bool:
        """Whether there is something to keep mounted."""
        return self._command is not None

    def begin(self, buckets: BucketsSpec, base: Mapping[str, str]) -> bool:
        """Keep these buckets mounted from now on; whether their monitor had to be started. OSError."""
        files.write(self._folder / BUCKETS, buckets)
        if self.wanted or all(one["mode"] == "COPY" for one in buckets["buckets"]):
            return False
        if (self._folder / mounts_file.CACHES).exists() and (told := _set_aside(self._folder)):
            logging.warning("%s", told)
            if (self._folder / mounts_file.CACHES).exists():  # a mount made over them would send them
                raise OSError(told)
        (self._folder / mounts_file.NAME).unlink(missing_ok=True)
        mark = f"{self._spec['run']}:{self._spec['place']}:{SPARED}"
        argv = [sys.executable, "-EsS", PACKAGE, "mount_monitor", str(self._folder)]
        self._command = argv, {**base, environment.MARK: mark}
        self._monitor.start(*self._command)
        return True

    def tick(self) -> None:
        """Start a monitor that has ended once more."""
        if self._command is None or self._monitor.running or time.monotonic() < self._not_before:
            return
        self._not_before = time.monotonic() + PAUSE_S
        argv, env = self._command
        threading.Thread(target=self._monitor.start, args=(argv, env), daemon=True).start()

    def rows(self) -> list[MountRow]:
        """Return how the mounts stand; none where nothing is mounted."""
        found = mounts_file.read(self._folder) if self.wanted else None
        return found["mounts"] if found else []

    def wait_for_writes(self) -> str:
        """Return what is still being sent before the run may end here; empty where it is all sent, or time is up."""
        now = time.monotonic()
        self._stop_at = now + SEND_S if self._stop_at is None else self._stop_at
        left = [] if not self.wanted or now >= self._stop_at else unsent(self._folder)
        if not left:
            return ""
        return f"writes are being sent to the bucket: {listed(left)}; at most {self._stop_at - now:.0f} s more"

    def break_loose(self) -> bool:
        """Kill what serves the mounts, so that programs which wait for it can end; whether there are any mounts."""
        mounted = fuse.of_run(self._spec["run"], self._spec["place"])
        if mounted:
            scope = procs.of_spec(self._spec)
            found = procs.scan(scope)
            procs.send((one for one in found if _serves(one.pid, scope)), 9)
        return bool(mounted)

    def end(self) -> str:
        """Take the mounts off once their processes are killed; return what was not sent, or is still mounted.

        Nothing is sent after this: what is left of the writes is set aside, on the node's disk.
        """
        if self.wanted:
            self._command = None
            self.lost = end(self._folder, self._spec)
            if self.lost:
                logging.warning("%s", self.lost)
        return self.lost


def kill(scope: procs.Scope, here: Mounts, known: Iterable[int], grace: float) -> Reply:
    """Kill a scope under this agent, and end the mounts with the whole node unless they are spared.

    A program that waits for a mount cannot be killed before the mount's own is; the monitor mounts it again.
    """
    agent = os.getpid()
    left = procs.kill(scope, agent, known, grace, STUCK_S if here.wanted else procs.KILL_S)
    if left and here.break_loose():
        left = procs.kill(scope, agent, known, 0)
    told = here.end() if scope.level == "node" and not left and not scope.spared else ""
    reply: Reply = {"ok": not left, "left": left}
    return {**reply, "message": told} if told else reply


def _serves(pid: int, scope: procs.Scope) -> bool:
    """Whether a process is the rclone of a mount; the monitor, which starts it again, is not."""
    mark = procs.mark(pid, scope) or ""
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return False
    return mark.split(":")[2:3] == [SPARED] and name == "rclone"


def end(folder: Path, spec: AgentSpec) -> str:
    """Take off the mounts of a run whose processes are dead, and set its unsent writes aside.

    Return what people should know: what was not sent, and what could not be taken off.
    """
    told = [f"still mounted: {', '.join(left)}"] if (left := fuse.clear(spec["run"], spec["place"])) else []
    if (folder / mounts_file.CACHES).is_dir() and not left:
        told += filter(None, [_set_aside(folder)])
    with contextlib.suppress(OSError):
        (folder / mounts_file.NAME).unlink(missing_ok=True)
    return "; ".join(told)


def _set_aside(folder: Path) -> str:
    """Keep the writes that were not sent out of every later mount's reach; return what people should know of them.

    They are removed only once each is known to be sent: what cannot be moved stays where it is.
    """
    left, caches = unsent(folder), folder / mounts_file.CACHES
    if not left and mounts_file.all_sent(folder):
        shutil.rmtree(caches, ignore_errors=True)
        return ""
    kept = folder / mounts_file.UNSENT / str(time.time_ns())
    what = f"writes were not sent to the bucket: {listed(left)}" if left else "writes may not be sent to the bucket"
    try:
        kept.parent.mkdir(mode=0o700, exist_ok=True)
        os.rename(caches, kept)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        return f"{what}; they are in `{caches}` on the node, and nothing is mounted again there ({reason})"
    return f"{what}; they are in `{kept}` on the node"


def unsent(folder: Path) -> list[tuple[str, int]]:
    """Return the writes of all mounts that are not in their bucket yet, with their sizes in bytes."""
    caches = folder / mounts_file.CACHES
    try:
        numbers = sorted(os.listdir(caches))
    except OSError:
        return []
    return [one for number in numbers for one in mounts_file.unsent(caches / number)]


def listed(left: list[tuple[str, int]]) -> str:
    """Return the number, size and some names of writes that are not sent."""
    names = [name.partition("/")[2] or name for name, _ in left[: mounts_file.MOST_NAMES]]
    more = ", ..." if len(left) > len(names) else ""
    count = "1 file" if len(left) == 1 else f"{len(left)} files"
    return f"{count}, {amount(sum(size for _, size in left))} ({', '.join(names)}{more})"
