"""Keeps the mounts of a run on a node: makes them, watches them, makes them again, and takes them off.

A process of its own under the agent: a mount that hangs may stop whoever touches it, and the agent must not stop. It
ends with its agent, however that ended, and takes the mounts off before. If it is killed itself, its rclone takes its
mount off, and the agent starts another one.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from . import bucket_commands, bucket_look, files, fuse, logs, mounts_file
from .agent_programs import PACKAGE
from .bucket_setup import Given
from .protocol_buckets import BucketSpec, MissingKeyError, MountRow
from .rclone import NoRcloneError
from .store_probe import StoreProbe

PERIOD_S = 0.5
PROBE_S = 5.0
"""Seconds between two questions to a mount, which are answered from rclone's memory."""
ANSWER_S = 15.0
"""Seconds for the answer, after which its rclone hangs and is killed: files that are open there give errors then."""
STORE_S = 15.0
"""Seconds between two questions to the store: each mount of each node asks."""
APPEAR_S = 30.0
LONGEST_PAUSE_S = 30.0
SAID_S = 60.0
"""Seconds for which it is said that a mount was made again."""
END_S = 5.0
BECOME = "become"
_PR_SET_PDEATHSIG = 1


class KeptMount:
    """One bucket at one path."""

    def __init__(self, folder: Path, number: int, spec: BucketSpec, given: Given) -> None:
        self._spec = spec
        self._given = given
        self._to = bucket_commands.target(folder, spec["to"])
        self._device = fuse.device(given.agent["run"], given.agent["place"], number)
        self._log = folder / "log" / f"mount-{number}.log"
        self._cache = mounts_file.cache(folder, number)
        self._unsent = mounts_file.UnsentWrites(self._cache)
        self._running: subprocess.Popen[bytes] | None = None
        self._made = False
        self._message = "being mounted"
        self._up = False
        self._begun = self._asked = self._not_before = 0.0
        self._pause = 1.0
        self._again = 0
        self._probe: threading.Thread | None = None
        self._answered = True
        self._store = StoreProbe(spec["settings"])
        self._store_asked = 0.0
        self._trouble = ""

    def row(self) -> MountRow:
        """Return how it stands."""
        unsent = self._unsent.now() if self._spec["mode"] == "MOUNT_CACHED" else []
        return {
            "to": self._to,
            "url": self._spec["url"],
            "up": self._up,
            "message": self._waiting() if self._up and self._trouble else self._message,
            "unsent": len(unsent),
            "unsent_bytes": sum(size for _, size in unsent),
            "names": [name.partition("/")[2] or name for name, _ in unsent[: mounts_file.MOST_NAMES]],
        }

    def step(self) -> None:
        """Do what is next: start rclone, wait for the mount, or ask it whether it answers."""
        now = time.monotonic()
        if self._running is None:
            if now >= self._not_before:
                self._start(now)
        elif self._running.poll() is not None:
            self._fail(f"rclone ended with {self._running.returncode}: {self._last_line()}")
        elif not self._up:
            if any(one.source == self._device for one in fuse.table()):
                self._up, self._asked, self._pause = True, now, 1.0
                self._message = f"mounted again; {self._again} failures so far" if self._again else ""
            elif now - self._begun > APPEAR_S:
                self._fail(f"the mount has not appeared within {APPEAR_S:.0f} s: {self._last_line()}")
        else:
            if self._message and now - self._begun > SAID_S:
                self._message = ""
            self._watch(now)

    def _waiting(self) -> str:
        return f"{self._trouble}: reads and writes wait, and fail after some minutes"

    def _watch(self, now: float) -> None:
        """Ask the mount from time to time, in a thread: its child may hang."""
        if self._probe is not None:
            if self._probe.is_alive():
                return
            self._probe, self._asked = None, now
            if not self._answered:
                self._fail(f"the mount did not answer within {ANSWER_S:.0f} s")
        elif now - self._asked >= PROBE_S:
            self._probe = threading.Thread(target=self._ask, daemon=True)
            self._probe.start()

    def _ask(self) -> None:
        self._answered = fuse.answers(self._to, ANSWER_S)
        if self._answered and time.monotonic() - self._store_asked >= STORE_S:
            self._store_asked = time.monotonic()
            self._trouble = self._store.trouble()

    def _start(self, now: float) -> None:
        try:
            self._free_target()
            env = self._given.env(self._spec)
            if problem := bucket_look.why_unusable(self._given.program, self._spec, env):
                self._fail(problem)
                return
            self._begin(env)
        except (OSError, MissingKeyError) as error:
            self._fail(str(error))
            return
        self._begun = now

    def _free_target(self) -> None:
        """Take off what an earlier monitor left, and make the folder; OSError where the path cannot be used."""
        for one in fuse.table():
            if one.source == self._device:
                fuse.detach(one.path)
        if any(one.path == self._to for one in fuse.table()):
            raise OSError(f"`{self._to}` is a mount already: {self._occupant()}")
        path = Path(self._to)
        if not path.exists():
            path.mkdir(parents=True)
            self._made = True
        elif not path.is_dir() or any(path.iterdir()):
            raise OSError(f"`{self._to}` is not an empty folder: remove what is there, or use another path")
        self._cache.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _occupant(self) -> str:
        return next(one.source for one in fuse.table() if one.path == self._to)

    def _begin(self, env: dict[str, str]) -> None:
        argv = bucket_commands.mount(
            self._given.program,
            self._spec,
            self._to,
            self._device,
            self._cache,
            allow_other=self._given.spec["allow_other"],
        )
        become = [sys.executable, "-EsS", PACKAGE, "mount_monitor", BECOME, str(os.getpid())]
        with self._log.open("ab") as log:
            self._running = subprocess.Popen(
                [*become, *argv],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                umask=self._given.umask,
                start_new_session=True,
            )

    def _fail(self, message: str) -> None:
        """Take the mount off, and make it again after a pause."""
        print(f"{self._to}: {message}", flush=True)
        self._take_off(0.0)
        self._up, self._message = False, message
        self._again += 1
        self._not_before = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE_S)

    def _last_line(self) -> str:
        tail = logs.tail(self._log)
        return bucket_look.plain(tail[-1]) if tail else "it said nothing"

    def _take_off(self, seconds: float) -> None:
        """End rclone, at once where it is given no seconds, and take off what it leaves."""
        if self._running is not None:
            if seconds:
                self._running.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._running.wait(seconds)
            self._running.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._running.wait(END_S)
            self._running = None
        for one in fuse.table():
            if one.source == self._device:
                fuse.detach(one.path)

    def ask_to_end(self) -> None:
        """Ask rclone to take its mount off and to end."""
        if self._running is not None:
            self._running.terminate()

    def end(self) -> None:
        """Take the mount off; the folder goes if it was made for it."""
        self._take_off(END_S)
        self._up = False
        if self._made:
            with contextlib.suppress(OSError):
                os.rmdir(self._to)


def main(argv: list[str]) -> int:
    """Keep the mounts of a folder until the agent ends: `mount_monitor FOLDER`."""
    if argv[0] == BECOME:
        return _become(int(argv[1]), argv[2:])
    folder, ending = Path(argv[0]), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)  # not SIGKILL: mounts are taken off first
    agent = os.getppid()
    try:
        given = Given(folder)
    except (NoRcloneError, OSError, ValueError) as error:
        files.write(folder / mounts_file.NAME, {"mounts": [], "failed": str(error)})
        return 1
    if (problem := _unable()) is not None:
        files.write(folder / mounts_file.NAME, {"mounts": [], "failed": problem})
        return 1
    buckets = enumerate(given.spec["buckets"])
    kept = [KeptMount(folder, number, spec, given) for number, spec in buckets if spec["mode"] != "COPY"]
    said: list[MountRow] = []
    while not ending.is_set() and os.getppid() == agent:
        for one in kept:
            one.step()
        if (rows := [one.row() for one in kept]) != said:
            said = rows
            with contextlib.suppress(OSError):  # a full disk ends no mount
                files.write(folder / mounts_file.NAME, {"mounts": rows})
        ending.wait(PERIOD_S)
    for one in kept:
        one.ask_to_end()
    for one in kept:
        one.end()
    return 0


def _become(monitor: int, argv: list[str]) -> int:
    """Become rclone, which takes its mount off by itself if the monitor is killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() == monitor:
        os.execv(argv[0], argv)
    return 1


def _unable() -> str | None:
    """Return why nothing can be mounted on this machine; None where it can."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "`/dev/fuse` is missing or not ours to use: `modprobe fuse`, or use `mode: COPY`"
    if os.geteuid() != 0 and not (shutil.which("fusermount3") or shutil.which("fusermount")):
        return "`fusermount3` is missing: install the package `fuse3`, or use `mode: COPY`"
    return None
