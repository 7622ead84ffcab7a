"""The periodic check of idle nodes: one rack at a time, and never while somebody waits for nodes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from launcher.admission.checks.consequences import fails_everywhere, record_failures
from launcher.admission.checks.execution import CheckReport, CheckRunner, budget, by_domain
from launcher.core.checks.bisection import cut_slices
from launcher.core.model.checks import CheckScope, CheckStage
from launcher.core.model.inventory import Inventory, RackName
from launcher.core.model.nodeset import NodeName
from launcher.errors import ConflictError
from launcher.ports import Checker
from launcher.store.store import Store

_NAME = CheckStage.PERIODIC_IDLE.value

GLANCE_S = 0.5
"""How often a check looks whether somebody wants its nodes (s)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleRack:
    """Idle nodes of a rack that are due."""

    rack: RackName
    nodes: tuple[NodeName, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleResult:
    """What an idle check has found; `quarantined` are bad nodes, `doubtful` where the check itself is suspected."""

    rack: RackName
    report: CheckReport
    quarantined: frozenset[NodeName]
    doubtful: bool


def next_rack(store: Store, fleet: Inventory, now: float) -> IdleRack | None:
    """Return the rack whose idle nodes have waited longest for their check; None where none is due.

    None too while a run is queued for the inventory. `now` is wall-clock time (s).
    """
    check = fleet.checks.periodic_idle
    if check is None or not store.queue.empty(fleet.name):
        return None
    last, unavailable = store.checks.history.last(fleet.name, CheckStage.PERIODIC_IDLE, now), store.unavailable(fleet)
    racks: dict[RackName, list[NodeName]] = {}
    for node in fleet.nodes:
        if node.drained is None and (node.name not in unavailable or unavailable[node.name].free):
            racks.setdefault(node.rack, []).append(node.name)
    if check.on is not CheckScope.NODE:
        racks = {rack: names for rack, names in racks.items() if _parts(fleet, check.on, names)}
    oldest = {rack: min(last.get(name, 0.0) for name in names) for rack, names in racks.items()}
    rack = min(oldest, key=lambda one: oldest[one], default=None)
    if rack is None or now < oldest[rack] + check.every:
        return None
    alone = check.on is CheckScope.NODE
    due = [name for name in racks[rack] if not alone or now >= last.get(name, 0.0) + check.every]
    return IdleRack(rack=rack, nodes=tuple(due))


def check_idle(
    store: Store, fleet: Inventory, rack: IdleRack, checker: Checker, stopped: Callable[[], bool]
) -> IdleResult | None:
    """Check idle nodes of a rack; None where somebody wanted one of them meanwhile."""
    check = fleet.checks.periodic_idle
    assert check is not None
    end = _Wanted(store, fleet.name, rack.nodes, stopped)
    runner = CheckRunner(store, fleet, _NAME, check, checker, by="the service", stopped=end, idle=True)
    try:
        with runner.reserved(rack.nodes):
            if check.on is CheckScope.NODE:
                report = runner.alone(rack.nodes)
            else:
                report = runner.in_groups(_parts(fleet, check.on, rack.nodes), time.monotonic() + budget(check))
    except ConflictError:
        return None
    if end():
        return None
    blamed = record_failures(store, fleet.name, _NAME, check, report)
    return IdleResult(rack=rack.rack, report=report, quarantined=blamed, doubtful=fails_everywhere(report))


class _Wanted:
    """Whether an idle check has to end: the service stops, a run is queued, or one wants the nodes."""

    def __init__(self, store: Store, fleet: str, nodes: tuple[NodeName, ...], stopped: Callable[[], bool]) -> None:
        self._store, self._fleet, self._nodes, self._stopped = store, fleet, nodes, stopped
        self._due, self._wanted = 0.0, False

    def __call__(self) -> bool:
        if not self._wanted and time.monotonic() >= self._due:
            self._due = time.monotonic() + GLANCE_S
            store = self._store
            self._wanted = store.checks.running.wanted(self._fleet, self._nodes) or not store.queue.empty(self._fleet)
        return self._wanted or self._stopped()


def _parts(fleet: Inventory, on: CheckScope, names: Sequence[NodeName]) -> tuple[tuple[NodeName, ...], ...]:
    domains = by_domain([node for node in fleet.nodes if node.name in set(names)])
    size = 2 if on is CheckScope.PAIR else max(map(len, domains.values()), default=2)
    return cut_slices(domains, max(2, size))
