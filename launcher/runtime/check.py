"""Runs one check on this node, and leaves nothing of it.

It is sent over stdin with the modules that it imports, and stays for as long as somebody reads its output: a check ends
with its time, with the launcher, with the connection, and, on an idle node, as soon as a run takes the node's lease.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from . import environment, lease, login, procs

if TYPE_CHECKING:
    from .protocol_programs import CheckReply, CheckRequest

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
READER = 1
TICK_S = 0.2
SIGN_S = 0.5
"""Seconds between signs of life: only with something to read can the launcher end a check."""

PART = 1 << 16
KEPT = 8192
"""Bytes that are kept of each stream, the last ones."""

PLACE = "@check"

FOLDER = "nvlaunch-check-"
OLD_S = 86400.0
"""The age at which a folder of a check is removed (s): this program was killed, and no check takes as long."""


class EndedError(Exception):
    """The check has to end now: nobody reads its output, or this program was asked to end."""


def main() -> None:
    """Run the check that the rest of stdin describes; write a line of JSON, after empty lines as signs of life."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _end)
    request: CheckRequest = json.loads(sys.stdin.buffer.read())
    with contextlib.suppress(EndedError):
        _write(json.dumps(reply(request)).encode() + b"\n")


def reply(request: "CheckRequest") -> "CheckReply":
    """Run a check to its end, and return how it ended."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        held = _take(request)
    except lease.HeldError as error:
        return _reply("held", str(error))
    except OSError as error:
        return _reply("failed", f"cannot take the lease: {error}")
    _remove_old(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=FOLDER))
    scope = procs.Scope(run=request["token"], place=PLACE)
    state = "ended"
    try:
        found = _run(request, folder, libc)
        state = found["state"]
    except (OSError, ValueError) as error:  # a first line with an odd quote has no words
        found = _reply("failed", f"cannot start the check: {error}".replace(f"{folder}/", ""))
    finally:
        found_left = procs.kill(scope, os.getpid(), grace=1.0 if state == "timed-out" else 0.0)
        shutil.rmtree(folder, ignore_errors=True)
        if held is not None:
            for handle in held:
                os.close(handle)
    return {**found, "left": found_left}


def _remove_old(parent: Path) -> None:
    """Remove the folders of this user's checks that were killed together with this program."""
    for path in parent.glob(f"{FOLDER}*"):
        with contextlib.suppress(OSError):
            found = path.lstat()
            if found.st_uid == os.getuid() and found.st_mtime < time.time() - OLD_S:
                shutil.rmtree(path, ignore_errors=True)  # which follows no link


def _end(number: int, frame: object) -> NoReturn:
    del number, frame
    raise EndedError


def _take(request: "CheckRequest") -> list[int] | None:
    """Take the node's lease; None where the check watches it instead, or runs for the run that holds it."""
    if not request["lease"] or request["idle"]:
        if request["idle"] and (holder := _holder(request["lease"])):
            raise lease.HeldError(holder)
        return None
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    try:
        return lease.take(request["lease"], f"{request['holder']} since {since}")
    except lease.HeldError as error:
        if request["beside"] and f"({request['beside']})" in str(error):
            return None
        raise


def _holder(paths: Sequence[str]) -> str:
    """Return who holds the lease; empty for nobody. Looking shares the lock for an instant."""
    for path in paths:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.read(handle, 4096).decode("utf-8", "replace").strip() or "an unnamed run"
        finally:
            os.close(handle)
    return ""


def _run(request: "CheckRequest", folder: Path, libc: Any) -> "CheckReply":
    begun = time.monotonic()
    base = environment.user(login.read(os.environ).environ if request["login"] else os.environ, whole=request["login"])
    env = {**base, **request["env"], environment.MARK: f"{request['token']}:{PLACE}:0"}
    parent = os.getpid()

    def tie() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    with subprocess.Popen(
        command(request["script"], folder),
        env=env,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=tie,  # noqa: PLW1509  this program has one thread
    ) as child:
        watched = _Watched(child)
        try:
            state, message = watched.follow(begun + request["limit"], request["lease"] if request["idle"] else ())
        finally:
            # The whole tree, before the pipes are waited for: a daemon may hold them open.
            procs.kill(
                procs.Scope(run=request["token"], place=PLACE), parent, grace=0.0 if child.poll() is not None else 1.0
            )
            code = child.wait()
        watched.rest()
        found = _reply(state, message)
        if state == "ended":
            found["status"] = code if code >= 0 else 128 - code
        # The name of the folder is another on each node, and equal output is shown once.
        found["stdout"], found["stderr"] = (text.replace(f"{folder}/", "") for text in watched.said())
        found["seconds"] = time.monotonic() - begun
        return found


def command(script: str, folder: Path) -> "list[str]":
    """Write a script to a file, and return the program and arguments that run it.

    The interpreter is that of a first line that begins with `#!`, else `sh`: so it runs from a file system that is
    mounted `noexec` too, and no word of it is on a command line.
    """
    path = folder / "check"
    path.write_text(script, encoding="utf-8")
    path.chmod(0o700)
    first = script.splitlines()[0] if script else ""
    return [*(shlex.split(first[2:]) if first.startswith("#!") else ["sh"]), str(path)]


class _Watched:
    """A child and the ends of what it has written."""

    def __init__(self, child: "subprocess.Popen[bytes]") -> None:
        assert child.stdout
        assert child.stderr
        self._child = child
        self._kept = {child.stdout.fileno(): bytearray(), child.stderr.fileno(): bytearray()}
        self._open = set(self._kept)

    def follow(self, deadline: float, leases: "Sequence[str]") -> "tuple[str, str]":
        """Return how it ended: by itself, by its deadline, or because a run took the node."""
        ended = os.pidfd_open(self._child.pid)
        poll = select.poll()
        for handle in (*self._open, ended):
            poll.register(handle, select.POLLIN)
        poll.register(READER, 0)
        sign = 0.0
        try:
            while True:
                now = time.monotonic()
                if now >= deadline:
                    return "timed-out", "it did not end within its time limit"
                if now >= sign:
                    _write(b"\n")
                    sign = now + SIGN_S
                if leases and (holder := _holder(leases)):
                    return "taken", holder
                ready = {handle for handle, _ in poll.poll(min(TICK_S, deadline - now) * 1000)}
                if READER in ready:
                    raise EndedError
                for handle in ready & self._open:
                    if not self._read(handle):
                        poll.unregister(handle)
                        self._open.discard(handle)
                if ended in ready:
                    return "ended", ""
        finally:
            os.close(ended)

    def _read(self, handle: int) -> bool:
        part = os.read(handle, PART)
        kept = self._kept[handle]
        kept += part
        del kept[:-KEPT]
        return bool(part)

    def rest(self) -> None:
        """Read what is there already; never wait for a process that holds the pipe."""
        for handle in self._open:
            os.set_blocking(handle, False)
            with contextlib.suppress(BlockingIOError):
                for _ in range(1024):
                    if not self._read(handle):
                        break

    def said(self) -> "tuple[str, str]":
        """Return the last of stdout and of stderr."""
        first, second = (bytes(kept).decode("utf-8", "replace") for kept in self._kept.values())
        return first, second


def _reply(state: str, message: str) -> "CheckReply":
    return {"state": state, "message": message, "status": None, "stdout": "", "stderr": "", "seconds": 0.0, "left": []}


def _write(data: bytes) -> None:
    try:
        while data:
            data = data[os.write(READER, data) :]
    except OSError:
        raise EndedError from None
