"""Polls the health of a run's nodes in the background.

Each once a minute, suspected ones at once.
"""

from collections.abc import Collection, Mapping
from concurrent.futures import Executor as Pool
from concurrent.futures import Future
from dataclasses import replace
from heapq import heappop, heappush
from queue import SimpleQueue

from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Health, Unseen
from launcher.core.model.run import Run
from launcher.ports import Clock, Nodes

EVERY_S = 60.0
"""How often each node is polled (s); the nodes are spread over this time."""

MOST_A_SECOND = 10.0
"""Nodes that are polled each second, but for doubted ones: of more than 600 each is polled less often, since a new
connection takes some 15 ms of CPU here."""

AGAIN_S = 1.0
"""The shortest time between two polls of one node (s)."""

FAN_OUT = 32
"""Nodes polled at the same time; a hung driver occupies one place for half a minute."""


class HealthPoller:
    """The newest health report of each node. No method waits for a node."""

    def __init__(self, nodes: Nodes, clock: Clock, pool: Pool) -> None:
        self._nodes = nodes
        self._clock = clock
        self._pool = pool
        self._known: dict[NodeName, Health] = {}
        self._begun: dict[NodeName, float] = {}
        self._next: dict[NodeName, float] = {}
        self._fleet: tuple[Inventory, dict[NodeName, int]] | None = None
        self._wanted: frozenset[NodeName] = frozenset()
        self._queue: list[tuple[float, NodeName]] = []
        self._told: SimpleQueue[tuple[NodeName, Future[Health | Unseen]]] = SimpleQueue()

    @property
    def health(self) -> Mapping[NodeName, Health]:
        """Return the newest reports, those that have just arrived included."""
        while not self._told.empty():
            node, told = self._told.get()
            begun, found = self._begun.pop(node), told.result()
            if isinstance(found, Health):
                self._known[node] = replace(found, at=begun)
        return dict(self._known)

    def pending(self) -> bool:
        """Whether a report has arrived that `health` has not returned yet."""
        return not self._told.empty()

    def begin(self, run: Run, wanted: Collection[NodeName], doubted: Collection[NodeName]) -> None:
        """Poll the wanted nodes that are due.

        And the doubted ones that were not polled in the last `AGAIN_S`.
        """
        now, places = self._clock.now(), self._places(run.fleet)
        every = max(EVERY_S, len(places) / MOST_A_SECOND)
        for name in doubted:
            if name in places:
                asked = self._known[name].at if name in self._known else now - AGAIN_S
                self._schedule(name, min(self._next.get(name, now), max(now, asked + AGAIN_S)))
        if wanted != self._wanted:
            new = [name for name in wanted if name not in self._wanted and name in places]
            self._wanted = frozenset(wanted)
            for name in new:
                self._schedule(name, self._next.get(name, now + every * places[name] / len(places)))
        busy: list[tuple[float, NodeName]] = []
        while self._queue and self._queue[0][0] <= now:
            due, name = heappop(self._queue)
            if self._next[name] != due or name not in places:
                continue  # it was put off, or has gone
            if name in self._begun:
                busy.append((due, name))
            elif name in self._wanted or name in doubted:
                self._begun[name] = now
                self._schedule(name, now + every)
                self._ask(run, name)
        for one in busy:
            heappush(self._queue, one)

    def _schedule(self, name: NodeName, due: float) -> None:
        self._next[name] = due
        heappush(self._queue, (due, name))

    def _places(self, fleet: Inventory) -> Mapping[NodeName, int]:
        """Return the place of each node in the inventory."""
        if self._fleet is None or self._fleet[0] is not fleet:
            self._fleet = fleet, {node.name: at for at, node in enumerate(fleet.nodes)}
        return self._fleet[1]

    def _ask(self, run: Run, name: NodeName) -> None:
        asked = self._pool.submit(self._nodes.inspect, run, name)
        asked.add_done_callback(lambda told: self._told.put((name, told)))

    def close(self) -> None:
        """Begin no further poll."""
        self._pool.shutdown(wait=False, cancel_futures=True)
