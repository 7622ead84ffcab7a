"""A file or folder of a node as a tar stream on stdout.

The stream is valid even while the files change. Anything but files, folders and symbolic links is left out, and so is
what cannot be read; stderr has a line for each.
"""

import contextlib
import os
import stat
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from . import command

MISSING = 3


def main(argv: list[str]) -> int:
    """Write the archive: `archive FOLDER PATH`; 3 where the path does not exist.

    The path is relative to the ranks' folder.
    """
    folder, word = Path(argv[0]).absolute(), argv[1]
    path = Path(os.path.normpath(command.place(folder) / os.path.expanduser(word)))
    name = path.name or "root"
    try:
        path = path.resolve(strict=True)
    except OSError as error:
        print(f"{path}: {error.strerror}", file=sys.stderr)
        return MISSING
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.PAX_FORMAT, bufsize=1 << 18) as archive:
        for source, inside in _walk(path, name):
            try:
                _add(archive, source, inside)
            except PermissionError as error:
                _left_out(source, (error.strerror or "").lower())
            except FileNotFoundError:
                _left_out(source, "it is gone")
    return 0


def _walk(path: Path, name: str) -> Iterator[tuple[Path, str]]:
    """Return each path below a path with its name in the archive.

    Folders come before their content.
    """
    yield path, name
    if path.is_dir() and not path.is_symlink():
        try:
            entries = sorted(os.listdir(path))
        except OSError as error:
            _left_out(path, (error.strerror or "").lower())
            return
        for entry in entries:
            yield from _walk(path / entry, f"{name}/{entry}")


def _add(archive: tarfile.TarFile, source: Path, name: str) -> None:
    found = source.lstat()
    entry = tarfile.TarInfo(name)
    entry.mode, entry.mtime = stat.S_IMODE(found.st_mode), found.st_mtime
    if stat.S_ISDIR(found.st_mode):
        entry.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(found.st_mode):
        entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(source)
    elif stat.S_ISREG(found.st_mode):
        with source.open("rb") as file:
            entry.size = os.fstat(file.fileno()).st_size
            archive.addfile(entry, _Whole(file, source, entry.size))  # type: ignore[arg-type]  # it only reads
        return
    else:
        _left_out(source, "not a file")
        return
    archive.addfile(entry)


class _Whole:
    """A file with a fixed number of bytes to read.

    Zeros follow where it has become shorter.
    """

    def __init__(self, file: IO[bytes], source: Path, size: int) -> None:
        self._file = file
        self._source = source
        self._left = size
        self._whole = True

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        wanted = min(size, self._left)
        try:
            part = self._file.read(wanted)
        except OSError:
            part = b""
        if len(part) < wanted and self._whole:
            self._whole = False
            _left_out(self._source, f"its last {self._left - len(part)} bytes cannot be read")
        self._left -= wanted
        return part + bytes(wanted - len(part))


def _left_out(source: Path, why: str) -> None:
    with contextlib.suppress(OSError):
        print(f"{source}: {why}", file=sys.stderr)
