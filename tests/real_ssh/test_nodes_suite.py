"""The suite of the `Nodes` port against agents and Ray on hosts of their own, over SSH."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.config.inventory.read import read_inventory
from launcher.core.model.nodeset import NodeName
from tests.contracts.ports_suite import NodesSuite
from tests.real.harness import RealHarness
from tests.rig import Rig


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """One rack of three hosts with stand-ins of NVIDIA's tools."""
    with Rig(1, 3, nvidia=True, python=sys.executable, name="suite") as made:
        yield made


class TestSshNodes(NodesSuite):
    @pytest.fixture
    def harness(self, rig: Rig, home: Path, user: Path) -> Iterator[RealHarness]:
        home.mkdir()
        (home / "rack.yaml").write_text(f"imex: off\n{rig.inventory()}")

        def crowd(node: NodeName, crowded: bool) -> None:
            host = rig[node]
            host.set_hardware(apps=((host.processes("sshd")[0].inner, "python", 1024),) if crowded else ())

        harness = RealHarness(home, read_inventory(home / "rack.yaml"), crowd)
        yield harness
        harness.close()
