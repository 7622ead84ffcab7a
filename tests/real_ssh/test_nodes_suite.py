"""The suite of the `Nodes` port against keepers and Ray on hosts of their own, over SSH."""

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher.core.actions import Unclaim, Unit
from launcher.core.observation import Sighting
from launcher.core.run import Run
from launcher.core.task import Group, TopologyRule
from launcher.spec.inventory import read_inventory
from launcher.transport.open import open_nodes
from tests.contracts.ports_suite import REASON, NodesSuite, Program
from tests.real import local
from tests.real.test_nodes_suite import SCRIPTS
from tests.rig import Rig

COUNT = itertools.count()
AMPLE_S = 90.0


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """One rack of three hosts."""
    with Rig(1, 3, python=sys.executable, name="suite") as made:
        yield made


class SshHarness:
    """One rack of three hosts, reached over SSH."""

    def __init__(self, home: Path, rig: Rig) -> None:
        (home / "rack.yaml").write_text(rig.inventory())
        self._fleet = read_inventory(home / "rack.yaml")
        self.nodes = open_nodes(home, self._fleet, "somebody@here")
        self.placed: list[Run] = []

    def place(self, program: Program) -> Run:
        group = Group(name="main", topology=TopologyRule(), gpus=4, run=SCRIPTS[program], setup="true")
        run = local.place(self._fleet, f"suite-{next(COUNT)}", group, spares=1)
        self.placed.append(run)
        return run

    def until(self, run: Run, holds: Callable[[Sighting], bool]) -> Sighting:
        deadline = time.monotonic() + AMPLE_S
        while True:
            seen = self.nodes.look(run)
            if holds(seen):
                return seen
            assert time.monotonic() < deadline, seen
            time.sleep(0.1)


class TestSshNodes(NodesSuite):
    @pytest.fixture
    def harness(self, rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshHarness]:
        (tmp_path / ".ssh").mkdir(mode=0o700)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        harness = SshHarness(tmp_path, rig)
        yield harness
        for run in harness.placed:
            for node in run.placement.nodes:
                local.ok(harness.nodes.unclaim(run, Unclaim(reason=REASON, node=node)))
            local.ok(harness.nodes.unclaim(run, Unclaim(reason=REASON, node=run.head, unit=Unit.HEAD)))
        harness.nodes.close()
