"""Conservative backfill: a later run starts only if it delays no earlier one.

Each queued run gets the earliest time and place that the runs before it leave, by the time limits of the active runs.
If no time is known for a run, the runs after it get no node that it could use.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, UnavailableNodes
from launcher.core.model.run import RunId, RunName
from launcher.core.model.task import Group, Task
from launcher.core.placement.colocation import placed_groups
from launcher.core.placement.constraints import DomainId, within_level
from launcher.core.placement.filters import NodeFilter
from launcher.core.queue.preemption import ActiveRun, victims
from launcher.core.queue.timeline import Timeline, fit, with_unhealthy

SETUP_S = 300.0
"""How long a run may need beyond its time limit, to set up and release (s)."""

RELEASE_S = 30.0
"""How long it takes to release nodes after their ranks have ended (s)."""

MAX_SCHEDULED = 100
"""How many queued runs are scheduled; the runs behind them wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRun:
    """A run in the queue since `since` (s, wall clock).

    `unavailable` are nodes that failed the run's preflight checks. It may not preempt others for `cools_down` more
    seconds.
    """

    id: RunId
    name: RunName
    task: Task
    since: float
    unavailable: UnavailableNodes = field(default_factory=dict)
    cools_down: float = 0.0

    @property
    def order(self) -> tuple[int, float, RunId]:
        """Return the sort key of the queue."""
        return -self.task.priority, self.since, self.id

    @property
    def max_duration(self) -> float:
        """Return the longest time that the run keeps its nodes (s)."""
        return max_duration(self.task)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDecision:
    """The decision about one queued run.

    `placement` is set if the run starts now. `after` is when it can start (s from now), None if not known. `victims`
    are runs to preempt for it. `unavailable` are the nodes that it cannot have now; of those, `reserved` are kept for
    runs before it.
    """

    run: QueuedRun
    placement: Placement | None
    after: float | None
    victims: tuple[RunName, ...]
    unavailable: UnavailableNodes
    reserved: Mapping[NodeName, RunName]


def schedule(
    queue: Sequence[QueuedRun], inventory: Inventory, unavailable: UnavailableNodes, active: Sequence[ActiveRun]
) -> tuple[QueueDecision, ...]:
    """Return the decision about each queued run, in queue order.

    Equal inputs give equal decisions. `unavailable` names the active runs by their names. A run that is not in `active`
    keeps its nodes for ever. Nodes `reserved_for` a queued run are kept for it, and for no other.
    """
    return tuple(decisions(queue, inventory, unavailable, active))


def decisions(
    queue: Sequence[QueuedRun],
    inventory: Inventory,
    unavailable: UnavailableNodes,
    active: Sequence[ActiveRun],
    *,
    explained: bool = True,
) -> Iterator[QueueDecision]:
    """Return what `schedule` returns, each decision when it is asked for: none depends on those behind it.

    Without `explained` the nodes that a run cannot have now are left out, which takes less.
    """
    timeline = Timeline(inventory, unavailable, {run.name: run.remaining for run in active})
    first = sorted(queue, key=lambda run: run.order)[:MAX_SCHEDULED]
    return _decide(first, timeline, unavailable, active, explained=explained)


def max_duration(task: Task) -> float:
    """Return the longest time that a run that has not started keeps its nodes (s)."""
    return math.inf if task.time_limit is None else task.time_limit + task.stop_grace + SETUP_S


def remaining(task: Task, ends_at: float | None, now: float, speed: float = 1.0) -> float:
    """Return the longest time that an active run keeps its nodes (s).

    `ends_at` and `now` are wall clock times (s); on its nodes, time passes `speed` times as fast.
    """
    if ends_at is None or math.isinf(speed):
        return max_duration(task)
    return max(ends_at - now, 0.0) * speed + task.stop_grace + RELEASE_S


def _decide(
    queue: Sequence[QueuedRun],
    timeline: Timeline,
    unavailable: UnavailableNodes,
    active: Sequence[ActiveRun],
    *,
    explained: bool,
) -> Iterator[QueueDecision]:
    needed = explained or any(run.preemptible for run in active)
    in_use = {name for name, use in unavailable.items() if use.used_by is not None}
    preempted: set[RunName] = set()
    names = {run.name for run in queue}
    promised = {name: use.reserved_for for name, use in unavailable.items() if use.reserved_for in names}
    for run in queue:
        now = timeline.unavailable(0.0, run.max_duration, run.name) if needed else {}
        reserved = {name: RunName(use.used_by) for name, use in now.items() if use.used_by and name not in in_use}
        earliest = timeline.earliest(run.task, run.max_duration, run.unavailable, run.name)
        chosen: tuple[RunName, ...] = ()
        if (earliest is None or earliest[0] > 0) and not run.cools_down:
            others = [other for other in active if other.name not in preempted]
            chosen = victims(run.task, timeline.inventory, with_unhealthy(now, run.unavailable), others)
            preempted |= set(chosen)
        _reserve(run, earliest, timeline, {node for node, name in promised.items() if name != run.name})
        yield QueueDecision(
            run=run,
            placement=earliest[1] if earliest is not None and earliest[0] == 0 else None,
            after=None if earliest is None else earliest[0],
            victims=chosen,
            unavailable=with_unhealthy(now, run.unavailable),
            reserved=reserved,
        )


def _reserve(
    run: QueuedRun, earliest: tuple[float, Placement] | None, timeline: Timeline, promised: AbstractSet[NodeName]
) -> None:
    """Reserve the nodes of a run from its start, or every node it could use that is not promised to others."""
    if earliest is not None:
        start, placement = earliest
        timeline.reserve((*placement.nodes, *placement.exclusive_nodes), start, run.max_duration, run.name)
        return
    unavailable = with_unhealthy(timeline.out_of_service, run.unavailable)
    if fit(run.task, timeline.inventory, unavailable) is None:
        return  # it does not fit even without other runs: nobody waits for it
    for group in placed_groups(run.task).groups:
        usable = [name for name in _usable(group, timeline.inventory, unavailable) if name not in promised]
        timeline.reserve(usable, 0.0, math.inf, run.name)


def _usable(group: Group, inventory: Inventory, unavailable: UnavailableNodes) -> list[NodeName]:
    """Return the nodes in domains that hold a slice of a group without other runs."""
    node_filter, level = NodeFilter(group, unavailable, frozenset()), within_level(group.topology)
    nodes = [node for node in inventory.nodes if node_filter.exclusion(node) is None]
    sizes: dict[DomainId | None, int] = {}
    for node in nodes:
        domain = level.domain_of(node)
        sizes[domain] = sizes.get(domain, 0) + 1
    need = group.topology.nodes_per_slice + group.topology.spares
    return [node.name for node in nodes if sizes[level.domain_of(node)] >= need]
