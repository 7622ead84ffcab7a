"""The folders of an agent: what they hold, and what is removed at the end."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from . import files, interpreter
from .deadline import WatchedDeadline
from .protocol_files import BEGAN, KEY, AgentSpec

FENCES = "fences.json"
CLUSTER = "cluster.json"


MEMORY = Path("/dev/shm")  # noqa: S108 -- files there never reach a disk


def memory(scratch: Path) -> Path:
    """Return the folder of an agent that is in memory, where the machine has such a place; it may be gone."""
    return MEMORY / scratch.name if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) else scratch


def secrets(scratch: Path) -> Path:
    """Return a folder of this user for secrets, which must not reach a disk; it is made."""
    where = memory(scratch)
    return where if where == scratch else files.private(where)


def head_deadline(scratch: Path) -> Path:
    """Return where the agent of a head publishes when it is cut off if it hears nothing more."""
    return memory(scratch) / "head-deadline"


def watched_head(scratch: str | None) -> WatchedDeadline | None:
    """Return that deadline of a head's agent on this machine, by its scratch folder.

    None where it is on another machine, or of 0.4, which publishes none.
    """
    try:
        return WatchedDeadline(head_deadline(Path(scratch))) if scratch is not None else None
    except OSError:
        return None


def clear_ray(folder: Path, scratch: Path, *, cluster: int | None) -> None:
    """Remove what an earlier Ray left.

    `cluster` is that of a head: another one than before starts without storage. A head that is started again keeps its
    session, whose name its storage knows; but `ray start --head` refuses ("already running at") while the file that
    names the current cluster is there.
    """
    if cluster is None or _is_new(folder, cluster):
        shutil.rmtree(scratch / "ray", ignore_errors=True)
    (scratch / "ray" / "ray_current_cluster").unlink(missing_ok=True)


def _is_new(folder: Path, cluster: int) -> bool:
    """Whether a head is of another cluster than the last one.

    The storage of that one is removed then.
    """
    if (files.read(folder / CLUSTER) or {"cluster": 0})["cluster"] == cluster:
        return False
    shutil.rmtree(folder / "gcs", ignore_errors=True)
    files.write(folder / CLUSTER, {"cluster": cluster})
    return True


def clear(folder: Path, spec: AgentSpec) -> str:
    """Remove what only a living run needs; logs and exits stay. Return what could not be removed, empty for nothing.

    That is: sockets, secrets, Ray's files, an unfinished Python environment. Nothing of it keeps a node: what cannot be
    removed (a read-only disk) must not delay its release.
    """
    left = [*_clear_scratch(spec), *_removed(folder / "gcs"), *_removed(folder / "tls")]
    for name in ("token", KEY, BEGAN, FENCES, CLUSTER):
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as error:
            left.append(f"`{folder / name}`: {(error.strerror or str(error)).lower()}")
    if unfinished := interpreter.wanted(folder, spec):
        unfinished.forget()
    return f"cannot remove {'; '.join(left)}" if left else ""


def last_used(spec: AgentSpec) -> float | None:
    """Return when an agent last wrote to the folders of a run outside its own: it writes down each heartbeat.

    In seconds of the clock on the wall; None where there are no such folders.
    """
    scratch = Path(spec["scratch"])
    there = [one for one in (memory(scratch), memory(scratch) / "deadline", scratch) if one.exists()]
    return max((one.stat().st_mtime for one in there), default=None)


def clear_scratch(spec: AgentSpec) -> None:
    """Remove the run's folders outside its own, as far as that is possible."""
    for _ in _clear_scratch(spec):
        pass


def _clear_scratch(spec: AgentSpec) -> Iterator[str]:
    scratch = Path(spec["scratch"])
    for path in (MEMORY / scratch.name, scratch):
        yield from _removed(path)


def _removed(path: Path) -> Iterator[str]:
    """Remove a folder; yield why it is still there. One file that cannot be removed keeps no other."""
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        try:
            shutil.rmtree(path)
        except OSError as error:
            yield f"`{path}`: {(error.strerror or str(error)).lower()}"
