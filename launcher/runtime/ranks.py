"""The ranks' folders on a node: `ranks/<group>-<rank>/<attempt>/{spec,state,exit}.json`, `log`, `heartbeat`."""

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import files, logs, procs
from .heartbeat import now

HEARTBEAT = "heartbeat"
"""The file that a rank may write or touch to show that it gets on; `NVLAUNCH_HEARTBEAT` names it."""
STOPPING = "stopping"
"""The file that says that a rank was sent its stop signal: from then on it has ended when all of it has."""


class Quiet:
    """How long each rank has written nothing, by the clock that no one can set: when its files were last seen to
    change. An agent that was just started has seen nothing yet, and says 0."""

    def __init__(self, clock: Callable[[], float] = now) -> None:
        self._clock = clock
        self._seen: dict[Path, tuple[tuple[tuple[int, int], ...], float]] = {}

    def of(self, folder: Path) -> float:
        """Return for how long a rank's log and heartbeat file have not changed (s)."""
        at, shown = self._clock(), tuple(_stamp(folder / name) for name in ("log", HEARTBEAT))
        before, since = self._seen.get(folder, (None, at))
        if shown != before:
            self._seen[folder], since = (shown, at), at
        return at - since


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)


def reports(folder: Path, quiet: Quiet) -> list[dict[str, Any]]:
    """Return of each member the newest attempt that ever began here, and every older one that still lives."""
    try:
        members = sorted((folder / "ranks").iterdir())
    except FileNotFoundError:
        return []
    return [report for member in members for report in _of_member(member, quiet)]


def _of_member(folder: Path, quiet: Quiet) -> list[dict[str, Any]]:
    attempts = sorted((int(name) for name in os.listdir(folder) if name.isdecimal()), reverse=True)
    told: list[dict[str, Any]] = []
    for attempt in attempts:
        # One whose parent has not begun, or never did, says nothing, and must not hide the one before it.
        report = _report(folder / str(attempt), quiet)
        if report and (report["running"] or not told):
            told.append(report)
    return told[::-1]


def _report(folder: Path, quiet: Quiet) -> dict[str, Any] | None:
    state = files.read(folder / "state.json")
    if state is None:
        return None
    head = {"member": state["member"], "attempt": state["attempt"]}
    end = files.read(folder / "exit.json")
    if end is None and alive(state):
        return {**head, "running": True, "quiet": quiet.of(folder)}
    end = end or files.read(folder / "exit.json")  # it may have ended between the two looks
    if end is None:
        return {**head, "running": False, "exit_code": None, "tail": logs.tail(folder / "log")}
    code = end["code"]
    return {
        **head,
        "running": False,
        "exit_code": code,
        "at": end["at"],
        "tail": logs.tail(folder / "log") if code else [],
    }


def alive(state: dict[str, Any]) -> bool:
    """Whether the parent of a rank's script lives, by number and start."""
    process = procs.find(state["pid"])
    return process is not None and process.start == state["start"]


def tell_to_stop(folder: Path, gang: str | None) -> None:
    """Write down that the ranks here, or those of one gang, are sent their stop signal."""
    for own, state in _living(folder):
        if gang is None or state["gang"] == gang:
            with contextlib.suppress(OSError):  # a full disk: then a rank ends with its script
                (own / STOPPING).touch()


def living(folder: Path) -> list[dict[str, Any]]:
    """Return the states of the ranks whose parent lives, of any attempt."""
    return [state for _, state in _living(folder)]


def _living(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in (folder / "ranks").glob("*/*/state.json"):
        state = files.read(path)
        if state and alive(state):
            yield path.parent, state


def others_began(folder: Path, member: str, attempt: int) -> float:
    """Return when the first living rank began that is of another member or a later attempt (clock ticks since boot)."""
    others = (state for state in living(folder) if state["member"] != member or state["attempt"] > attempt)
    return min((float(state["start"]) for state in others), default=math.inf)
