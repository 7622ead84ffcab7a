"""The suite of the `Nodes` port against real keepers and real Ray."""

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher.core.actions import Unclaim, Unit
from launcher.core.observation import Sighting
from launcher.core.run import Run
from launcher.core.task import Group, TopologyRule
from launcher.transport.open import open_nodes
from tests.contracts.ports_suite import REASON, NodesSuite, Program
from tests.real import local

SCRIPTS = {
    Program.LASTS: "env | sort; exec sleep 600",
    Program.SUCCEEDS: "env",
    Program.FAILS: "echo this went wrong >&2; exit 3",
}
COUNT = itertools.count()


class LocalHarness:
    """One rack of three local nodes."""

    def __init__(self, home: Path) -> None:
        self._fleet = local.inventory(home, racks=1, nodes=3)
        self.nodes = open_nodes(home, self._fleet, "somebody@here")
        self.placed: list[Run] = []

    def place(self, program: Program) -> Run:
        group = Group(name="main", topology=TopologyRule(), gpus=4, run=SCRIPTS[program], setup="true")
        run = local.place(self._fleet, f"suite-{next(COUNT)}", group, spares=1)
        self.placed.append(run)
        return run

    def until(self, run: Run, holds: Callable[[Sighting], bool]) -> Sighting:
        deadline = time.monotonic() + local.AMPLE_S
        while True:
            seen = self.nodes.look(run)
            if holds(seen):
                return seen
            assert time.monotonic() < deadline, seen
            time.sleep(0.1)


class TestLocalNodes(NodesSuite):
    @pytest.fixture
    def harness(self, home: Path) -> Iterator[LocalHarness]:
        harness = LocalHarness(home)
        yield harness
        for run in harness.placed:
            for node in run.placement.nodes:
                local.ok(harness.nodes.unclaim(run, Unclaim(reason=REASON, node=node)))
            local.ok(harness.nodes.unclaim(run, Unclaim(reason=REASON, node=run.head, unit=Unit.HEAD)))
        harness.nodes.close()
