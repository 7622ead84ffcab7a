"""One rig for all scenarios: three racks of five hosts, and one outside the racks for a head."""

import sys
from collections.abc import Iterator

import pytest

from tests.rig import Rig


@pytest.fixture(scope="session")
def rig() -> Iterator[Rig]:
    """3 racks of 5 hosts with stand-ins of NVIDIA's tools."""
    with Rig(3, 5, head=True, nvidia=True, python=sys.executable, name="recover") as made:
        yield made
