"""Whether anybody computes on the GPUs of this machine: asked after a kill, before something starts here again.

`python -EsS PACKAGE gpus FOLDER END [FIRST]` asks the driver about the first END GPUs, those that a raylet of so many
is given, or about those of them from FIRST on: others of the run may go on computing on the rest. A program of its own,
because whoever asks a sick driver may never be answered, nor be killed. What the run in FOLDER has there after the
kill is meant to live: an actor that a driver detached, for its next attempt to find.
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
from typing import Any

from . import files, procs
from .facts import FOLDERS

GPUS = ("nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader")
APPS = ("nvidia-smi", "--query-compute-apps=gpu_uuid,pid,process_name", "--format=csv,noheader")
ANSWER_S = 20.0
"""Seconds for an answer; without persistence mode the driver is loaded for each question, which takes ten and more."""
LEAVE_S = 2.0
"""Seconds in which the driver may still name a process that was just killed."""
PAUSE_S = 0.3
SHARED = "nvidia-cuda-mps-server"
"""A daemon that holds GPUs for others and computes nothing itself: whom it serves is named too."""
MOST = 3


def main(argv: list[str]) -> int:
    """Print whether the GPUs are free (`ok`), and else in words who computes there or why that cannot be told."""
    spec = files.read(Path(argv[0]) / "agent.json")
    scope = procs.of_spec(spec) if spec else None
    first = int(argv[2]) if argv[2:] else 0
    print(json.dumps(free(int(argv[1]), lambda: procs.scan(scope) if scope else [], first)))
    return 0


def free(end: int, ours: Callable[[], list[procs.Process]], first: int = 0) -> dict[str, Any]:
    """Whether nobody but who is ours computes on the GPUs from `first` to before `end`, asked again for a while
    where somebody does."""
    deadline, pause = time.monotonic() + LEAVE_S, threading.Event()
    while True:
        try:
            who = computing(_ask(GPUS), _ask(APPS), end, {str(process.pid) for process in ours()}, first)
        except OSError as error:
            return {"ok": False, "message": f"cannot tell whether its GPUs are free: {error}"}
        if not who:
            return {"ok": True}
        if time.monotonic() >= deadline:
            more = f" and {len(who) - MOST} more" if len(who) > MOST else ""
            return {"ok": False, "message": f"not free: {', '.join(who[:MOST])}{more}"}
        pause.wait(PAUSE_S)


def computing(gpus: str, apps: str, end: int, ours: Container[str] = (), first: int = 0) -> list[str]:
    """Return in words who else computes on the GPUs from `first` to before `end`; OSError where the driver does not
    know so many."""
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
    """Return the fields of each line; a name may have commas of its own, so that the last has all that is left."""
    rows = [[field.strip() for field in line.split(",", width - 1)] for line in text.splitlines() if line.strip()]
    if strange := [row for row in rows if len(row) < width]:
        raise OSError(f"`nvidia-smi` says `{strange[0][0][:200]}`")
    return rows


def _of(pid: str) -> str:
    """Return whose a process is; nothing for one that has gone or that we may not see."""
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return ""
    try:
        return f", of {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f", of user {uid}"


def _ask(argv: tuple[str, ...]) -> str:
    """Return what a program prints; OSError says why it has no answer. One that cannot be killed is left behind."""
    env = {**os.environ, "PATH": ":".join((os.environ.get("PATH", ""), *FOLDERS)), "LC_ALL": "C"}
    try:
        tool = subprocess.Popen(
            argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError:
        raise OSError(f"there is no `{argv[0]}`") from None
    try:
        said, _ = tool.communicate(timeout=ANSWER_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(tool.pid, signal.SIGKILL)
        raise OSError(f"`nvidia-smi` has no answer within {ANSWER_S:.0f} s") from None
    if tool.returncode:
        last = said.strip().splitlines()[-1:] or ["nothing"]
        raise OSError(f"`nvidia-smi` ended with {tool.returncode}: {last[0][:200]}")
    return said
