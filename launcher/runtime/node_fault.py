"""Faults of the node itself: nothing can be written there, or nothing more can be started.

A program is not to blame for them, and another node can do what this one cannot.
"""

import contextlib
import errno
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from .protocol import Reply
from .protocol_files import NODE_ERRORS, NodeFault, described

FULL = (errno.ENOSPC, errno.EDQUOT)

PROBE = b"\0" * 65536
"""What is written to find out whether that is possible: more than fits beside the entry of a file."""

HOLDS_S = 2.0
"""Seconds for which an answer holds: a status is asked for each second, and each question writes."""

RAY_THREADS = 80
"""The least that Ray needs, in threads and processes: with fewer it dies after its own limit of 30 s, and says nothing.

Measured with Ray 2.60 on two cores: 92 for a raylet, its agents and one rank, 87 for a head with its supervisor."""

_FORK = re.compile(r"(fork|clone|thread).*Resource temporarily unavailable|can't start new thread", re.IGNORECASE)
"""What bash, Python, Go and OpenBLAS say where a process or thread more is not allowed."""

_LAST = 8
_PATH = re.compile(r": '([^']+)'")


def of(error: BaseException, stage: str) -> NodeFault | None:
    """Return the fault that an error shows; None where the node is not to blame."""
    if isinstance(error, RuntimeError) and "new thread" in str(error):
        return {"stage": stage, "path": "", "errno": "EAGAIN"}
    if not isinstance(error, OSError) or errno.errorcode.get(error.errno or 0) not in NODE_ERRORS:
        return None
    path = "" if error.filename is None or isinstance(error.filename, int) else os.fsdecode(error.filename)
    return {"stage": stage, "path": path, "errno": errno.errorcode[error.errno or 0]}


def of_files(error: Exception, folder: Path) -> NodeFault | None:
    """Return the fault behind files that could not be put into a run's folder, or where the task wants them.

    A place elsewhere may be full or read-only on every node: that is the task's.
    """
    full = isinstance(error, OSError) and error.errno in FULL and not error.filename
    return of(error, "files") if full else look((folder,), "files")


def refusal(error: BaseException, stage: str) -> Reply:
    """Return the reply to a request that failed with an error."""
    fault = of(error, stage)
    if fault is None:
        return {"ok": False, "message": f"{type(error).__name__}: {error}"}
    return {"ok": False, "message": described(fault), "fault": fault}


@contextlib.contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Name the log in an error of a start that cannot open it: the system names the program."""
    try:
        yield
    except OSError as error:
        if error.errno in (*FULL, errno.EROFS, errno.EIO):
            error.filename = str(path)
        raise


def look(folders: Iterable[Path], stage: str) -> NodeFault | None:
    """Write to each folder, and start a thread; return what is wrong with the node, None where nothing is."""
    try:
        for folder in folders:
            _write(folder)
        thread = threading.Thread(target=lambda: None, daemon=True)
        thread.start()
        thread.join()
        for handle in os.pipe():
            os.close(handle)
    except (OSError, RuntimeError) as error:
        return of(error, stage)
    return None


def require_room(threads: int = RAY_THREADS) -> None:
    """Raise RuntimeError where the node allows no so many threads more, whichever limit it is that forbids them.

    They are started at once, and end at once.
    """
    over, started = threading.Event(), []
    try:
        for _ in range(threads):
            thread = threading.Thread(target=over.wait, daemon=True)
            thread.start()
            started.append(thread)
    finally:
        over.set()
        for thread in started:
            thread.join()


def _write(folder: Path) -> None:
    path = folder / f".try.{os.getpid()}.{threading.get_ident()}"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(handle, "wb", buffering=0) as file:
            left = PROBE
            while left:
                left = left[file.write(left) :]
    except OSError as error:
        error.filename = str(folder)
        raise
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)


def blamed(reply: Reply, folder: Path) -> Reply:
    """Return the reply to a start that failed, with the node's fault where its folder takes no file any more."""
    fault = look((folder,), "rank")
    return {**reply, "message": f"{reply['message']}: {described(fault)}", "fault": fault} if fault else reply


def in_log(lines: Sequence[str], stage: str) -> NodeFault | None:
    """Return the fault that the end of a log shows: that of a program which does not say how it failed otherwise."""
    for line in reversed(lines):
        name = next((name for name, text in NODE_ERRORS.items() if text.lower() in line.lower()), None)
        if name is not None:
            found = _PATH.search(line)
            return {"stage": stage, "path": found[1] if found else "", "errno": name}
    return None


def in_output(lines: Sequence[str]) -> NodeFault | None:
    """Return the fault that the end of a user's own log shows: a shell or a library that could start nothing more.

    Other errors there may be of a file system that all nodes share, or of a socket.
    """
    forked = any(_FORK.search(line) for line in lines[-_LAST:])
    return {"stage": "rank", "path": "", "errno": "EAGAIN"} if forked else None


class Suspicion:
    """Whether the node is at fault for what failed on it. It is asked only while something has."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._noted: NodeFault | None = None
        self._found: NodeFault | None = None
        self._at = -HOLDS_S

    def note(self, fault: NodeFault) -> None:
        """Keep a fault that something met which has failed since."""
        self._noted = fault

    def ask(self, stage: str, lines: Sequence[str] = ()) -> NodeFault | None:
        """Return the fault behind something that failed at a stage, and whose log ends with these lines."""
        fault = self._noted or (in_output(lines) if stage == "rank" else in_log(lines, stage))
        if fault is not None:
            return fault
        if time.monotonic() - self._at >= HOLDS_S:
            self._found, self._at = look(self._folders, stage), time.monotonic()
        return self._found

    def clear(self) -> None:
        """Forget: nothing is failed any more."""
        self._noted = self._found = None
        self._at = -HOLDS_S
