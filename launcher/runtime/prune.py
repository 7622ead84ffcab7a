"""Removes the folders of earlier runs when a new one begins.

The newest ten stay, and those of the last week; what killed agents left in memory goes at once.
"""

import fcntl
import logging
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from . import agent_folders, files, fuse, mounts, mounts_file, procs
from .containers import keep

if TYPE_CHECKING:
    from .protocol_files import AgentSpec

KEEP = 10
KEEP_S = 7 * 24 * 3600.0
ABANDONED_S = 3600.0
"""Seconds since the last heartbeat of a run, after which its launcher counts as gone where its agent was killed."""
ALIVE = "alive"
"""The file that an agent locks while it lives, on whatever machine: a home may be shared by many."""


def hold(folder: Path) -> int:
    """Return a descriptor that marks this folder as in use while it is open."""
    handle = os.open(folder / ALIVE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        logging.exception("cannot lock `%s`", folder / ALIVE)
    return handle


def prune(folder: Path, spec: "AgentSpec", now: float) -> list[Path]:
    """Remove the folders of earlier runs of this place; return them.

    `now` is wall-clock time (s).
    """
    base = folder.parent.parent if spec["nested"] else folder.parent
    inner = spec["place"] if spec["nested"] else ""
    found = [(_used(path), path) for run in base.iterdir() if (path := run / inner) != folder and _is_ours(path)]
    old = [path for used, path in sorted(found, reverse=True)[KEEP:] if now - used > KEEP_S and not _must_stay(path)]
    for _, path in found:
        if (path / keep.LEFT).exists() and not _lives(path) and (before := files.agent_spec(path)) is not None:
            keep.removed(path, before, keep.user_base())
        _clear_killed(path, now)
    for path in old:
        _remove(path)
        if spec["nested"] and not any(path.parent.iterdir()):
            path.parent.rmdir()
    return old


def _is_ours(path: Path) -> bool:
    return (path / "agent.json").is_file() and not path.is_symlink()


def _used(path: Path) -> float:
    """Return when a run last wrote there, by its agent's log and spec."""
    return max(one.stat().st_mtime for one in (path, path / "agent.json", path / "log") if one.exists())


def _clear_killed(path: Path, now: float) -> None:
    """Remove mounts, sockets and secrets of a run whose agent was killed and whose launcher never came back.

    Not while a process of the run lives, or a container of it may, or its launcher may be about to start it again.
    """
    spec = files.agent_spec(path)
    if spec is None:
        return
    used = agent_folders.last_used(spec)
    if used is None and not fuse.of_run(spec["run"], spec["place"]):
        return
    if now - max(used or 0.0, _used(path)) < ABANDONED_S or _lives(path):
        return
    if any(keep.states(spec["scratch"])) or procs.scan(procs.of_spec(spec)):
        return
    if told := "; ".join(filter(None, [mounts.end(path, spec), agent_folders.clear(path, spec)])):
        logging.warning("of a run whose agent was killed, in `%s`: %s", path, told)


def _must_stay(path: Path) -> bool:
    """Whether a run's folder may not be removed.

    It is in use, has a mount in it (its files are a bucket's), or the only copy of writes that were not sent to one.
    """
    return (
        bool(fuse.below(path)) or (path / mounts_file.UNSENT).exists() or not mounts_file.all_sent(path) or _lives(path)
    )


def _lives(path: Path) -> bool:
    """Whether an agent uses a run's folder, on whatever machine."""
    spec = files.agent_spec(path)
    if spec is None or procs.agents(spec["run"], spec["place"]):
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
    """Remove a folder, and last the file that shows it is a run's.

    What is left of it is removed another time.
    """
    for entry in path.iterdir():
        if entry.name == "agent.json":
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)
