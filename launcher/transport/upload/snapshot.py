"""The files of a run as they were at its start: a manifest and contents.

They lie in the run's own folder at home, so that a spare of next week gets the files of the day of the start, and no
copy of them is ever in memory: what is sent is a view of the file. Contents are there once each, named by their hash,
packed where that makes them smaller. Format of a content: `NUMBER PACKED LENGTH` as in `HEAD`, then its bytes.
"""

import hashlib
import json
import mmap
import os
import stat
import struct
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from launcher.errors import LaunchError
from launcher.transport.private import make_private
from launcher.transport.upload.ignore import Listing

HEAD = struct.Struct(">IBQ")
END = HEAD.pack(0xFFFFFFFF, 0, 0)
PART = 1 << 20
SAMPLE = 1 << 16
"""Bytes at the beginning of a file that tell whether the rest is worth packing."""

WORTH = 0.9
READS = 3
"""How often a file is read that is written meanwhile: what comes is then as it was at no time, and people are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTree:
    """A file or folder of the user's, and where it goes.

    `to` is relative to the workdir, absolute, or in `~/`.
    """

    source: Path
    to: str
    listing: Listing | None
    """None: it is one file."""


class Snapshot:
    """The files of a run. Safe to read from several threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.manifest = (folder / "manifest").read_bytes()
        """What a node needs to know, packed; its form is told in `launcher/runtime/unpack.py`."""
        changed = folder / "changed.json"
        self.changed: tuple[str, ...] = tuple(json.loads(changed.read_bytes())) if changed.exists() else ()
        """Files that were written while they were copied."""
        self._spans: list[list[int]] = json.loads((folder / "spans.json").read_bytes())
        self._data = _view(folder / "data")
        self._parts: dict[tuple[int, ...], memoryview] = {}

    @property
    def size(self) -> int:
        """Return the bytes of all contents, as they are sent."""
        return len(self._data)

    def contents(self, missing: Sequence[int]) -> memoryview:
        """Return the contents that a node lacks, by number; IndexError where there is none of a number.

        Nodes that lack the same share one view.
        """
        wanted = tuple(sorted(set(missing)))
        if wanted and not 0 <= wanted[0] <= wanted[-1] < len(self._spans):
            raise IndexError("no such content")
        if len(wanted) == len(self._spans):
            return self._data
        if wanted not in self._parts:
            with tempfile.TemporaryFile(dir=self._folder) as out:
                for number in wanted:
                    begin, end = self._spans[number]
                    out.write(self._data[begin:end])
                out.write(END)
                out.flush()
                self._parts[wanted] = memoryview(mmap.mmap(out.fileno(), 0, access=mmap.ACCESS_READ))
        return self._parts[wanted]


def _view(path: Path) -> memoryview:
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def take(trees: Iterable[FileTree], folder: Path) -> Snapshot:
    """Return a snapshot of trees, in a folder that is made whole or not at all.

    LaunchError names the file that cannot be read, or says that there is no room for the copy.
    """
    make_private(folder.parent)
    with tempfile.TemporaryDirectory(prefix=".snapshot-", dir=folder.parent) as partial:
        making = _Making(Path(partial) / "made")
        try:
            making.write(trees)
            making.folder.rename(folder)
        except OSError as error:
            if not folder.is_dir():  # another thread's, or another controller's
                message = f"cannot keep the run's files in `{folder}`: {(error.strerror or str(error)).lower()}"
                raise LaunchError(message) from error
    return Snapshot(folder)


class _Making:
    """A snapshot in the making."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers: dict[str, int] = {}
        self._sizes: list[int] = []
        self._spans: list[tuple[int, int]] = []
        self.changed: list[str] = []

    def write(self, trees: Iterable[FileTree]) -> None:
        """Write the three files."""
        self.folder.mkdir(mode=0o700)
        with (self.folder / "data").open("wb") as data:
            roots = [{"to": tree.to, "entries": list(self._entries(tree, data))} for tree in trees]
            data.write(END)
        hashes = list(self._numbers)
        manifest = {"trees": roots, "hashes": hashes, "sizes": self._sizes}
        (self.folder / "changed.json").write_text(json.dumps(self.changed))
        (self.folder / "spans.json").write_text(json.dumps(self._spans))
        (self.folder / "manifest").write_bytes(zlib.compress(json.dumps(manifest).encode(), 1))

    def _entries(self, tree: FileTree, data: BinaryIO) -> Iterator[list[Any]]:
        """Return each file, link and folder of a tree, folders before what is in them."""
        if tree.listing is None:
            yield self._entry(tree.source, "", data)
            return
        folders: set[bytes] = set()
        for name in (*tree.listing.empty, *tree.listing.files):
            folders.update(name[:at] for at, letter in enumerate(name) if letter == 0x2F)
        for name in sorted(folders | set(tree.listing.empty)):
            text = os.fsdecode(name)
            mode, time_ns = _stat(tree.source / text)
            yield ["d", text, mode, time_ns]
        for name in tree.listing.files:
            text = os.fsdecode(name)
            try:
                yield self._entry(tree.source / text, text, data)
            except FileNotFoundError:
                continue  # it was removed meanwhile

    def _entry(self, path: Path, name: str, data: BinaryIO) -> list[Any]:
        if name and path.is_symlink():
            return ["l", name, str(path.readlink())]
        found, number = self._read(path, data)
        for _ in range(READS - 1):
            if _same(found, path.stat()):
                break
            found, number = self._read(path, data)
        else:
            if not _same(found, path.stat()):
                self.changed.append(str(path))
        return ["f", name, stat.S_IMODE(found.st_mode) & 0o777, found.st_mtime_ns, number]

    def _read(self, path: Path, data: BinaryIO) -> tuple[os.stat_result, int]:
        with _open(path) as file:
            found = os.fstat(file.fileno())
            return found, self._keep(file, data)

    def _keep(self, file: BinaryIO, data: BinaryIO) -> int:
        """Add a content unless it is there; return its number.

        It is read once: the file may change meanwhile. Then it is read again, `READS` times at most.
        """
        first = file.read(SAMPLE)
        packed = len(small := zlib.compress(first, 1)) < WORTH * len(first)
        if len(first) < SAMPLE:
            digest = hashlib.sha256(first).hexdigest()
            if digest not in self._numbers:
                body = small if packed else first
                self._add(digest, len(first), data.tell(), data.tell() + HEAD.size + len(body))
                data.write(HEAD.pack(self._numbers[digest], packed, len(body)))
                data.write(body)
            return self._numbers[digest]
        return self._keep_large(first, file, data, packed)

    def _keep_large(self, first: bytes, file: BinaryIO, data: BinaryIO, packed: bool) -> int:
        begin, packer = data.tell(), zlib.compressobj(1) if packed else None
        found, size, part = hashlib.sha256(), 0, first
        data.seek(begin + HEAD.size)
        while part:
            found.update(part)
            size += len(part)
            data.write(packer.compress(part) if packer else part)
            part = file.read(PART)
        if packer:
            data.write(packer.flush())
        end, digest = data.tell(), found.hexdigest()
        data.seek(begin)
        if digest in self._numbers:
            data.truncate()
        else:
            self._add(digest, size, begin, end)
            data.write(HEAD.pack(self._numbers[digest], packed, end - begin - HEAD.size))
            data.seek(end)
        return self._numbers[digest]

    def _add(self, digest: str, size: int, begin: int, end: int) -> None:
        self._numbers[digest] = len(self._numbers)
        self._sizes.append(size)
        self._spans.append((begin, end))


def _same(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_ino, one.st_size, one.st_mtime_ns) == (other.st_ino, other.st_size, other.st_mtime_ns)


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise
    except OSError as error:
        message = f"cannot read `{path}`: {(error.strerror or str(error)).lower()}"
        raise LaunchError(message, hints=("let this user read it, or list it in `.gitignore`",)) from error


def _stat(path: Path) -> tuple[int, int]:
    try:
        found = path.lstat()
    except FileNotFoundError:  # it was removed meanwhile
        return 0o755, 0
    return stat.S_IMODE(found.st_mode) & 0o777, found.st_mtime_ns
