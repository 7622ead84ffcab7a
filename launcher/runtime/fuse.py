"""FUSE mounts of a run: found in the kernel's table, asked with a deadline, and taken off.

A mount whose program is dead answers with an error; one whose program hangs does not answer at all, and whoever looks
into it cannot be killed until that program is. So nothing here touches a mount, except a child that may be left behind.
"""

import contextlib
import ctypes
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
ANSWER_S = 10.0
DETACH_S = 10.0
_MNT_DETACH = 2
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mounted:
    """A mount of the table: what is mounted, and where."""

    source: str
    path: str


def device(run: str, place: str, number: int) -> str:
    """Return what the kernel shows as the source of a run's mount."""
    return f"{_owner(run, place)}{number}"


def _owner(run: str, place: str) -> str:
    return f"nvlaunch:{run}:{place}:"


def table() -> list[Mounted]:
    """Return all mounts that this process sees; to read the table touches none of them."""
    found = []
    for line in MOUNTS.read_text(errors="replace").splitlines():
        fields, _, rest = line.partition(" - ")
        source = rest.split(" ")[1] if rest.count(" ") else ""
        found.append(Mounted(source=_plain(source), path=_plain(fields.split(" ")[4])))
    return found


def _plain(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def of_run(run: str, place: str) -> list[Mounted]:
    """Return the mounts of a run's place, the innermost first."""
    return [one for one in table() if one.source.startswith(_owner(run, place))][::-1]


def below(folder: Path) -> list[Mounted]:
    """Return the mounts in a folder: to remove files there would remove them from what is mounted."""
    inside = f"{os.path.realpath(folder)}/"
    return [one for one in table() if one.path.startswith(inside)]


def answers(path: str, seconds: float = ANSWER_S) -> bool:
    """Whether a mount answers in time, and without an error."""
    program = shutil.which("stat") or "/usr/bin/stat"
    with contextlib.suppress(OSError):
        asking = subprocess.Popen(
            [program, "--", path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return asking.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            asking.kill()  # it ends once the mount's program has
    return False


def detach(path: str) -> bool:
    """Take a mount off at once, in use or not; whether it is off.

    Programs that have files of it open keep them, and get errors once its own program has ended.
    """
    if ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(path), _MNT_DETACH) != 0:
        for program in ("fusermount3", "fusermount"):
            if shutil.which(program) and _run([program, "-u", "-z", "--", path], DETACH_S):
                break
    return all(one.path != path for one in table())


def clear(run: str, place: str) -> list[str]:
    """Take off all mounts of a run's place; return those that remain."""
    for one in of_run(run, place):
        detach(one.path)
    return [one.path for one in of_run(run, place)]


def _run(argv: Sequence[str], seconds: float) -> bool:
    """Whether a program succeeds in time; its parent may have another part that reaps children."""
    pid = os.posix_spawnp(argv[0], list(argv), os.environ)
    deadline = time.monotonic() + seconds
    handle = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    ended = poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
    os.close(handle)
    if not ended:
        os.kill(pid, signal.SIGKILL)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0 if ended else os.WNOHANG)[1]) == 0
    except ChildProcessError:  # it has been reaped elsewhere: whether it worked, the table says
        return False
