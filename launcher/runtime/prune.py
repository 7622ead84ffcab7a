"""What earlier runs left on this node, removed when a new one begins: the newest ten stay, and a week of them."""

import fcntl
import logging
import os
import shutil
from pathlib import Path
from typing import Any

from . import files, procs

KEEP = 10
KEEP_S = 7 * 24 * 3600.0
ALIVE = "alive"
"""Locked by an agent for as long as it lives, wherever that is: a home may be shared by many machines."""


def hold(folder: Path) -> int:
    """Return the descriptor whose life says that this folder is in use."""
    handle = os.open(folder / ALIVE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        logging.exception("cannot lock `%s`", folder / ALIVE)
    return handle


def prune(folder: Path, spec: dict[str, Any], now: float) -> list[Path]:
    """Remove the folders of earlier runs of this place; returns which. `now` is wall-clock time (s)."""
    base = folder.parent.parent if spec["nested"] else folder.parent
    inner = spec["place"] if spec["nested"] else ""
    found = [(_used(path), path) for run in base.iterdir() if (path := run / inner) != folder and _is_ours(path)]
    old = [path for used, path in sorted(found, reverse=True)[KEEP:] if now - used > KEEP_S and not _lives(path)]
    for path in old:
        _remove(path)
        if spec["nested"] and not any(path.parent.iterdir()):
            path.parent.rmdir()
    return old


def _is_ours(path: Path) -> bool:
    return (path / "agent.json").is_file() and not path.is_symlink()


def _used(path: Path) -> float:
    """Return when something of a run was last written there, as far as its agent's log and orders tell."""
    return max(one.stat().st_mtime for one in (path, path / "agent.json", path / "log") if one.exists())


def _lives(path: Path) -> bool:
    spec = files.read(path / "agent.json") or {}
    if "run" not in spec or procs.agents(spec["run"], spec["place"]):
        return True
    if not (path / ALIVE).exists():
        return False
    with open(path / ALIVE, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _remove(path: Path) -> None:
    """Remove a folder, what tells that it is ours as the last: half of it left is removed another time."""
    for entry in path.iterdir():
        if entry.name == "agent.json":
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)
