"""What the ranks' folders on a node say: `ranks/<group>-<rank>/<epoch>/{spec.json,state.json,exit.json,log}`."""

import math
from pathlib import Path
from typing import Any

from . import files, logs, procs


def reports(folder: Path) -> list[dict[str, Any]]:
    """Answer the newest epoch of each member that ever began here: running, ended with a code, or vanished."""
    try:
        members = sorted((folder / "ranks").iterdir())
    except FileNotFoundError:
        return []
    found = (_report(member / str(logs.newest(member))) for member in members)
    return [report for report in found if report]


def _report(folder: Path) -> dict[str, Any] | None:
    state = files.read(folder / "state.json")
    if state is None:
        return None
    head = {"member": state["member"], "epoch": state["epoch"]}
    end = files.read(folder / "exit.json")
    if end is None and alive(state):
        return {**head, "running": True}
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
    """Answer whether the parent of a rank's script lives, by number and start."""
    process = procs.find(state["pid"])
    return process is not None and process.start == state["start"]


def living(folder: Path) -> list[dict[str, Any]]:
    """Answer the states of the ranks whose parent lives, of any epoch."""
    states = (files.read(path) for path in (folder / "ranks").glob("*/*/state.json"))
    return [state for state in states if state and alive(state)]


def others_began(folder: Path, member: str, epoch: int) -> float:
    """Answer when the first living rank began that is of another member or a later epoch (clock ticks since boot)."""
    others = (state for state in living(folder) if state["member"] != member or state["epoch"] > epoch)
    return min((float(state["start"]) for state in others), default=math.inf)
