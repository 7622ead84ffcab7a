"""Files that are whole or absent, and folders of this user alone."""

import contextlib
import json
import os
import stat
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from .protocol_files import AgentSpec


def draft(path: Path) -> Path:
    """Return the path of a file in the making beside another one.

    Nobody else has it, whatever machines share the folder: process numbers of two machines may be equal.
    """
    return path.with_name(f".{path.name[:100]}.{os.uname().nodename[:60]}.{os.getpid()}.{threading.get_ident()}")


def write(path: Path, content: Mapping[str, object]) -> None:
    """Write a JSON file (0600) that survives a power cut whole.

    File, rename and folder are synced in this order.
    """
    temporary = draft(path)
    _write_draft(temporary, path, content, synced=True)
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def create(path: Path, content: Mapping[str, object]) -> bool:
    """Write a JSON file (0600) unless it exists; return whether it was written.

    Atomic.
    """
    temporary = draft(path)
    _write_draft(temporary, path, content)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    return True


def _write_draft(temporary: Path, path: Path, content: Mapping[str, object], *, synced: bool = False) -> None:
    """Write the content beside a path; an error names that path and leaves nothing behind."""
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(handle, "wb") as file:
            file.write(json.dumps(content).encode())
            file.flush()
            if synced:
                os.fsync(file.fileno())
    except OSError as error:
        error.filename = str(path)
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def read(path: Path) -> dict[str, Any] | None:
    """Return the content of a JSON file.

    None without the file, or where it is cut short or no object.
    """
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def agent_spec(folder: Path) -> "AgentSpec | None":
    """Return what the agent of a run's folder is started with.

    None where nothing of a run is there.
    """
    found: Any = read(folder / "agent.json")
    return cast("AgentSpec", found) if found and "run" in found else None


def private(path: Path) -> Path:
    """Make a folder of this user (0700) where anybody may write.

    PermissionError where it is somebody else's, whose number it names.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"`{path}` of user {found.st_uid} is not a folder of this user alone: remove it")
    return path
