"""A Docker daemon and a Podman for all tests of containers, with a small image."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.containers.docker import Docker, rootfs
from tests.containers.podman import Podman

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


@pytest.fixture(scope="session")
def podman() -> Iterator[Podman]:
    """A Podman of our own, with the same image."""
    folder = Path(mkdtemp(prefix="nvpodman."))
    made = Podman(folder)
    try:
        made.client("import", "--change", "ENV BOX=of-the-image", str(rootfs(folder / "root.tar")), IMAGE)
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)
