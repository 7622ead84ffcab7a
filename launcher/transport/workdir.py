"""The user's workdir as one tar stream: what git would take, modes and links kept."""

import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

from launcher.errors import LaunchError


def pack(folder: Path) -> bytes:
    """Answer the folder as a tar: in a git tree what git does not ignore, else all of it. Links stay links."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(_names(folder)):
            archive.add(folder / name, arcname=name, recursive=False, filter=_anonymous)
    return out.getvalue()


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Answer the entry as belonging to whoever unpacks it."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _names(folder: Path) -> Iterator[str]:
    """Answer what belongs to the folder, relative to it."""
    if not folder.is_dir():
        raise LaunchError(f"workdir `{folder}` is gone")
    listed = _listed_by_git(folder)
    if listed is None:
        yield from (str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_socket())
        return
    for name in listed:
        path = folder / name
        # A file that was deleted, but not from git's index, is listed too; a submodule is listed as its folder.
        if path.is_symlink() or path.is_file():
            yield name
        elif path.is_dir():
            yield from (f"{name.rstrip('/')}/{inner}" for inner in _names(path))


def _listed_by_git(folder: Path) -> list[str] | None:
    """Answer what git does not ignore; None outside of a git tree and without git."""
    argv = ["git", "-C", str(folder), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(argv, capture_output=True)
    except FileNotFoundError:
        return None
    if listed.returncode != 0:
        return None
    return [os.fsdecode(raw) for raw in listed.stdout.split(b"\0") if raw]
