"""What the preparation of a node is about: a message, and of a copy how many bytes are there and how many there are.

A file in the run's folder, which whatever is at work replaces.
"""

import time
from pathlib import Path
from typing import NamedTuple

NAME = "stage"
COPYING = "copying files"
EVERY_S = 2.0
"""Seconds between two notes of a copy; one that is over before has none."""


class Stage(NamedTuple):
    """A message for people, empty for none, and bytes; `total` is 0 where nothing is copied."""

    message: str = ""
    copied: int = 0
    total: int = 0


def write(folder: Path, message: str, copied: int = 0, total: int = 0) -> None:
    """Note what is being done; an empty message removes the note. OSError."""
    path = folder / NAME
    if message:
        path.write_text(f"{message}\n{copied} {total}\n")
    else:
        path.unlink(missing_ok=True)


def read(folder: Path) -> Stage:
    """Return what is being done; nothing where it is just being written."""
    try:
        message, _, rest = (folder / NAME).read_text(errors="replace").partition("\n")
    except FileNotFoundError:
        return Stage()
    numbers = rest.split()
    if len(numbers) != 2 or not all(map(str.isdecimal, numbers)):
        return Stage(message=message)
    return Stage(message=message, copied=int(numbers[0]), total=int(numbers[1]))


class CopyStage:
    """Notes how far a copy of `total` bytes is, now and then."""

    def __init__(self, folder: Path, total: int) -> None:
        self._folder = folder
        self._total = total
        self._copied = 0
        self._due = time.monotonic() + EVERY_S

    def add(self, count: int) -> None:
        """Count bytes; a note that cannot be written is left out."""
        self._copied += count
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + EVERY_S
            try:
                write(self._folder, COPYING, self._copied, self._total)
            except OSError:
                return
