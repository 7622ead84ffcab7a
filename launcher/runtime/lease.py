"""The lease of a node, and blocks of ports: one run at a time has them.

Held by kernel locks while the run's agent lives, so a lease never expires by time. An agent that no longer hears the
head stops itself in `heartbeat.py`.
"""

import contextlib
import errno
import fcntl
import os
import socket
import stat
import threading
import time
from collections.abc import Sequence

from .protocol_files import PortsSpec

# The folder of the first path may be missing, read-only, or closed to us: then the next path is tried.
NOT_HERE = (errno.ENOENT, errno.EACCES, errno.EROFS, errno.ENOTDIR)

FREE_S = 5.0
PASSING_S = 0.3
"""Seconds in which a program that only looked at a lease has released it."""


class HeldError(Exception):
    """Another run has the lease; the message is what its holder wrote into it."""


def take(paths: Sequence[str], holder: str) -> int:
    """Take the lease at the first path that can be used; return its descriptor.

    It is held while the descriptor is open. HeldError names the holder; OSError where no path can be used or one is not
    a plain file.
    """
    handle = _open_first(paths)
    if not _lock(handle):
        message = os.pread(handle, 4096, 0).decode(errors="replace").strip()
        os.close(handle)
        raise HeldError(message or "an unnamed run")
    os.ftruncate(handle, 0)
    os.pwrite(handle, holder.encode() + b"\n", 0)
    return handle


def _lock(handle: int) -> bool:
    deadline, pause = time.monotonic() + PASSING_S, threading.Event()
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            pause.wait(0.02)
        else:
            return True


def take_block(ports: PortsSpec, before: int | None) -> tuple[int, int]:
    """Take a free block of ports; return its first port, and its descriptor.

    It is held while the descriptor is open. `before` is the block that this place had last. Its ports may be in use a
    moment longer by processes that were just killed; a head (`fixed`) waits for them, since its raylets know no others.
    OSError where no block is free.
    """
    starts: list[int] = (
        [before]
        if before is not None and ports["fixed"]
        else sorted(ports["starts"], key=lambda start: bool(start != before))
    )
    trouble = ""
    for start in starts:
        try:
            handle = take([f"{path}.{start}" for path in ports["locks"]], f"ports of {ports['holder']}")
        except HeldError as error:
            trouble = trouble or f"the ports from {start} on are {error}"
            continue
        busy = _busy(range(start, start + ports["pinned"]), FREE_S if start == before else 0.0)
        if not busy:
            return start, handle
        os.close(handle)
        trouble = trouble or f"ports in use: {', '.join(map(str, busy))}"
    raise OSError(errno.EADDRINUSE, f"no block of ports is free: {trouble}")


def _busy(block: range, patience: float) -> list[int]:
    deadline, pause = time.monotonic() + patience, threading.Event()
    while busy := [port for port in block if not _free(port)]:
        if time.monotonic() >= deadline:
            break
        pause.wait(0.1)
    return busy


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a connection that is closing is no listener
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def _open_first(paths: Sequence[str]) -> int:
    trouble: OSError | None = None
    for path in paths:
        try:
            return _open(path)
        except OSError as error:
            if error.errno not in NOT_HERE:
                raise
            trouble = trouble or error
    raise trouble or FileNotFoundError("no path for the lease")


def _open(path: str) -> int:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        # Without O_CREAT: in a sticky folder the kernel refuses O_CREAT on another user's file (protected_regular).
        handle = os.open(path, flags)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            made = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
            os.fchmod(made, 0o666)
            os.close(made)
        handle = os.open(path, flags)
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        os.close(handle)
        raise OSError(errno.EINVAL, "the lease is not a plain file", path)
    return handle
