"""The suite of the `Nodes` port against keepers and Ray on hosts of their own, over SSH."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.spec.inventory import read_inventory
from tests.contracts.ports_suite import NodesSuite
from tests.real.harness import RealHarness
from tests.rig import Rig


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """One rack of three hosts."""
    with Rig(1, 3, python=sys.executable, name="suite") as made:
        yield made


class TestSshNodes(NodesSuite):
    @pytest.fixture
    def harness(self, rig: Rig, home: Path, user: Path) -> Iterator[RealHarness]:
        home.mkdir()
        (home / "rack.yaml").write_text(rig.inventory())
        harness = RealHarness(home, read_inventory(home / "rack.yaml"))
        yield harness
        harness.close()
