"""One rig for all programs: a rack of four hosts."""

import sys
from collections.abc import Iterator

import pytest

from tests.rig import Rig


@pytest.fixture(scope="session")
def rig() -> Iterator[Rig]:
    """One rack of four hosts without GPUs; each program of the test needs two, and one to take over."""
    with Rig(1, 4, head=True, python=sys.executable, name="programs") as made:
        yield made
