"""Who has which nodes for how long: runs that go on, and runs whose turn will come."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Taken
from launcher.core.model.task import Task
from launcher.core.placement.colocation import hosts, peopled
from launcher.core.placement.place import enclosed
from launcher.core.placement.solver import assign

_Taken = Mapping[NodeName, Taken]
_Span = tuple[float, float, str]


class Calendar:
    """The nodes of an inventory over time, in seconds from now.

    `taken` is what is not free now, `left` how long each of the runs that have nodes may keep them at most; of one that
    is not in it, or has infinity there, nobody knows.
    """

    def __init__(self, fleet: Inventory, taken: _Taken, left: Mapping[str, float]) -> None:
        self.fleet = fleet
        self._marks = {name: replace(mark, by_run=None) for name, mark in taken.items() if mark.sick or mark.drained}
        self._busy: dict[NodeName, list[_Span]] = {}
        for name, mark in taken.items():
            if mark.by_run is not None:
                self._busy[name] = [(0.0, left.get(mark.by_run, math.inf), mark.by_run)]

    @property
    def marks(self) -> _Taken:
        """Return what would not be free if nobody had anything."""
        return self._marks

    def taken(self, at: float, length: float) -> _Taken:
        """Return what is not free all the time from a moment on, for so long (s)."""
        found = dict(self._marks)
        for name, spans in self._busy.items():
            for begin, end, who in spans:
                if begin < at + length and end > at:
                    found[name] = replace(found.get(name, Taken()), by_run=who)
                    break
        return found

    def keep(self, names: Iterable[NodeName], at: float, length: float, who: str) -> None:
        """Give nodes to somebody from a moment on, for so long (s)."""
        for name in names:
            self._busy.setdefault(name, []).append((at, at + length, who))

    def first(self, task: Task, length: float, barred: _Taken) -> tuple[float, Placement] | None:
        """Return when a task can begin at the earliest (s from now), and where; None where no moment is known."""
        ends = {end for spans in self._busy.values() for _, end, _ in spans if math.isfinite(end)}
        for at in (0.0, *sorted(ends)):
            found = fit(task, self.fleet, barring(self.taken(at, length), barred))
            if found is not None:
                return at, found
        return None


def fit(task: Task, fleet: Inventory, taken: _Taken) -> Placement | None:
    """Return where a task goes; None, without a word on why, where it does not fit."""
    whole, task = task, hosts(task)
    needed = sum(group.topology.slices * group.topology.nodes_per_slice for group in task.groups)
    if sum(node.name not in taken for node in fleet.nodes) < needed:
        return None
    found = assign(task, fleet, taken)
    if not isinstance(found, Placement):
        return None
    return peopled(whole, replace(found, enclosed=enclosed(task, fleet, found.slices)))


def barring(taken: _Taken, barred: _Taken) -> _Taken:
    """Return what is not free to one that was told more of some nodes."""
    more = {name: replace(taken.get(name, Taken()), sick=mark.sick) for name, mark in barred.items()}
    return {**taken, **more}
