"""Timeline: which run, active or queued, has which nodes for how long."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Unavailable, UnavailableNodes
from launcher.core.model.task import Task
from launcher.core.placement.colocation import placed_groups, with_colocated_groups
from launcher.core.placement.place import exclusive_nodes
from launcher.core.placement.slice_range import fewest_slices, most_slices
from launcher.core.placement.solver import assign

_Span = tuple[float, float, str]
"""When a run gets a node, when it releases it, and the name of the run."""


class Timeline:
    """The nodes of an inventory over time, in seconds from now.

    `unavailable` are the nodes that are not free now, `remaining` how long each active run keeps its nodes at most. For
    a run that is missing there, or has infinity, the time is not known.
    """

    def __init__(self, inventory: Inventory, unavailable: UnavailableNodes, remaining: Mapping[str, float]) -> None:
        self.inventory = inventory
        self._out_of_service = {
            name: replace(use, used_by=None) for name, use in unavailable.items() if use.unhealthy or use.drained
        }
        self._spans: dict[NodeName, list[_Span]] = {}
        for name, use in unavailable.items():
            if use.used_by is not None:
                self._spans[name] = [(0.0, remaining.get(use.used_by, math.inf), use.used_by)]

    @property
    def out_of_service(self) -> UnavailableNodes:
        """Return the nodes that are unhealthy or drained, whoever uses them."""
        return self._out_of_service

    def unavailable(self, start: float, length: float, run: str) -> UnavailableNodes:
        """Return the nodes that are not free to a run for the whole of a time span (s)."""
        found = dict(self._out_of_service)
        for name, spans in self._spans.items():
            for begin, end, user in spans:
                if begin < start + length and end > start and user != run:
                    found[name] = replace(found.get(name, Unavailable()), used_by=user)
                    break
        return found

    def reserve(self, names: Iterable[NodeName], start: float, length: float, run: str) -> None:
        """Reserve nodes for a run for a time span (s)."""
        for name in names:
            self._spans.setdefault(name, []).append((start, start + length, run))

    def earliest(self, task: Task, length: float, unfit: UnavailableNodes, run: str) -> tuple[float, Placement] | None:
        """Return the earliest start of a run's task (s from now) and its placement, or None."""
        ends = {end for spans in self._spans.values() for _, end, _ in spans if math.isfinite(end)}
        for start in (0.0, *sorted(ends)):
            found = fit(task, self.inventory, with_unhealthy(self.unavailable(start, length, run), unfit))
            if found is not None:
                return start, found
        return None


def fit(task: Task, inventory: Inventory, unavailable: UnavailableNodes) -> Placement | None:
    """Return the placement of a task; None if it does not fit."""
    owners = placed_groups(task)
    needed = sum(group.topology.nodes for group in fewest_slices(owners).groups)
    if sum(node.name not in unavailable for node in inventory.nodes) < needed:
        return None
    found = most_slices(owners, (), lambda one: assign(one, inventory, unavailable))
    if not isinstance(found, Placement):
        return None
    exclusive = exclusive_nodes(owners, inventory, found.slices)
    return with_colocated_groups(task, replace(found, exclusive_nodes=exclusive))


def free_to(unavailable: UnavailableNodes, run: str) -> UnavailableNodes:
    """Return the nodes that are not free to a run that has none yet: those `used_by` it are reserved for it."""
    found = {name: replace(use, used_by=None) if use.used_by == run else use for name, use in unavailable.items()}
    return {name: use for name, use in found.items() if use != Unavailable()}


def with_unhealthy(unavailable: UnavailableNodes, unhealthy: UnavailableNodes) -> UnavailableNodes:
    """Return the unavailable nodes and those one run knows to be unhealthy."""
    more = {
        name: replace(unavailable.get(name, Unavailable()), unhealthy=use.unhealthy) for name, use in unhealthy.items()
    }
    return {**unavailable, **more}
