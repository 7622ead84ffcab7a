"""Checks that an operator runs: which check, on which nodes, in slices of which size."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from launcher.admission.checks.execution import CheckNews, CheckReport, CheckRunner, by_domain
from launcher.config.inventory.read import BUILT_IN
from launcher.core.checks.bisection import cut_slices
from launcher.core.model.checks import CheckScope, CheckStage, NodeCheck
from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName, fold
from launcher.errors import ConflictError, Mistake, SpecError, refuse
from launcher.ports import Checker
from launcher.store.store import Store

IMAGINARY = NodeCheck(script="an imaginary all-reduce", on=CheckScope.SLICE)
"""The check of imaginary nodes whose inventory has none."""

_PREFERRED = (CheckStage.BEFORE_RETURN, CheckStage.BEFORE_START, CheckStage.PERIODIC_IDLE)
LONGEST_S = 86400.0
"""A search by hand has no other limit than those of its tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandCheck:
    """A check on nodes that no run uses; `parts` are its slices, none where each node is checked alone.

    `busy` are nodes that are left out since they are in use, `single` those that are alone in their domain.
    """

    name: str
    check: NodeCheck
    nodes: tuple[NodeName, ...]
    parts: tuple[tuple[NodeName, ...], ...]
    busy: tuple[NodeName, ...]
    single: tuple[NodeName, ...]


def plan_check(
    store: Store, fleet: Inventory, names: Sequence[NodeName], *, stage: CheckStage | None, slice_size: int | None
) -> HandCheck:
    """Return what a check by hand does; changes nothing.

    SpecError where the inventory has no such check, ConflictError where all nodes are in use.
    """
    name, check = _chosen(fleet, stage)
    if slice_size is not None:
        check = replace(check, on=CheckScope.SLICE)
    unavailable = store.unavailable(fleet)
    busy = tuple(one for one in names if one in unavailable and unavailable[one].used_by is not None)
    free = tuple(one for one in names if one not in busy)
    if not free:
        users = sorted({unavailable[one].used_by or "" for one in busy})
        hint = "wait for its end, or name other nodes"
        raise ConflictError(f"{fold(busy)}: in use by {', '.join(users)}", holder=users[0], hints=(hint,))
    if check.on is CheckScope.NODE:
        return HandCheck(name=name, check=check, nodes=free, parts=(), busy=busy, single=())
    domains = by_domain([node for node in fleet.nodes if node.name in set(free)])
    size = slice_size or (2 if check.on is CheckScope.PAIR else max(map(len, domains.values())))
    parts = cut_slices(domains, max(2, size))
    tested = {one for part in parts for one in part}
    if not parts:
        refuse(f"{fold(free)}: a check of several nodes needs two of one NVLink domain", hint="name more nodes")
    single = tuple(one for one in free if one not in tested)
    return HandCheck(name=name, check=check, nodes=free, parts=parts, busy=busy, single=single)


def run_check(
    store: Store,
    fleet: Inventory,
    planned: HandCheck,
    checker: Checker,
    *,
    by: str,
    stopped: Callable[[], bool],
    tell: Callable[[CheckNews], None],
) -> CheckReport:
    """Run a check by hand; ConflictError where a run or another check took one of its nodes meanwhile."""
    runner = CheckRunner(store, fleet, planned.name, planned.check, checker, by=by, stopped=stopped, tell=tell)
    with runner.reserved(planned.nodes):
        if not planned.parts:
            return runner.alone(planned.nodes)
        return runner.in_groups(planned.parts, time.monotonic() + LONGEST_S)


def _chosen(fleet: Inventory, stage: CheckStage | None) -> tuple[str, NodeCheck]:
    for one in (stage,) if stage is not None else _PREFERRED:
        if (check := fleet.checks.at(one)) is not None:
            return one.value, check
    if fleet.capabilities.imaginary and stage is None:
        return "imaginary", IMAGINARY
    wanted = f"`checks.{stage.value}`" if stage is not None else "`checks`"
    what = f"inventory `{fleet.name}` ({fleet.source}) has no {wanted}"
    own = "name an inventory that has some with `-i`" if fleet.source == BUILT_IN else "add one"
    raise SpecError((Mistake(what=what, hint=f"{own}; `nvlaunch init --checks` writes examples"),))
