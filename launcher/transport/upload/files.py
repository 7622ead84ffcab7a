"""The user's files that a run takes to its nodes, and the copy kept of them."""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from launcher.core.model.run import Run, RunId
from launcher.core.model.task import Task
from launcher.errors import LaunchError
from launcher.transport.upload import ignore, snapshot
from launcher.transport.upload.snapshot import FileTree, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadSize:
    """How much goes to each node.

    Files, bytes, what git ignores, and what cannot be copied.
    """

    files: int = 0
    size: int = 0
    ignored: int = 0
    special: tuple[str, ...] = ()


def weigh(task: Task) -> UploadSize:
    """Return how much a task sends to each node.

    LaunchError where a file cannot be read.
    """
    files = size = ignored = 0
    special: list[str] = []
    for tree in _trees(task):
        for path in _paths(tree):
            try:
                found = path.lstat()
            except FileNotFoundError:
                continue  # it was removed meanwhile
            files += 1
            size += found.st_size if stat.S_ISREG(found.st_mode) else 0
        if tree.listing is not None:
            ignored += tree.listing.ignored
            special += [str(tree.source / os.fsdecode(name)) for name in tree.listing.special]
    return UploadSize(files=files, size=size, ignored=ignored, special=tuple(special))


def keep(home: Path, run: Run) -> Snapshot:
    """Return the files of a run as they were at the first call."""
    return _kept(home, run.id, "files", lambda: _trees(run.task))


def keep_wheels(home: Path, run: RunId, folder: str) -> Snapshot:
    """Return a folder of wheels as it was at the first call of the run."""
    source = Path(folder).expanduser()
    name = f"wheels-{sha256(str(source).encode()).hexdigest()[:8]}"
    return _kept(home, run, name, lambda: iter((FileTree(source=source, to="", listing=ignore.everything(source)),)))


def _kept(home: Path, run: RunId, name: str, trees: Callable[[], Iterator[FileTree]]) -> Snapshot:
    folder = home / "runs" / run / name
    return Snapshot(folder) if folder.is_dir() else snapshot.take(trees(), folder)


def _paths(tree: FileTree) -> Iterator[Path]:
    if tree.listing is None:
        yield tree.source.resolve()
    else:
        yield from (tree.source / os.fsdecode(name) for name in tree.listing.files)


def _trees(task: Task) -> Iterator[FileTree]:
    """Return the workdir, then the file mounts.

    Mounts are named one by one, so that no rule of git leaves any out.
    """
    if task.workdir is not None:
        folder = Path(task.workdir)
        yield FileTree(source=folder, to="", listing=ignore.listing(folder))
    for to, source in task.file_mounts.items():
        path = Path(source)
        if path.is_dir():
            yield FileTree(source=path, to=to, listing=ignore.everything(path))
        elif path.exists():
            yield FileTree(source=path, to=f"{to}{path.name}" if to.endswith("/") else to, listing=None)
        else:
            raise LaunchError(f"`{path}`, which is mounted at `{to}`, does not exist")
