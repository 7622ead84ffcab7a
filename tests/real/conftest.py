"""Where the tests of real Ray keep their homes."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A home of the launcher's, gone with the module."""
    with TemporaryDirectory(prefix="nvlaunch-home-") as folder:
        yield Path(folder)
