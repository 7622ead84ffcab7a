"""Detached controllers: started in the background, each a process of its own."""

import os
import subprocess
import sys
import time
from pathlib import Path

from launcher.core.model.run import RunId
from launcher.errors import LaunchError
from launcher.store.rows import RunRow
from launcher.store.store import Store
from launcher.transport.clock import pause

# The controllers that this process started: the finaliser of a Popen is Python code, and would swallow a Ctrl-C.
_children: "list[subprocess.Popen[bytes]]" = []

OWN_DEADLINE = 30.0
"""How long a new controller may take to own its run (s); imports from a cold disk take most of it."""


def controller_log(home: Path, run: RunId) -> Path:
    """Return the path of the log of a run's controllers."""
    return home / "runs" / run / "controller.log"


def ensure_controller(home: Path, row: RunRow) -> None:
    """Start a controller for a run that has not ended and has no live one."""
    if row.ended is None and not (row.owner and row.owner.alive()):
        spawn(home, row.id)


def spawn(home: Path, run_id: RunId) -> None:
    """Start a detached controller, and return when the run has a live owner.

    The child has no terminal, and no secrets of the task in its environment; its log is in the folder of the run.
    Raises LaunchError with the last line of that log where the child ends before it owns the run.
    """
    store = Store(home)
    run, _ = store.load(run_id)
    log = controller_log(home, run_id)
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    environ = {name: value for name, value in os.environ.items() if name not in run.task.secrets}
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as out:
        child = subprocess.Popen(
            [sys.executable, "-m", "launcher.drive", str(home), run_id],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=environ,
            cwd="/",
            start_new_session=True,
        )
    _children.append(child)
    deadline = time.monotonic() + OWN_DEADLINE
    while time.monotonic() < deadline:
        row = store.find(run_id)
        if row.ended is not None or (row.owner and row.owner.alive()):
            return
        if child.poll() is not None:
            break
        pause(0.02)
    tail = log.read_text(errors="replace").splitlines()[-5:]
    raise LaunchError(
        f"the controller of `{run_id}` did not start: {tail[-1] if tail else 'its log is empty'}",
        hints=(f"its log is {log}", f"`nvlaunch watch {run.name}` tries again, `nvlaunch down {run.name}` cleans up"),
    )
