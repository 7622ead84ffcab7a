"""Unpacks an untrusted tar stream into one folder, and never outside of it."""

import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from launcher.cli.tar_stream import FILE, FOLDER, LINK, PART, TarEntry, TarStream, TarStreamError
from launcher.errors import LaunchError

MAX_REFUSED = 1000
"""Reasons that are kept: a node could send refused files without end."""

EXISTS = "already exists here"


@dataclass(slots=True)
class Received:
    """How much was unpacked so far, and what was refused, each with the reason; `more` counts what is not kept."""

    files: int = 0
    size: int = 0
    refused: list[str] = field(default_factory=list)
    more: int = 0

    def refuse(self, message: str) -> None:
        """Add a reason."""
        if len(self.refused) < MAX_REFUSED:
            self.refused.append(message)
        else:
            self.more += 1


class Unpacker:
    """Unpacks files into one folder, each completely or not at all, with the rights that the umask leaves.

    With `force` they replace existing ones.
    """

    def __init__(self, folder: Path, received: Received, *, force: bool) -> None:
        self._folder = folder
        self._received = received
        self._force = force

    def unpack(self, stream: BinaryIO) -> None:
        """Unpack a stream to its end.

        LaunchError where it is not a tar archive, or cannot be written.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            archive = TarStream(stream)
            for entry in archive:
                self._take(archive, entry)
            while stream.read(PART):
                pass  # let the sender finish
        except TarStreamError as error:
            raise LaunchError(f"received no tar archive: {error}") from error
        except OSError as error:
            raise LaunchError(f"cannot write to `{self._folder}`: {(error.strerror or str(error)).lower()}") from error

    def _take(self, archive: TarStream, entry: TarEntry) -> None:
        parts = PurePosixPath(entry.name).parts
        why = _hostile(entry.name) or self._blocked(parts)
        if why is None:
            target = self._folder.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            why = self._put(archive, entry, target, parts)
        if why is not None:
            self._received.refuse(f"`{entry.name}`: {why}")

    def _blocked(self, parts: tuple[str, ...]) -> str | None:
        """Return why a path cannot be used.

        A part of it is no folder. Nothing is written through a link.
        """
        at = self._folder
        for part in parts[:-1]:
            at = at / part
            if at.is_symlink() or (at.exists() and not at.is_dir()):
                return f"`{at}` is not a folder"
        return None

    def _put(self, archive: TarStream, entry: TarEntry, target: Path, parts: tuple[str, ...]) -> str | None:
        """Unpack an entry; return why it was refused, None where it was not."""
        if entry.kind == FOLDER:
            if target.is_symlink() or (target.exists() and not target.is_dir()):
                return "another kind of file with this name exists here"
            target.mkdir(exist_ok=True)
            return None
        if target.is_dir() and not target.is_symlink():
            return "a folder with this name exists here"
        if not self._force and os.path.lexists(target):
            return EXISTS
        if entry.kind == FILE:
            return self._file(archive, entry, target)
        if entry.kind == LINK:
            return _outside(entry.link, len(parts) - 1) or self._link(entry, target)
        return "neither a file, a folder nor a symbolic link"

    def _file(self, archive: TarStream, entry: TarEntry, target: Path) -> str | None:
        draft = _draft(target)
        mode = entry.mode & 0o777 | 0o400  # less what the umask takes
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        try:
            with os.fdopen(handle, "wb") as file:
                for part in archive.content():
                    file.write(part)
            os.utime(draft, (entry.mtime, entry.mtime))
            why = self._settle(draft, target)
        finally:
            draft.unlink(missing_ok=True)
        if why is None:
            self._received.files += 1
            self._received.size += entry.size
        return why

    def _link(self, entry: TarEntry, target: Path) -> str | None:
        draft = _draft(target)
        draft.symlink_to(entry.link)
        try:
            why = self._settle(draft, target)
        finally:
            draft.unlink(missing_ok=True)
        self._received.files += why is None
        return why

    def _settle(self, draft: Path, target: Path) -> str | None:
        """Rename a complete file to its name.

        Without `force`, a file that appeared there meanwhile is kept.
        """
        if self._force:
            draft.replace(target)
            return None
        try:
            os.link(draft, target, follow_symlinks=False)
        except FileExistsError:
            return EXISTS
        except OSError:  # a file system without hard links
            if os.path.lexists(target):
                return EXISTS
            draft.replace(target)
        return None


def _draft(target: Path) -> Path:
    return target.with_name(f".nvlaunch-{secrets.token_hex(6)}")


def _hostile(name: str) -> str | None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        return "outside of the target folder"
    return None


def _outside(target: str, depth: int) -> str | None:
    """Return why a link is refused.

    It may lead out of the folder. `depth` is the number of folders that it is in.

    `..` is allowed only at the beginning: after another name, which may be a link, its meaning is unknown.
    """
    parts = PurePosixPath(target).parts
    up = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
    if PurePosixPath(target).is_absolute() or up > depth or ".." in parts[up:] or not target or "\0" in target:
        return f"a link out of the target folder, to `{target}`"
    return None
