"""Timeline: which run, active or queued, has which nodes for how long."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import TypeAlias

from launcher.core.model.inventory import NODE_LEVEL, RACK_LEVEL, Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Unavailable, UnavailableNodes, mark_unhealthy
from launcher.core.model.task import Task
from launcher.core.placement.colocation import placed_groups, with_colocated_groups
from launcher.core.placement.interchangeable import NvlinkDomainId, NvlinkDomains
from launcher.core.placement.place import exclusive_nodes
from launcher.core.placement.slice_range import fewest_slices, most_slices
from launcher.core.placement.solver import assign

_Span: TypeAlias = tuple[float, float, str]
"""When a run gets a node, when it releases it, and the name of the run."""

_Alike: TypeAlias = tuple[NvlinkDomainId, tuple[_Span, ...]]
"""Nodes of one NVLink domain that the same runs have at the same times."""

_Change: TypeAlias = tuple[float, int, NvlinkDomainId, int]
"""A time, the kind of change, a domain, and how many of its nodes begin or cease to be free."""


class Timeline:
    """The nodes of an inventory over time, in seconds from now.

    `unavailable` are the nodes that are not free now, `remaining` how long each active run keeps its nodes at most. For
    a run that is missing there, or has infinity, the time is not known.
    """

    def __init__(self, inventory: Inventory, unavailable: UnavailableNodes, remaining: Mapping[str, float]) -> None:
        self.inventory = inventory
        self._domains = NvlinkDomains(inventory)
        self._out_of_service = {
            name: replace(use, used_by=None, reserved_for=None)
            for name, use in unavailable.items()
            if use.unhealthy or use.drained
        }
        self._returned = {name: Unavailable(returned=True) for name, use in unavailable.items() if use.returned}
        self._reserved = {name: use.reserved_for for name, use in unavailable.items() if use.reserved_for is not None}
        self._spans: dict[NodeName, tuple[_Span, ...]] = {}
        self._alike: Counter[_Alike] = Counter()
        self._nodes = {node.name: node for node in inventory.nodes}
        for name, use in unavailable.items():
            if use.used_by is not None:
                self._spans[name] = ((0.0, remaining.get(use.used_by, math.inf), use.used_by),)
        self._alike.update(kind for name in self._nodes if (kind := self._kind(name)) is not None)

    @property
    def out_of_service(self) -> UnavailableNodes:
        """Return the nodes that are unhealthy or drained, whoever uses them."""
        return self._out_of_service

    def unavailable(self, start: float, length: float, run: str) -> UnavailableNodes:
        """Return the nodes that are not free to a run for the whole of a time span (s)."""
        return {**self._returned, **self._out_of_service, **self._in_use(self._spans, start, length, run)}

    def reserve(self, names: Iterable[NodeName], start: float, length: float, run: str) -> None:
        """Reserve nodes for a run for a time span (s)."""
        for name in names:
            before = self._kind(name)
            self._spans[name] = (*self._spans.get(name, ()), (start, start + length, run))
            after = self._kind(name)
            if before is not None and after is not None:
                self._alike[before] -= 1
                self._alike[after] += 1

    def earliest(self, task: Task, length: float, unfit: UnavailableNodes, run: str) -> tuple[float, Placement] | None:
        """Return the earliest start of a run's task (s from now) and its placement, or None."""
        for start, free in self._starts(task, length, unfit, run):
            part = self._domains.cut_down(task, free.items())
            names = [node.name for node in part.nodes]
            marks = {**self._returned, **self._out_of_service}
            out = {name: marks[name] for name in names if name in marks}
            found = fit(task, part, with_unhealthy({**out, **self._in_use(names, start, length, run)}, unfit))
            if found is not None:
                return start, found
        return None

    def _kind(self, name: NodeName) -> _Alike | None:
        """Return what a node has in common with others; None for one that is out of service."""
        node = self._nodes.get(name)
        if node is None or node.drained is not None or name in self._out_of_service:
            return None
        return (node.rack, node.domain), self._spans.get(name, ())

    def _in_use(self, names: Iterable[NodeName], start: float, length: float, run: str) -> dict[NodeName, Unavailable]:
        """Return those of some nodes that another run has during a time span (s)."""
        found: dict[NodeName, Unavailable] = {}
        used: dict[str, Unavailable] = {}
        for name in names:
            for begin, end, user in self._spans.get(name, ()):
                if begin < start + length and end > start and user != run:
                    out = self._out_of_service.get(name)
                    if out is not None or name in self._reserved:
                        kept = user if self._reserved.get(name) == user else None
                        found[name] = replace(out or Unavailable(), used_by=user, reserved_for=kept)
                    else:
                        found[name] = used.get(user) or used.setdefault(user, Unavailable(used_by=user))
                    break
        return found

    def _starts(
        self, task: Task, length: float, unfit: UnavailableNodes, run: str
    ) -> Iterator[tuple[float, Mapping[NvlinkDomainId, int]]]:
        """Return the times, in order, at which there may be room, and how many nodes of each NVLink domain are free.

        These are now, and when a run releases nodes. To count nodes as they come and go takes far less than to place
        the task each time.
        """
        free, changes = _FreeNodes(task), self._changes(length, unfit, run)
        at = 0
        for start in sorted({0.0, *(when for when, kind, _, _ in changes if kind == 0 and 0 < when < math.inf)}):
            while at < len(changes) and changes[at][:2] <= (start, 0):
                _, _, domain, change = changes[at]
                free.add(domain, change)
                at += 1
            if free.enough():
                yield start, free.by_domain

    def _changes(self, length: float, unfit: UnavailableNodes, run: str) -> Sequence[_Change]:
        """Return, in order, when nodes begin to be free for a time span (0), and when they are not any more (1).

        A node that is not free for the span is so in an open interval of starts. -1: free from the first.
        """
        alike = self._alike
        if unfit:
            alike = alike.copy()
            alike.subtract(kind for name in unfit if (kind := self._kind(name)) is not None)
        found: list[_Change] = []
        for (domain, spans), count in alike.items():
            if count > 0:
                found.append((-math.inf, -1, domain, count))
                for begin, end in _merged([(begin - length, end) for begin, end, user in spans if user != run]):
                    found += ((begin, 1, domain, -count), (end, 0, domain, count))
        found.sort(key=itemgetter(0, 1))
        return found


class _FreeNodes:
    """Free nodes by NVLink domain, and how many slices of each group whose slices stay in one they may hold."""

    def __init__(self, task: Task) -> None:
        rules = [group.topology for group in placed_groups(task).groups]
        self._nodes, self._free = sum(rule.nodes for rule in rules), 0
        local = [rule for rule in rules if rule.within in (RACK_LEVEL, NODE_LEVEL)]
        self._needs = [(rule.nodes_per_slice + rule.spares, rule.slices) for rule in local]
        self._slices = [0] * len(local)
        self.by_domain: dict[NvlinkDomainId, int] = {}

    def add(self, domain: NvlinkDomainId, change: int) -> None:
        """Count nodes of a domain that begin to be free, or cease to."""
        before = self.by_domain.get(domain, 0)
        self.by_domain[domain] = before + change
        self._free += change
        for at, (need, _) in enumerate(self._needs):
            self._slices[at] += (before + change) // need - before // need

    def enough(self) -> bool:
        """Whether there may be room for the task: for its members together, and for each group alone."""
        if self._free < self._nodes:
            return False
        return all(have >= slices for have, (_, slices) in zip(self._slices, self._needs, strict=True))


def _merged(spans: Sequence[tuple[float, float]]) -> Iterable[tuple[float, float]]:
    """Return the union of open intervals, in order."""
    if len(spans) <= 1:
        return spans
    found: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if found and begin < found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def fit(task: Task, inventory: Inventory, unavailable: UnavailableNodes) -> Placement | None:
    """Return the placement of a task; None if it does not fit."""
    owners = placed_groups(task)
    needed = sum(group.topology.nodes for group in fewest_slices(owners).groups)
    if sum((use := unavailable.get(node.name)) is None or use.free for node in inventory.nodes) < needed:
        return None
    found = most_slices(owners, (), lambda one: assign(one, inventory, unavailable))
    if not isinstance(found, Placement):
        return None
    exclusive = exclusive_nodes(owners, inventory, found.slices)
    return with_colocated_groups(task, replace(found, exclusive_nodes=exclusive))


def free_to(unavailable: UnavailableNodes, run: str) -> UnavailableNodes:
    """Return the nodes that are not free to a run that has none yet: those reserved for it are."""
    found = {
        name: replace(use, used_by=None, reserved_for=None) if use.reserved_for == run else use
        for name, use in unavailable.items()
    }
    return {name: use for name, use in found.items() if use != Unavailable()}


def with_unhealthy(unavailable: UnavailableNodes, unhealthy: UnavailableNodes) -> UnavailableNodes:
    """Return the unavailable nodes and those one run knows to be unhealthy."""
    return mark_unhealthy(unavailable, {name: use.unhealthy for name, use in unhealthy.items()})
