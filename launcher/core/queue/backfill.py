"""Whose turn it is: by priority, then first come; who comes later may pass only where that delays nobody before it.

That is conservative backfill: each that waits gets the earliest place and time that those before it leave, counted by
the time limits of runs that go on. Where no time is known for one, those after it get nothing that it could use.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Taken
from launcher.core.model.run import RunId, RunName
from launcher.core.model.task import Group, Task
from launcher.core.placement.colocation import hosts
from launcher.core.placement.constraints import within_scale
from launcher.core.placement.filters import Sieve
from launcher.core.queue.preemption import Going, victims
from launcher.core.queue.timeline import Calendar, barring, fit

ALLOWANCE_S = 300.0
"""What a run may need beyond its time limit and grace, to be set up before its ranks start and to be let go of (s)."""

RELEASE_S = 30.0
"""How long it takes to let go of nodes once the ranks on them have ended (s)."""

DEPTH = 100
"""How many runs are given a time; those behind them wait until they are among these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A run that waits, since when (s of the wall clock); `barred` are nodes that were found unfit when asked."""

    id: RunId
    name: RunName
    task: Task
    since: float
    barred: Mapping[NodeName, Taken] = field(default_factory=dict)

    @property
    def rank(self) -> tuple[int, float, RunId]:
        """Return what they are ordered by."""
        return -self.task.priority, self.since, self.id

    @property
    def length(self) -> float:
        """Return how long it would keep its nodes at most (s)."""
        return lasts(self.task)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What is decided about one that waits: it starts now (`placement`), or `after` so many seconds, None where nobody
    knows; `victims` are runs to be stopped for it.

    `taken` is what is not free to it now, and of that `kept` what those before it will need.
    """

    waiting: Waiting
    placement: Placement | None
    after: float | None
    victims: tuple[RunName, ...]
    taken: Mapping[NodeName, Taken]
    kept: Mapping[NodeName, RunName]


def lasts(task: Task) -> float:
    """Return how long a run that has not begun would keep its nodes at most (s)."""
    return math.inf if task.time_limit is None else task.time_limit + task.stop_grace + ALLOWANCE_S


def left(task: Task, ends_at: float | None, now: float) -> float:
    """Return how long a run that goes on keeps its nodes at most (s); `ends_at` and `now` of the wall clock."""
    if ends_at is None:
        return lasts(task)
    return max(ends_at - now, 0.0) + task.stop_grace + RELEASE_S


def turns(
    waiting: Sequence[Waiting],
    fleet: Inventory,
    taken: Mapping[NodeName, Taken],
    going: Sequence[Going],
) -> tuple[Turn, ...]:
    """Return the turn of each that waits, in order. The same world gives the same answer.

    `taken` names the runs in `going` by their names; a holder that is not among them keeps its nodes for ever.
    """
    calendar = Calendar(fleet, taken, {one.name: one.left for one in going})
    return tuple(_decide(sorted(waiting, key=lambda one: one.rank)[:DEPTH], calendar, taken, going))


def _decide(
    waiting: Sequence[Waiting], calendar: Calendar, taken: Mapping[NodeName, Taken], going: Sequence[Going]
) -> Iterator[Turn]:
    stopped: set[RunName] = set()
    for one in waiting:
        now = calendar.taken(0.0, one.length)
        kept = {name: RunName(who) for name, mark in now.items() if (who := mark.by_run) and not _held(taken, name)}
        first = calendar.first(one.task, one.length, one.barred)
        chosen: tuple[RunName, ...] = ()
        if first is None or first[0] > 0:
            others = [run for run in going if run.name not in stopped]
            chosen = victims(one.task, calendar.fleet, barring(now, one.barred), others)
            stopped |= set(chosen)
        _reserve(one, first, calendar)
        yield Turn(
            waiting=one,
            placement=first[1] if first is not None and first[0] == 0 else None,
            after=None if first is None else first[0],
            victims=chosen,
            taken=barring(now, one.barred),
            kept=kept,
        )


def _held(taken: Mapping[NodeName, Taken], name: NodeName) -> bool:
    return name in taken and taken[name].by_run is not None


def _reserve(one: Waiting, first: tuple[float, Placement] | None, calendar: Calendar) -> None:
    if first is not None:
        at, found = first
        calendar.keep((*found.nodes, *found.enclosed), at, one.length, one.name)
        return
    alone = barring(calendar.marks, one.barred)
    if fit(one.task, calendar.fleet, alone) is not None:  # else nobody's going helps it, and nobody waits for it
        for group in hosts(one.task).groups:
            calendar.keep(_usable(group, calendar.fleet, alone), 0.0, math.inf, one.name)


def _usable(group: Group, fleet: Inventory, taken: Mapping[NodeName, Taken]) -> list[NodeName]:
    """Return the nodes that a group could ever use: those in places with room for a slice of it."""
    sieve, scale = Sieve(group, taken, frozenset()), within_scale(group.topology)
    fit_for = [node for node in fleet.nodes if sieve.reason(node) is None]
    room: dict[object, int] = {}
    for node in fit_for:
        room[scale.spot(node)] = room.get(scale.spot(node), 0) + 1
    needed = group.topology.nodes_per_slice + group.topology.spares
    return [node.name for node in fit_for if room[scale.spot(node)] >= needed]
