"""The suite of the `Nodes` port against real agents and real Ray on this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.ports_suite import NodesSuite
from tests.real import local
from tests.real.harness import RealHarness


class TestLocalNodes(NodesSuite):
    @pytest.fixture
    def harness(self, home: Path) -> Iterator[RealHarness]:
        harness = RealHarness(home, local.inventory(home, racks=1, nodes=3))
        yield harness
        harness.close()
