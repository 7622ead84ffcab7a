"""Documents of shared variables in a run's folder, and lists for programs.

Each is a file named by the hash of its content.
"""

import hashlib
import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path

from . import files
from .protocol_files import SHARED, SharedDocument


def keep(folder: Path, name: str, content: Callable[[], bytes]) -> None:
    """Write a document as it was sent, unless it exists."""
    path = folder / SHARED / name
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, exist_ok=True)
    temporary = files.draft(path)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(content())
    os.replace(temporary, path)


def keep_text(folder: Path, text: str) -> Path:
    """Return the file of a text; it is written once."""
    content = text.encode()
    name = f"{hashlib.sha256(content).hexdigest()[:16]}.txt"
    keep(folder, name, lambda: content)
    return folder / SHARED / name


def packed(folder: Path, name: str) -> bytes:
    """Return a document as it was sent; FileNotFoundError where it was not."""
    return (folder / SHARED / name).read_bytes()


def read(folder: Path, name: str) -> SharedDocument:
    """Return a document; FileNotFoundError where it was not sent."""
    document: SharedDocument = json.loads(zlib.decompress(packed(folder, name)))
    return document
