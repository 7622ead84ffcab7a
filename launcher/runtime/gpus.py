"""Whether other processes use the GPUs of this machine.

Checked after a kill, before something starts here again. `gpus FOLDER END [FIRST]` asks the driver about the GPUs from
FIRST (0) to before END; other members of the run may go on using the rest. It is a program of its own, because one that
asks a sick driver may get no answer, and cannot be killed. Processes of the run in FOLDER that survived the kill are
meant to: a driver's detached actor, for example.
"""

import contextlib
import json
import os
import pwd
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Container
from pathlib import Path
from typing import TYPE_CHECKING

from . import files, procs
from .facts import FOLDERS

if TYPE_CHECKING:
    from .protocol import Reply

GPUS = ("nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader")
APPS = ("nvidia-smi", "--query-compute-apps=gpu_uuid,pid,process_name", "--format=csv,noheader")
ANSWER_S = 20.0
"""Seconds for an answer; without persistence mode the driver is loaded for each one, which takes ten and more."""
LEAVE_S = 2.0
"""Seconds for which the driver may still list a process that was just killed."""
PAUSE_S = 0.3
SHARED = "nvidia-cuda-mps-server"
"""A daemon that opens GPUs for others and computes nothing itself; its clients are listed too."""
MOST = 3


def main(argv: list[str]) -> int:
    """Print whether the GPUs are free; if not, the reason."""
    spec = files.agent_spec(Path(argv[0]))
    scope = procs.of_spec(spec) if spec else None
    first = int(argv[2]) if argv[2:] else 0
    print(json.dumps(free(int(argv[1]), lambda: procs.scan(scope) if scope else [], first)))
    return 0


def free(end: int, ours: Callable[[], list[procs.ProcessId]], first: int = 0) -> "Reply":
    """Return whether only processes of ours use a range of GPUs.

    The driver is asked again for a while, where others use them.
    """
    deadline, pause = time.monotonic() + LEAVE_S, threading.Event()
    while True:
        try:
            users = computing(_ask(GPUS), _ask(APPS), end, {str(process.pid) for process in ours()}, first)
        except OSError as error:
            return {"ok": False, "message": f"cannot tell whether its GPUs are free: {error}"}
        if not users:
            return {"ok": True}
        if time.monotonic() >= deadline:
            more = f" and {len(users) - MOST} more" if len(users) > MOST else ""
            return {"ok": False, "message": f"not free: {', '.join(users[:MOST])}{more}"}
        pause.wait(PAUSE_S)


def computing(gpus: str, apps: str, end: int, ours: Container[str] = (), first: int = 0) -> list[str]:
    """Return a description of each other process on a range of GPUs.

    OSError where the driver has fewer GPUs.
    """
    known = {uuid: int(at) for at, uuid in _rows(gpus, 2) if at.isdecimal() and int(at) < end}
    if len(known) < end:
        raise OSError(f"the driver has {len(known)} of {end} GPUs")
    index = {uuid: at for uuid, at in known.items() if at >= first}
    found: dict[tuple[str, str], list[int]] = {}
    for uuid, pid, name in _rows(apps, 3):
        if uuid in index and pid not in ours and os.path.basename(name) != SHARED:
            found.setdefault((pid, os.path.basename(name)), []).append(index[uuid])
    return [
        f"`{name}` (pid {pid}{_of(pid)}) computes on GPU {', '.join(map(str, sorted(where)))}"
        for (pid, name), where in found.items()
    ]


def _rows(text: str, width: int) -> list[list[str]]:
    """Return the fields of each line.

    The last field is a name, which may have commas of its own.
    """
    rows = [[field.strip() for field in line.split(",", width - 1)] for line in text.splitlines() if line.strip()]
    if strange := [row for row in rows if len(row) < width]:
        raise OSError(f"unexpected output of `nvidia-smi`: `{strange[0][0][:200]}`")
    return rows


def _of(pid: str) -> str:
    """Return the user of a process; an empty string for one that is gone or hidden."""
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return ""
    try:
        return f", of {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f", of user {uid}"


def _ask(argv: tuple[str, ...]) -> str:
    """Return what a program prints; OSError where it gives no answer.

    One that cannot be killed is left behind.
    """
    env = {**os.environ, "PATH": ":".join((os.environ.get("PATH", ""), *FOLDERS)), "LC_ALL": "C"}
    try:
        tool = subprocess.Popen(
            argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError:
        raise OSError(f"`{argv[0]}` is not installed") from None
    try:
        said, _ = tool.communicate(timeout=ANSWER_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(tool.pid, signal.SIGKILL)
        raise OSError(f"`nvidia-smi` did not answer within {ANSWER_S:.0f} s") from None
    if tool.returncode:
        last = said.strip().splitlines()[-1:] or ["nothing"]
        raise OSError(f"`nvidia-smi` ended with {tool.returncode}: {last[0][:200]}")
    return said
