"""The lease of a node, and blocks of ports: one run at a time has them.

Held by kernel locks while the run's agent lives, so a lease never expires by time. An agent that no longer hears the
head stops itself in `heartbeat.py`.

Everybody on a node may lock a lease, and say in it what he likes: it keeps honest launchers apart, and takes nothing
from anybody. So only a plain file is taken that is empty, that a lease was written into, or that everybody may write to
like every lease; a link, a folder, a device, a file with a second name or with other content is refused, and neither
followed nor changed. Who really holds a lease is said by the kernel, beside what the holder wrote.
"""

import contextlib
import errno
import fcntl
import os
import pwd
import re
import socket
import stat
import threading
import time
from collections.abc import Sequence

from .protocol_files import PortsSpec

FREE_S = 5.0
PASSING_S = 0.3
"""Seconds in which a program that only looked at a lease has released it."""

MODE = 0o666
"""Of a lease: every user of the machine must be able to lock it."""

LONGEST = 4096
"""Bytes of a lease."""

_WRITTEN = re.compile(rb"(ports of )?run `[^`\n]*` [^\n]*\n?")


class HeldError(Exception):
    """Another run has the lease; the message is what its holder wrote into it, and whose process it is if not ours."""


class RefusedLeaseError(OSError):
    """A path is no lease, and nothing was changed there; the message says whose it is."""


def take(paths: Sequence[str], holder: str) -> list[int]:
    """Take the lease; return its descriptors: it is held while they are open.

    The first path counts whose folder exists. Where not everybody may make it there, the next one is taken too: those
    who may not make the first have that alone. HeldError names the holder, RefusedLeaseError what is no lease; OSError
    where no path can be used.
    """
    handles: list[int] = []
    trouble: OSError = FileNotFoundError("no path for the lease")
    try:
        for path in paths:
            try:
                handle = _taken(path, holder)
            except RefusedLeaseError:
                raise
            except OSError as error:
                trouble = error
                if error.errno in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS):
                    continue
                raise
            handles.append(handle)
            if _is_open_to_all(os.path.dirname(path)):
                break
    except BaseException:
        release(handles)
        raise
    if not handles:
        raise trouble
    return handles


def release(handles: Sequence[int]) -> None:
    """Let go of a lease."""
    for handle in handles:
        os.close(handle)


def _taken(path: str, holder: str) -> int:
    """Return the descriptor of a lease at a path, locked and written."""
    handle = _open(path)
    try:
        if not _lock(handle):
            raise HeldError(_holder(handle))
        _check_content(path, handle)
        if os.lstat(path).st_ino != os.fstat(handle).st_ino:
            raise RefusedLeaseError(f"`{path}` was replaced while its lease was taken")
        os.ftruncate(handle, 0)  # first: half of it must not stay behind a shorter one
        os.pwrite(handle, holder.encode() + b"\n", 0)
    except BaseException:
        os.close(handle)
        raise
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


def _holder(handle: int) -> str:
    """Return who holds a lease: what is written in it, and whose process the kernel names if that is not ours."""
    message = os.pread(handle, LONGEST, 0).decode(errors="replace").strip() or "an unnamed run"
    pid, owner = _locker(handle)
    if owner == os.geteuid():
        return message
    by = f"process {pid} of user `{_user(owner)}`" if pid else f"user `{_user(owner)}`"
    return f"{message} ({by} on the node)"


def _locker(handle: int) -> tuple[int, int]:
    """Return the process that holds a lock on a file, and its user; 0 and the file's owner where it is not shown."""
    found = os.fstat(handle)
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/locks", encoding="ascii") as rows:
        for row in rows:
            # "1: FLOCK ADVISORY WRITE 4711 fe:01:131073 0 EOF"
            words = row.split()
            if words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(found.st_ino):
                return int(words[4]), os.stat(f"/proc/{int(words[4])}").st_uid
    return 0, found.st_uid


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def take_block(ports: PortsSpec, before: int | None) -> tuple[int, list[int]]:
    """Take a free block of ports; return its first port, and its descriptors.

    It is held while they are open. `before` is the block that this place had last. Its ports may be in use a
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
            handles = take([f"{path}.{start}" for path in ports["locks"]], f"ports of {ports['holder']}")
        except (HeldError, RefusedLeaseError) as error:
            trouble = trouble or f"the ports from {start} on are {error}"
            continue
        busy = _busy(range(start, start + ports["pinned"]), FREE_S if start == before else 0.0)
        if not busy:
            return start, handles
        release(handles)
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


def _open(path: str) -> int:
    """Return the descriptor of a lease, which is made if it is missing."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    _check_kind(path, None)  # to open a device may do something
    try:
        # Without O_CREAT: in a sticky folder the kernel refuses O_CREAT on another user's file (protected_regular).
        handle = os.open(path, flags)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            made = os.open(path, flags | os.O_CREAT | os.O_EXCL, MODE)
            os.fchmod(made, MODE)
            os.close(made)
        handle = _reopened(path, flags)
    except PermissionError:
        raise RefusedLeaseError(_closed(path)) from None
    try:
        _check_kind(path, handle)
        _check_content(path, handle)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _reopened(path: str, flags: int) -> int:
    try:
        return os.open(path, flags)
    except OSError as error:
        raise RefusedLeaseError(f"`{path}` was replaced while its lease was made: {error.strerror}") from None


def _check_kind(path: str, handle: int | None) -> None:
    """Raise RefusedLeaseError for anything but a plain file with one name."""
    try:
        found = os.lstat(path) if handle is None else os.fstat(handle)
    except OSError:
        return
    mode = found.st_mode
    kind = "a symbolic link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "no plain file"
    if stat.S_ISREG(mode):
        if found.st_nlink == 1:
            return
        kind = "a file with a second name"
    raise RefusedLeaseError(f"`{path}` is {kind} of user `{_user(found.st_uid)}`, not a lease: remove it")


def _check_content(path: str, handle: int) -> None:
    """Raise RefusedLeaseError for a file into which no lease was written: it is somebody's, if not everybody's."""
    if stat.S_IMODE(os.fstat(handle).st_mode) == MODE:
        return
    content = os.pread(handle, LONGEST + 1, 0)
    if content and (len(content) > LONGEST or not _WRITTEN.fullmatch(content)):
        raise RefusedLeaseError(f"`{path}` of user `{_owner(path)}` has other content than a lease: remove it")


def _closed(path: str) -> str:
    """Return why a lease may not be opened: others, who may, would take it beside one that we took elsewhere."""
    if os.access(os.path.dirname(path) or ".", os.X_OK):
        return f"`{path}` of user `{_owner(path)}` may not be opened by others: remove it"
    return f"`{os.path.dirname(path)}` may not be entered by this user: set another `lease_path`"


def _owner(path: str) -> str:
    try:
        return _user(os.lstat(path).st_uid)
    except OSError:
        return "unknown"


def _is_open_to_all(folder: str) -> bool:
    """Whether everybody who reaches a folder may make a file in it."""
    mode = os.stat(folder or ".").st_mode
    return bool(mode & stat.S_IWOTH) or not mode & stat.S_IXOTH
