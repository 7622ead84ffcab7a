"""Explanations: why a task does not fit, and why racks were selected or not."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, RACK_LEVEL, Inventory, Node
from launcher.core.model.nodeset import NodeName, natural
from launcher.core.model.placement import (
    Exclusion,
    Placement,
    RackAvailability,
    Shortfall,
    Slice,
    UnavailableNodes,
    group_of,
)
from launcher.core.model.task import Group, Task
from launcher.core.model.text import count
from launcher.core.placement.colocation import placed_groups
from launcher.core.placement.constraints import (
    Constraints,
    DomainId,
    TopologyLevel,
    constraints_on,
    spread_level,
    within_level,
)
from launcher.core.placement.filters import NodeFilter
from launcher.core.placement.solver import GroupShortfall
from launcher.core.placement.suggestions import suggest


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedRack:
    """A rack, or a coarser domain, as a candidate for a group of a placed task.

    `before` is its availability before the task, `left` the nodes left for the group after it. `slices` are the slices
    of all groups that went there; `reason` says why slices of this group did or did not.
    """

    group: str
    within: str
    before: RackAvailability
    left: int
    slices: tuple[str, ...]
    reason: str


def explain(
    found: GroupShortfall, task: Task, inventory: Inventory, unavailable: UnavailableNodes, kept: Sequence[Slice] = ()
) -> Shortfall:
    """Return why a group does not fit, and which changes would make the task fit."""
    node_filter = NodeFilter(found.group, unavailable, found.assigned, found.constraints)
    shortfall = shortfall_of(found.group, inventory, node_filter, placed=found.placed, proven=found.proven)
    return replace(shortfall, suggestions=suggest(found, task, inventory, unavailable, kept))


def shortfall_of(
    group: Group, inventory: Inventory, node_filter: NodeFilter, *, placed: int, proven: bool
) -> Shortfall:
    """Return why the next slice of a group does not fit, without suggestions."""
    rule = group.topology
    unhealthy = [node.name for node in inventory.nodes if node_filter.exclusion(node) is Exclusion.UNHEALTHY]
    return Shortfall(
        group=group.name,
        slices=rule.slices,
        nodes_per_slice=rule.nodes_per_slice,
        spares=rule.spares,
        spares_per_rack=rule.spares_per_rack,
        within=rule.within,
        placed=placed,
        proven=proven,
        largest=_largest_slice(inventory, node_filter),
        racks=_availability(inventory, node_filter),
        suggestions=(),
        unhealthy={name: node_filter.unavailable[name].unhealthy or "" for name in unhealthy},
    )


def survey(
    task: Task, inventory: Inventory, unavailable: UnavailableNodes, placement: Placement
) -> tuple[SurveyedRack, ...]:
    """Return every rack for every group that owns nodes, by group and by name."""
    task = placed_groups(task)
    return tuple(one for group in task.groups for one in _survey_group(task, group, inventory, unavailable, placement))


def _largest_slice(inventory: Inventory, node_filter: NodeFilter) -> int:
    """Return the most nodes that the next slice could have in one domain."""
    rule = node_filter.group.topology
    level, apart = within_level(rule), spread_level(rule.spread_members)
    outer = TopologyLevel(rule.all_within or ANY_LEVEL)
    domains: dict[tuple[DomainId | None, DomainId | None], set[str]] = {}
    for node in inventory.nodes:
        if node_filter.exclusion(node) is None:
            name = node.at(apart) or "" if apart else node.name
            domains.setdefault((level.domain_of(node), outer.domain_of(node)), set()).add(name)
    return max((len(names) for names in domains.values()), default=0)


@dataclass(slots=True)
class _Row:
    """Counts of the nodes of one rack."""

    total: int = 0
    free: int = 0
    excluded: Counter[Exclusion] = field(default_factory=Counter)
    users: Counter[str] = field(default_factory=Counter)
    accelerators: Counter[str] = field(default_factory=Counter)
    reserved: Counter[str] = field(default_factory=Counter)


def _availability(inventory: Inventory, node_filter: NodeFilter) -> tuple[RackAvailability, ...]:
    """Return a row for each `within` domain; for `node` and `any`, for each rack."""
    rows: dict[str, _Row] = {}
    domains = _nvlink_domains(inventory)
    for node in inventory.nodes:
        row = rows.setdefault(_row_name(node, node_filter.group.topology.within, domains), _Row())
        row.total += 1
        reason = node_filter.exclusion(node)
        if reason is None:
            row.free += 1
            continue
        row.excluded[reason] += 1
        if reason is Exclusion.IN_USE and (run := node_filter.unavailable[node.name].used_by) is not None:
            row.users[run] += 1
        if reason is Exclusion.RESERVED and (run := node_filter.unavailable[node.name].reserved_for) is not None:
            row.reserved[run] += 1
        if reason is Exclusion.ACCELERATOR:
            row.accelerators[node.accelerator or "unknown"] += 1
    return tuple(
        RackAvailability(
            rack=name,
            total=row.total,
            free=row.free,
            excluded={reason: row.excluded[reason] for reason in Exclusion if row.excluded[reason]},
            users={run: row.users[run] for run in sorted(row.users, key=natural)},
            accelerators={kind: row.accelerators[kind] for kind in sorted(row.accelerators, key=natural)},
            reserved={run: row.reserved[run] for run in sorted(row.reserved, key=natural)},
        )
        for name, row in sorted(rows.items(), key=lambda item: natural(item[0]))
    )


def _nvlink_domains(inventory: Inventory) -> Mapping[str, set[str]]:
    """Return the known NVLink domains of each rack."""
    domains: dict[str, set[str]] = {}
    for node in inventory.nodes:
        known = domains.setdefault(node.rack, set())
        if node.domain is not None:
            known.add(node.domain)
    return domains


def _row_name(node: Node, within: str, domains: Mapping[str, set[str]]) -> str:
    """Return the name of a node's row.

    Each NVLink domain of a rack has a row of its own.
    """
    if within == RACK_LEVEL and len(domains[node.rack]) > 1:
        return f"{node.rack} (domain {node.domain or 'unknown'})"
    if within in (RACK_LEVEL, NODE_LEVEL, ANY_LEVEL):
        return node.rack
    return node.at(within) or f"{node.rack} (no {within})"


@dataclass(slots=True)
class _Remainder:
    """What a task leaves of a rack.

    Of the `left` nodes one more slice could use `usable`; the others are `excluded` for a reason.
    """

    left: int = 0
    usable: int = 0
    excluded: Exclusion | None = None
    slices: dict[str, None] = field(default_factory=dict)


def _survey_group(
    task: Task, group: Group, inventory: Inventory, unavailable: UnavailableNodes, placement: Placement
) -> Sequence[SurveyedRack]:
    node_filter = NodeFilter(group, unavailable, frozenset())
    owners = {one.name for one in task.groups}
    placed = [part for part in placement.slices if part.group in owners]
    constraints = constraints_on(task, group.name, inventory, unavailable, placed)
    remainders = _remainders(inventory, node_filter, constraints, placement)
    rows = _availability(inventory, node_filter)
    order = [part.key for part in placement.slices]
    largest_used = max((row.free for row in rows if _holds(group, remainders[row.rack])), default=0)
    return [
        SurveyedRack(
            group=group.name,
            within=group.topology.within,
            before=row,
            left=remainders[row.rack].left,
            slices=tuple(sorted(remainders[row.rack].slices, key=order.index)),
            reason=_survey_reason(group, row, remainders[row.rack], largest_used),
        )
        for row in rows
    ]


def _remainders(
    inventory: Inventory, node_filter: NodeFilter, constraints: Constraints, placement: Placement
) -> Mapping[str, _Remainder]:
    holders: dict[NodeName, list[str]] = {}
    for part in placement.slices:
        for name in (*part.nodes, *part.spares):
            holders.setdefault(name, []).append(part.key)
    domains = _nvlink_domains(inventory)
    rows: dict[str, _Remainder] = {}
    for node in inventory.nodes:
        row = rows.setdefault(_row_name(node, node_filter.group.topology.within, domains), _Remainder())
        if node.name in holders:
            row.slices.update(dict.fromkeys(holders[node.name]))
        elif node_filter.exclusion(node) is None:
            reason = constraints.exclusion(node)
            row.left += 1
            row.usable += reason is None
            row.excluded = min((one for one in (reason, row.excluded) if one), key=list(Exclusion).index, default=None)
    return rows


def _holds(group: Group, row: _Remainder) -> bool:
    return any(group_of(key) == group.name for key in row.slices)


def _survey_reason(group: Group, before: RackAvailability, row: _Remainder, largest_used: int) -> str:
    """Return why slices of a group went to a rack or not.

    `largest_used` is the most free nodes of a rack that they went to.
    """
    rule = group.topology
    need = rule.nodes_per_slice + rule.spares + rule.spares_per_rack
    if _holds(group, row):
        return "selected"
    if not before.free:
        return "no free node"
    if before.free < need and rule.within != ANY_LEVEL:
        return f"a slice needs {count(need, 'node')}"
    if row.usable < need and row.excluded is not None:
        return row.excluded.value
    if row.usable < need and rule.within != ANY_LEVEL:
        return f"{count(row.usable, 'node')} left, a slice needs {need}"
    return "fits; kept for larger jobs" if before.free > largest_used else "fits; not needed"
