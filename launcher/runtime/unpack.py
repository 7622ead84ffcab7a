"""Puts the user's files on a node: whole or not at all.

Nothing is sent that is there already. Two steps. `plan` reads a manifest and replies which contents are missing, after
it has copied those that a former run left here; each copy is hashed on the way, since a program may have changed the
file. `fill` reads the missing contents, puts all in place, and ends with one rename.

A manifest is packed JSON: `trees`, each with `to` and `entries`; `hashes` and `sizes` of the contents by number. An
entry is `["d", name, mode, time]`, `["l", name, target]` or `["f", name, mode, time, number]`; the name is empty for a
tree that is one file. `to` is relative to the folder that is made, absolute, or in `~/`.
"""

import collections
import ctypes
import errno
import fcntl
import json
import os
import shutil
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from . import node_fault
from .files import draft as draft_of
from .protocol import Reply
from .protocol_files import Manifest
from .stage import CopyStage
from .unpack_stream import counted, everything, exactly, parts, pour, unpacked

HEAD = struct.Struct(">IBQ")
END = 0xFFFFFFFF
FORMER = 4
"""The number of former runs that are searched for contents, the newest first."""

LASTING = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG)
"""Errors that a second attempt would meet again."""


class BrokenError(Exception):
    """The contents that came do not match the manifest."""


class RefusedError(BrokenError):
    """The manifest describes files that cannot be put in place."""


def main(argv: list[str]) -> int:
    """Make `FOLDER/NAME`; former runs are in `BASE/*/PLACE`.

    `plan FOLDER NAME BASE PLACE`, then `fill FOLDER NAME`.
    """
    unpacking = Unpacking(Path(argv[1]).absolute(), argv[2])
    source = sys.stdin.buffer
    step = (lambda: unpacking.plan(Path(argv[3]), argv[4], source)) if argv[0] == "plan" else unpacking.fill
    try:
        reply = unpacking.alone(step)
    except (OSError, BrokenError, EOFError, zlib.error) as error:
        unpacking.forget()
        lasting = isinstance(error, RefusedError) or (isinstance(error, OSError) and error.errno in LASTING)
        reply = {"ok": False, "message": unpacking.message(error), "lasting": lasting}
        if fault := node_fault.of_files(error, Path(argv[1])):
            reply["fault"] = fault
    print(json.dumps(reply))
    return 0


class Unpacking:
    """One folder of a run in the making, as a partial folder beside it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._target = folder / name
        self._partial = folder / f".{name}.partial"
        self._tree = self._partial / "tree"
        self._kept = folder / f"{name}.manifest"
        self._folders: set[Path] = set()

    def alone(self, step: Callable[[], Reply]) -> Reply:
        """Return the reply of a step; one runs at a time, also if asked twice."""
        with (self._folder / f".{self._name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return {"ok": True} if self._target.exists() else step()

    def plan(self, base: Path, place: str, source: BinaryIO) -> Reply:
        """Return the numbers of the contents that have to be sent."""
        self.forget()
        (self._partial / "contents").mkdir(mode=0o700, parents=True)
        packed = source.read()
        (self._partial / "manifest").write_bytes(packed)
        manifest = read(packed)
        self._check_room(manifest)
        known = self._former(base, place)
        wanted = enumerate(manifest["hashes"])
        return {"ok": True, "missing": [at for at, digest in wanted if not self._copied(at, digest, known)]}

    def _check_room(self, manifest: Manifest) -> None:
        files = [entry for tree in manifest["trees"] for entry in tree["entries"] if entry[0] == "f"]
        room = os.statvfs(self._partial)
        block, free = room.f_frsize, room.f_bavail * room.f_frsize
        need = sum(-(-manifest["sizes"][entry[4]] // block) * block for entry in files)
        if need > free:
            raise OSError(errno.ENOSPC, f"{need / 1e6:.0f} MB are needed, {free / 1e6:.0f} MB are free")
        if room.f_files and len(files) > room.f_favail:
            raise OSError(errno.ENOSPC, f"{len(files)} files are needed, {room.f_favail} are left")

    def _former(self, base: Path, place: str) -> dict[str, list[Path]]:
        """Return the files of former runs by the hash of their content."""
        paths = (run / place / f"{self._name}.manifest" for run in base.absolute().iterdir())
        found = (path for path in paths if path.is_file() and path != self._kept)
        known: dict[str, list[Path]] = {}
        for path in sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)[:FORMER]:
            try:
                manifest = read(path.read_bytes())
            except (OSError, ValueError, zlib.error):
                continue  # without it more is sent
            for file, entry in _files(manifest, path.with_name(self._name)):
                known.setdefault(manifest["hashes"][entry[4]], []).append(file)
        return known

    def _copied(self, number: int, digest: str, known: dict[str, list[Path]]) -> bool:
        own = self._partial / "contents" / str(number)
        for path in known.get(digest, ()):
            try:
                source = path.open("rb")
            except OSError:
                continue  # it is gone or unreadable: the next one, or the launcher, has it
            with source, own.open("wb") as target:
                if pour(everything(source), target) == digest:
                    return True
        own.unlink(missing_ok=True)
        return False

    def fill(self) -> Reply:
        """Read the missing contents from stdin, make the tree, and put it in place."""
        source = sys.stdin.buffer
        packed = (self._partial / "manifest").read_bytes()
        manifest = read(packed)
        told = CopyStage(self._folder, self._missing(manifest))
        while (head := HEAD.unpack(exactly(source, HEAD.size)))[0] != END:
            number, compressed, length = head
            with (self._partial / "contents" / str(number)).open("wb") as target:
                sent = parts(source, length)
                digest = pour(counted(unpacked(sent) if compressed else sent, told.add), target)
            if digest != manifest["hashes"][number]:
                raise BrokenError(f"content {number} arrived broken")
        self._tree.mkdir(mode=0o700)
        self._folders.add(self._tree)
        uses = collections.Counter(
            entry[4] for tree in manifest["trees"] for entry in tree["entries"] if entry[0] == "f"
        )
        for tree in manifest["trees"]:
            self._plant(tree, uses)
        sync(self._partial)
        self._kept.write_bytes(packed)
        self._tree.rename(self._target)
        self.forget()
        return {"ok": True}

    def _missing(self, manifest: Manifest) -> int:
        """Return the bytes of the contents that are still to come."""
        here = set(os.listdir(self._partial / "contents"))
        return sum(size for number, size in enumerate(manifest["sizes"]) if str(number) not in here)

    def _plant(self, tree: dict[str, Any], uses: "collections.Counter[int]") -> None:
        root = destination(tree["to"], self._tree)
        for kind, name, *rest in tree["entries"]:
            path = root / name if name else root
            if kind == "d":
                self._need(path)
                continue
            self._need(path.parent)
            if kind == "l":
                draft = draft_of(path)
                draft.symlink_to(rest[0])
                draft.replace(path)
            else:
                mode, time_ns, number = rest
                uses[number] -= 1
                self._put(number, path, mode, time_ns, last=not uses[number])
        for kind, name, *rest in reversed(tree["entries"]):
            # Inside only: a folder that was there before keeps its mode. Those made here stay open to this user.
            if kind == "d" and self._is_inside(root / name):
                os.chmod(root / name, rest[0] | 0o700)
                os.utime(root / name, ns=(rest[1], rest[1]))

    def _is_inside(self, path: Path) -> bool:
        return self._tree == path or self._tree in path.parents

    def _need(self, folder: Path) -> None:
        """Make a folder; one inside the tree must not lead out of it by a link."""
        if folder in self._folders:
            return
        if self._is_inside(folder):
            self._need(folder.parent)
            if folder.is_symlink():
                name = folder.relative_to(self._tree)
                raise RefusedError(f"`{name}` is a link in the workdir, and a file mount would go through it")
        folder.mkdir(parents=True, exist_ok=True)
        self._folders.add(folder)

    def _put(self, number: int, path: Path, mode: int, time_ns: int, *, last: bool) -> None:
        """Put a content in place by a rename: another program may have it open."""
        source = self._partial / "contents" / str(number)
        if last:
            os.chmod(source, mode)
            os.utime(source, ns=(time_ns, time_ns))
            try:
                os.replace(source, path)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
            else:
                return
        draft = draft_of(path)
        try:
            shutil.copyfile(source, draft)
            os.chmod(draft, mode)
            os.utime(draft, ns=(time_ns, time_ns))
            os.replace(draft, path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise

    def forget(self) -> None:
        """Remove the partial folder."""
        shutil.rmtree(self._partial, ignore_errors=True)

    def message(self, error: Exception) -> str:
        """Return a message for an error."""
        if not isinstance(error, OSError):
            return str(error) or type(error).__name__
        if error.errno in node_fault.FULL:
            told = "" if error.strerror == os.strerror(error.errno) else f": {error.strerror}"
            return f"no room for the files of the run in `{self._folder}`{told}"
        where = error.filename2 or error.filename or self._folder
        return f"cannot write `{where}`: {(error.strerror or str(error)).lower()}"


def read(packed: bytes) -> Manifest:
    """Return a manifest from its packed form."""
    manifest: Manifest = json.loads(zlib.decompress(packed))
    return manifest


def destination(to: str, folder: Path) -> Path:
    """Return the root of a tree, given `to` and the folder that is made."""
    return folder / Path(to).expanduser() if to else folder


def _files(manifest: Manifest, folder: Path) -> Iterator[tuple[Path, list[Any]]]:
    for tree in manifest["trees"]:
        root = destination(tree["to"], folder)
        for entry in tree["entries"]:
            if entry[0] == "f":
                yield (root / entry[1] if entry[1] else root), entry


def sync(folder: Path) -> None:
    """Write a file system to disk: a power cut must leave no empty files."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        ctypes.CDLL(None).syncfs(handle)
    finally:
        os.close(handle)
