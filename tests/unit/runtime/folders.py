"""Folders of tests that other users may enter."""

import tempfile
from pathlib import Path


def open_to_others(folder: Path) -> None:
    """Let other users reach a test's folder, however deep pytest makes it."""
    for one in (folder, *folder.parents):
        if one == Path(tempfile.gettempdir()):
            return
        one.chmod(0o755)
