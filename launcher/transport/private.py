"""Folders and files for this user alone."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path


def make_private(folder: Path) -> None:
    """Create a folder, and those above it that are missing, for this user alone.

    Each by itself: those that `parents=True` makes get the mode of the umask.
    """
    for one in (*reversed(folder.parents), folder):
        if not one.is_dir():
            one.mkdir(mode=0o700, exist_ok=True)


def made_once(path: Path, make: Callable[[], bytes]) -> bytes:
    """Return the content of a file, made by the first call: it stays the same, also when two callers ask at once."""
    make_private(path.parent)
    if not path.exists():
        fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(make())
        try:
            path.hardlink_to(fresh)
        except FileExistsError:
            pass  # another caller's
        finally:
            fresh.unlink()
    return path.read_bytes()
