"""The user's files that a run takes to its nodes, and the copy kept of them."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from launcher.core.model.container import ImageSource
from launcher.core.model.run import Run, RunId
from launcher.core.model.task import Task
from launcher.errors import LaunchError
from launcher.transport.upload import ignore, snapshot
from launcher.transport.upload.ignore import Listing
from launcher.transport.upload.snapshot import FileTree, Snapshot

WHEEL = ".whl"


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadSource:
    """A file or folder that goes to nodes, in files and bytes.

    `to` is relative to the workdir, absolute, or in `~/`.
    """

    path: str
    to: str = ""
    files: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadSize:
    """How much goes to each node.

    Files, bytes, what git ignores, and what cannot be copied. `sources` are the workdir, if any, and the file mounts.
    `wheels` go only to nodes that make a Python environment and do not have the folder.
    """

    sources: tuple[UploadSource, ...] = ()
    wheels: tuple[UploadSource, ...] = ()
    files: int = 0
    size: int = 0
    ignored: int = 0
    special: tuple[str, ...] = ()


def weigh(task: Task, wheels: Iterable[str] = ()) -> UploadSize:
    """Return how much a task sends to each node.

    `wheels` are folders; those that this machine does not have are on the nodes. LaunchError where a file cannot be
    read.
    """
    trees = list(_trees(task))
    sources = tuple(_weigh(tree) for tree in trees)
    listings = [(tree.source, tree.listing) for tree in trees if tree.listing is not None]
    return UploadSize(
        sources=sources,
        wheels=tuple(_weigh(_wheels_tree(path)) for path in map(expanded, wheels) if path.is_dir()),
        files=sum(one.files for one in sources),
        size=sum(one.size for one in sources),
        ignored=sum(listing.ignored for _, listing in listings),
        special=tuple(str(at / os.fsdecode(name)) for at, listing in listings for name in listing.special),
    )


def _weigh(tree: FileTree) -> UploadSource:
    files = size = 0
    for path in _paths(tree):
        try:
            found = path.lstat()
        except FileNotFoundError:
            continue  # it was removed meanwhile
        files += 1
        size += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return UploadSource(path=str(tree.source), to=tree.to, files=files, size=size)


def wheels_in(folder: Path) -> dict[str, int]:
    """Return the wheels of a folder with their sizes in bytes; its other files are nobody's business."""
    return {one.name: one.stat().st_size for one in sorted(folder.glob(f"*{WHEEL}")) if _is_plain(one)}


def _is_plain(path: Path) -> bool:
    return stat.S_ISREG(path.lstat().st_mode)


def expanded(folder: str) -> Path:
    """Return a folder of wheels on this machine."""
    return Path(folder).expanduser()


def _wheels_tree(folder: Path) -> FileTree:
    names = tuple(os.fsencode(name) for name in wheels_in(folder))
    return FileTree(source=folder, to="", listing=Listing(files=names, empty=()))


def keep(home: Path, run: Run) -> Snapshot:
    """Return the files of a run as they were at the first call."""
    return _kept(home, run.id, "files", lambda: _trees(run.task))


def keep_wheels(home: Path, run: RunId, folder: str) -> Snapshot:
    """Return the wheels of a folder as they were at the first call of the run."""
    source = expanded(folder)
    name = f"wheels-{sha256(str(source).encode()).hexdigest()[:8]}"
    return _kept(home, run, name, lambda: iter((_wheels_tree(source),)))


def keep_images(home: Path, run: Run, groups: Sequence[str]) -> Snapshot:
    """Return the archives of the images of groups as they were at the first call of the run, by group."""
    trees = [
        FileTree(source=Path(found.image), to=f"{name}/{Path(found.image).name}", listing=None)
        for name in groups
        if (found := run.group(name).container) and found.source is ImageSource.SENT
    ]
    return _kept(home, run.id, f"images-{sha256(' '.join(groups).encode()).hexdigest()[:8]}", lambda: iter(trees))


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
    if task.folder is not None:
        folder = Path(task.folder)
        # A checkout has what the repository has: its rules are for what it does not have.
        listing = ignore.listing(folder) if task.git is None else ignore.everything(folder)
        yield FileTree(source=folder, to="", listing=listing)
    for to, source in task.file_mounts.items():
        path = Path(source)
        if path.is_dir():
            yield FileTree(source=path, to=to, listing=ignore.everything(path))
        elif path.exists():
            yield FileTree(source=path, to=f"{to}{path.name}" if to.endswith("/") else to, listing=None)
        else:
            raise LaunchError(f"`{path}`, which is mounted at `{to}`, does not exist")
