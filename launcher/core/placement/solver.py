"""Solver: place all groups of a task, by best fit and then by full search."""

from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import islice, permutations

from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, RACK_LEVEL, Inventory, Node
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Slice, UnavailableNodes
from launcher.core.model.task import Group, Task
from launcher.core.model.text import count
from launcher.core.placement.backtracking import MAX_WORK, SearchLimitError, search
from launcher.core.placement.best_fit import BestFit, Candidate
from launcher.core.placement.capacity import Capacity, Demand, TopologyDomain, rank_order
from launcher.core.placement.constraints import Constraints
from launcher.core.placement.counting import needs_too_many_nodes
from launcher.core.placement.node_selection import Selection, partly_used_first, select_nodes

MAX_ORDERS = 6
"""How many orders of the groups best fit tries: all orders of three groups."""

MAX_SLICES_TRIED = 500
"""How many slices best fit places in all orders; large tasks get fewer orders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShortfall:
    """A group that does not fit, and what the placed slices left for its next one.

    `proven` means that the task has no placement; without it none was found.
    """

    group: Group
    placed: int
    assigned: AbstractSet[NodeName]
    constraints: Constraints
    proven: bool


def assign(
    task: Task, inventory: Inventory, unavailable: UnavailableNodes, kept: Sequence[Slice] = (), work: int = MAX_WORK
) -> Placement | GroupShortfall:
    """Return a placement, or the first group that did not fit.

    Slices in `kept` keep their nodes. The group with the largest slice chooses first, but after the group it is near; a
    group that does not fit chooses first in the next try. If best fit fails in every order, a full search within `work`
    steps decides, unless counting nodes does.
    """
    failed: list[GroupShortfall] = []
    for groups in _orders(task, failed):
        capacity = Capacity(task, inventory, unavailable, kept)
        too_many = not failed and needs_too_many_nodes(capacity)
        outcome = _best_fit(task, groups, capacity, kept)
        if isinstance(outcome, Placement):
            return outcome
        if outcome.proven or too_many:
            return replace(outcome, proven=True)
        failed.append(outcome)
    order = order_by_near(sorted(task.groups, key=_largest_first))
    try:
        found = _full_search(task, order, Capacity(task, inventory, unavailable, kept), kept, work)
    except SearchLimitError:
        return failed[0]
    return replace(failed[0], proven=True) if found is None else found


def fits(
    task: Task, inventory: Inventory, unavailable: UnavailableNodes, kept: Sequence[Slice] = (), work: int = MAX_WORK
) -> bool:
    """Whether a placement is found; where counting nodes says no, nothing is tried."""
    too_many = needs_too_many_nodes(Capacity(task, inventory, unavailable, kept))
    return not too_many and isinstance(assign(task, inventory, unavailable, kept, work), Placement)


def order_by_near(groups: Sequence[Group]) -> Sequence[Group]:
    """Return the groups in order, but each directly after the group it is near."""
    by_name = {group.name: group for group in groups}
    order: dict[str, Group] = {}

    def visit(group: Group, waiting: frozenset[str]) -> None:
        target = by_name.get(group.topology.near or "")
        if target is not None and target.name not in order and target.name not in waiting:
            visit(target, waiting | {group.name})
        if group.name not in order:
            order[group.name] = group
            for other in groups:
                if other.topology.near == group.name:
                    visit(other, waiting | {group.name})

    for group in groups:
        visit(group, frozenset())
    return tuple(order.values())


def _orders(task: Task, failed: Sequence[GroupShortfall]) -> Iterator[Sequence[Group]]:
    """Return different orders of the groups.

    The caller adds to `failed`; the group that failed last goes first in the next order.
    """
    first = sorted(task.groups, key=_largest_first)
    slices = sum(group.topology.slices for group in first)
    tries = max(2, min(MAX_ORDERS, MAX_SLICES_TRIED // slices))
    others = islice(permutations(first), MAX_ORDERS)
    tried: list[Sequence[str]] = []
    candidate: Sequence[Group] | None = first
    while candidate is not None and len(tried) < tries:
        order = order_by_near(candidate)
        names = [group.name for group in order]
        if names not in tried:
            tried.append(names)
            yield order
            last = failed[-1].group
            candidate = [last, *(group for group in order if group is not last)]
        else:
            candidate = next(others, None)


def _largest_first(group: Group) -> tuple[int, int, str]:
    rule = group.topology
    need = rule.nodes_per_slice + rule.spares
    return -need, -need * rule.slices, group.name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Assigned:
    """Nodes for one slice in rank order: members, own spares and shared spares.

    `alternatives` is the number of other domains that had room; None if the full search chose the domain.
    """

    demand: Demand
    domain: TopologyDomain
    nodes: tuple[Node, ...]
    shared: tuple[Node, ...]
    alternatives: int | None


def _best_fit(
    task: Task, order: Sequence[Group], capacity: Capacity, kept: Sequence[Slice]
) -> Placement | GroupShortfall:
    """Return the placement by best fit in this order of groups, or why not."""
    placed: list[_Assigned] = []
    for at, group in enumerate(order):
        demand = capacity.demands[group.name]
        best_fit = BestFit(capacity, demand)
        own: list[_Assigned] = []
        while best_fit.missing:
            candidates = best_fit.candidates()
            chosen = best_fit.choose(candidates) if candidates else ()
            results = [
                _assign_slice(capacity, demand, one, min(best_fit.missing, one.slices), len(candidates))
                for one in chosen
            ]
            own += (one for one in results if one is not None)
            if not results or None in results:
                first = not any(capacity.demands[before.name].missing for before in order[:at])
                return GroupShortfall(
                    group=group,
                    placed=demand.rule.slices - demand.missing + len(own),
                    assigned=capacity.assigned,
                    constraints=capacity.usage.constraints(group.name),
                    proven=first and _is_optimal(capacity, demand),
                )
            for one in chosen:
                best_fit.add(one)
        placed += own
    return _placement(task, placed, kept)


def _is_optimal(capacity: Capacity, demand: Demand) -> bool:
    """Whether best fit is optimal: slices in one domain do not affect another."""
    if capacity.usage.unmet_near(demand.name):
        return False
    level = demand.spread
    return level is None or all(len({one.at(level) for one in domain.classes}) < 2 for domain in demand.domains)


def _assign_slice(
    capacity: Capacity, demand: Demand, candidate: Candidate, slices: int, candidates: int
) -> _Assigned | None:
    """Take the nodes of the next slice; None if the rules exclude the domain."""
    has_spares = (demand.name, id(candidate.domain)) in capacity.shared_spares
    shared = 0 if has_spares else demand.rule.spares_per_rack
    selection = select_nodes(candidate.classes, demand, demand.need + shared, slices)
    if sum(size for _, size in selection) < demand.need + shared:
        return None
    return _take(capacity, demand, candidate.domain, selection, shared, candidates - 1)


def _take(
    capacity: Capacity,
    demand: Demand,
    domain: TopologyDomain,
    selection: Selection,
    shared: int,
    alternatives: int | None,
) -> _Assigned:
    nodes = sorted(capacity.take(demand, selection), key=rank_order)
    key = (demand.name, id(domain))
    if shared:
        capacity.shared_spares[key] = tuple(nodes[demand.need :])
    return _Assigned(
        demand=demand,
        domain=domain,
        nodes=tuple(nodes[: demand.need]),
        shared=capacity.shared_spares.get(key, ()),
        alternatives=alternatives,
    )


def _full_search(
    task: Task, order: Sequence[Group], capacity: Capacity, kept: Sequence[Slice], work: int
) -> Placement | None:
    found = search(capacity, [capacity.demands[group.name] for group in order], work)
    if found is None:
        return None
    placed: list[_Assigned] = []
    for one in found:
        first = one.parts[0][0][0]
        domain = next(domain for domain in one.demand.domains if first in domain.classes)
        selection = [part for classes, size in one.parts for part in partly_used_first(classes, one.demand, size)]
        placed.append(_take(capacity, one.demand, domain, selection, one.shared, None))
    return _placement(task, placed, kept)


def _placement(task: Task, placed: Sequence[_Assigned], kept: Sequence[Slice]) -> Placement:
    """Return the slices of all groups in task order, numbered in rank order.

    Kept slices keep their index.
    """
    slices: list[Slice] = []
    reasons: list[str] = []
    for group in task.groups:
        found = {part.index: (part, "unchanged") for part in kept if part.group == group.name}
        free = (index for index in range(group.topology.slices) if index not in found)
        own = [one for one in placed if one.demand.group is group]
        own.sort(key=lambda one: rank_order(one.nodes[0]))
        new = zip(own, _reasons(group, own), strict=True)
        found.update((index, (_slice(index, one), reason)) for index, (one, reason) in zip(free, new, strict=False))
        slices += (found[index][0] for index in sorted(found))
        reasons += (found[index][1] for index in sorted(found))
    return Placement(slices=tuple(slices), reasons=tuple(reasons))


def _slice(index: int, one: _Assigned) -> Slice:
    names = tuple(node.name for node in one.nodes)
    rule, first = one.demand.rule, one.nodes[0]
    return Slice(
        group=one.demand.name,
        index=index,
        place=first.name if rule.within == NODE_LEVEL else one.domain.name,
        rack=first.rack if one.demand.rack_local else None,
        domain=first.domain if one.demand.rack_local else None,
        nodes=names[: rule.nodes_per_slice],
        spares=(*names[rule.nodes_per_slice :], *(node.name for node in one.shared)),
    )


def _reasons(group: Group, placed: Sequence[_Assigned]) -> list[str]:
    """Return for each slice of a group why it got its domain, and what is left there."""
    rule = group.topology
    together = rule.prefer or rule.all_within or ""
    names = Counter(one.domain.names.get(together) for one in placed)
    choice = _choice(group, placed)
    reasons: list[str] = []
    for one in placed:
        parts = [choice]
        if rule.within == ANY_LEVEL:
            parts.insert(0, f"on {count(len({node.rack for node in one.nodes}), 'rack')}")
        else:
            parts.append(f"{one.domain.free} of {one.domain.free_before} free nodes left")
        if rule.near:
            parts.append(f"same {rule.near_level} as `{rule.near}`")
        name = one.domain.names.get(together)
        if name is not None and names[name] > 1:
            parts.append(f"same {together} as other slices")
        gpus = {node.gpus for node in one.nodes}
        if 0 < group.gpus < max(gpus):
            parts.append(f"uses {group.gpus} of {'up to ' if len(gpus) > 1 else ''}{max(gpus)} GPUs per node")
        reasons.append(", ".join(parts))
    return reasons


def _choice(group: Group, placed: Sequence[_Assigned]) -> str:
    """Return the rule that chose the domains of a group."""
    rule = group.topology
    if any(one.alternatives is None for one in placed):
        return "found by full search"
    if rule.within == ANY_LEVEL:
        return f"balanced by {rule.balance}" if rule.balance else "fills partly used racks first"
    if not any(one.alternatives for one in placed):
        return f"only {RACK_LEVEL if rule.within == NODE_LEVEL else rule.within} with room"
    if group.gpus == 0:
        return "least useful to GPU jobs"
    if rule.balance is not None and rule.slices > 1:
        return f"balanced by {rule.balance}"
    return "best fit"
