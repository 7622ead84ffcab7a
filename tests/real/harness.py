"""The harness of the `Nodes` suite for adapters with real nodes: one rack of three, agents and Ray on them."""

import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from launcher.core.model.actions import Release, Unit
from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Sighting
from launcher.core.model.receipt import Answer
from launcher.core.model.run import Run
from launcher.core.model.task import Group, TopologyRule
from launcher.transport.open import open_nodes
from tests.contracts.ports_suite import REASON, Program
from tests.real import local

_SCRIPTS = {
    Program.LASTS: "env | sort; exec sleep 600",
    Program.SUCCEEDS: "env",
    Program.FAILS: "echo this went wrong >&2; exit 3",
}
_COUNT = itertools.count()
_AMPLE_S = 120.0


class RealHarness:
    """A fleet of three nodes, the way there, and the runs that were placed on it. `crowd` has a stranger compute on a
    GPU of a node, or on none any more, where the nodes have GPUs."""

    def __init__(self, home: Path, fleet: Inventory, crowd: Callable[[NodeName, bool], None] | None = None) -> None:
        self._fleet = fleet
        self._crowd = crowd
        self.has_gpus = crowd is not None
        self.nodes = open_nodes(home, fleet, "somebody@here")
        self._placed: list[Run] = []

    def place(self, program: Program, *, crowded: bool = False) -> Run:
        """Return a new run of two ranks and a spare."""
        group = Group(name="main", topology=TopologyRule(), gpus=4, run=_SCRIPTS[program], setup="true")
        run = local.place(self._fleet, f"suite-{next(_COUNT)}", group, spares=1)
        self._placed.append(run)
        if self._crowd:
            self._crowd(run.placement.nodes[0], crowded)
        return run

    def until(self, run: Run, holds: Callable[[Sighting], bool]) -> Sighting:
        """Look until what is seen holds, and answer it."""
        deadline = time.monotonic() + _AMPLE_S
        while True:
            seen = self.nodes.look(run)
            if holds(seen):
                return seen
            assert time.monotonic() < deadline, seen
            time.sleep(0.1)

    def close(self) -> None:
        """Take down whatever the runs left."""
        with ThreadPoolExecutor() as pool:
            for answer in pool.map(self._let_go, self._placed):
                local.ok(answer)
        self.nodes.close()

    def _let_go(self, run: Run) -> Answer:
        for node in run.placement.nodes:
            local.ok(self.nodes.perform(run, Release(reason=REASON, node=node)))
        return self.nodes.perform(run, Release(reason=REASON, node=run.head, unit=Unit.HEAD))
