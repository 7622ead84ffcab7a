"""Resize: the placement of a running task after its slices or spares change."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from launcher.core.model.inventory import ANY_LEVEL, Inventory, Node
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Shortfall, Slice, UnavailableNodes
from launcher.core.model.task import Group, Task
from launcher.core.placement.colocation import placed_groups
from launcher.core.placement.constraints import TopologyLevel, constraints_on, spread_level, within_level
from launcher.core.placement.filters import NodeFilter
from launcher.core.placement.place import place
from launcher.core.placement.replacement import more_nodes
from launcher.core.placement.solver import order_by_near


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizePlan:
    """The new placement, and its difference from the old one.

    `moved` has each changed slice before and after; if only its spares change, its members are the same in both.
    """

    placement: Placement
    added: tuple[Slice, ...]
    removed: tuple[Slice, ...]
    moved: tuple[tuple[Slice, Slice], ...]


def resize(
    task: Task, inventory: Inventory, unavailable: UnavailableNodes, before: Placement
) -> ResizePlan | Shortfall:
    """Return a changed task's placement that keeps all slices it can, or why not.

    A slice is kept if it still has the size and the domain that the new rules ask for. If a group gets fewer slices,
    those of the lowest index are kept, so that their ranks do not change. `unavailable` are the nodes that other runs
    use, or that are unhealthy or drained; a slice with such a node is placed again.
    """
    own = {*before.nodes}
    others = {name: use for name, use in unavailable.items() if name not in own or use.unhealthy or use.drained}
    owners = placed_groups(task)
    kept: list[Slice] = []
    for group in order_by_near(owners.groups):
        for part in sorted((part for part in before.slices if part.group == group.name), key=lambda part: part.index):
            trimmed = _trim(group, part)
            if trimmed is not None and _may_stay(owners, group, inventory, others, kept, trimmed):
                kept.append(trimmed)
    after = place(task, inventory, others, _with_spares(owners, inventory, others, kept))
    if isinstance(after, Shortfall):
        return after
    old, new = ({part.key: part for part in placement.slices} for placement in (before, after))
    return ResizePlan(
        placement=after,
        added=tuple(part for key, part in new.items() if key not in old),
        removed=tuple(part for key, part in old.items() if key not in new),
        moved=tuple((old[key], part) for key, part in new.items() if key in old and old[key] != part),
    )


def _trim(group: Group, part: Slice) -> Slice | None:
    """Return a slice without surplus spares; None if its group has no such slice."""
    rule = group.topology
    if part.index >= rule.slices or len(part.nodes) != rule.nodes_per_slice:
        return None
    if rule.spares_per_rack:
        return part if len(part.spares) == rule.spares + rule.spares_per_rack else None
    return replace(part, spares=part.spares[: rule.spares])


def _may_stay(
    task: Task, group: Group, inventory: Inventory, unavailable: UnavailableNodes, kept: Sequence[Slice], part: Slice
) -> bool:
    """Whether the rules allow a slice on its nodes beside the slices kept so far."""
    known = {node.name: node for node in inventory.nodes}
    if any(name not in known for name in _names(part)):
        return False
    nodes = [known[name] for name in _names(part)]
    assigned = {name for other in kept for name in other.nodes}
    constraints = constraints_on(task, group.name, inventory, unavailable, kept)
    node_filter = NodeFilter(group, unavailable, assigned, constraints)
    return _in_one_domain(group, nodes) and all(node_filter.exclusion(node) is None for node in nodes)


def _in_one_domain(group: Group, nodes: Sequence[Node]) -> bool:
    """Whether nodes meet `within`, `all_within` and `spread_members` of a group."""
    level, apart = within_level(group.topology), spread_level(group.topology.spread_members)
    outer = TopologyLevel(group.topology.all_within or ANY_LEVEL)
    domains = {(level.domain_of(node), outer.domain_of(node)) for node in nodes}
    return len(domains) == 1 and (apart is None or len({node.at(apart) for node in nodes}) == len(nodes))


def _with_spares(task: Task, inventory: Inventory, unavailable: UnavailableNodes, kept: Sequence[Slice]) -> list[Slice]:
    """Return the slices with all their spares, without those that have no room."""
    found = list(kept)
    for part in kept:
        missing = task.group(part.group).topology.spares - len(part.spares)
        if missing > 0:
            placement = Placement(slices=tuple(found))
            spares = more_nodes(task, inventory, unavailable, placement, part, _names(part), missing)
            found.remove(part)
            if not isinstance(spares, Shortfall):
                found.append(replace(part, spares=(*part.spares, *(node.name for node in spares))))
    return found


def _names(part: Slice) -> tuple[NodeName, ...]:
    return (*part.nodes, *part.spares)
