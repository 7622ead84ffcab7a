"""The folders of an agent: what they hold, and what is removed at the end."""

import contextlib
import os
import shutil
from pathlib import Path

from . import files, interpreter
from .protocol_files import BEGAN, KEY, AgentSpec

FENCES = "fences.json"
CLUSTER = "cluster.json"


def secrets(scratch: Path) -> Path:
    """Return a folder of this user for secrets, which must not reach a disk.

    It is in memory, where the machine has such a place.
    """
    memory = Path("/dev/shm")  # noqa: S108
    return files.private(memory / scratch.name) if memory.is_dir() and os.access(memory, os.W_OK) else scratch


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


def clear(folder: Path, spec: AgentSpec) -> None:
    """Remove what only a living run needs; logs and exits stay.

    That is: sockets, secrets, Ray's files, an unfinished Python environment.
    """
    clear_scratch(spec)
    for name in ("gcs", "tls"):
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder / name)
    for name in ("token", KEY, BEGAN, FENCES, CLUSTER):
        (folder / name).unlink(missing_ok=True)
    if unfinished := interpreter.wanted(folder, spec):
        unfinished.forget()


def clear_scratch(spec: AgentSpec) -> None:
    """Remove the run's folders outside its own."""
    scratch = Path(spec["scratch"])
    for path in (Path("/dev/shm") / scratch.name, scratch):  # noqa: S108
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)
