"""A Docker daemon for all tests of containers, with a small image."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.containers.docker import Docker, rootfs

IMAGE = "box:1"


@pytest.fixture(scope="session")
def docker() -> Iterator[Docker]:
    """A daemon of our own, stopped at the end with all that it has made."""
    folder = Path(mkdtemp(prefix="nvdocker."))
    made = Docker(folder)
    try:
        made.start()
        made.client("import", "--change", "ENV BOX=of-the-image", str(rootfs(folder / "root.tar")), IMAGE)
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)
