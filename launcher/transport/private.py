"""Folders for this user alone."""

from pathlib import Path


def make_private(folder: Path) -> None:
    """Create a folder, and those above it that are missing, for this user alone.

    Each by itself: those that `parents=True` makes get the mode of the umask.
    """
    for one in (*reversed(folder.parents), folder):
        if not one.is_dir():
            one.mkdir(mode=0o700, exist_ok=True)
