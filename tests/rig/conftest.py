"""One rig of 2 x 2 for all tests that leave it as it was."""

from collections.abc import Iterator

import pytest

from tests.rig import Host, Rig


@pytest.fixture(scope="session")
def rig() -> Iterator[Rig]:
    """A rig of 2 x 2 with drivers."""
    with Rig(2, 2, nvidia=True) as made:
        yield made


@pytest.fixture
def host(rig: Rig) -> Iterator[Host]:
    """One of its hosts; a test that fails half-way leaves it to the next one as new."""
    taken = rig["r01-n02"]
    yield taken
    if not taken.on or taken.run(["test", "-e", "/run/sshd.pid"], check=False).returncode:
        taken.power_cut()
        taken.boot(reimaged=True)
