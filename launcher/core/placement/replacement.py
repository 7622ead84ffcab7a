"""Replacement: other nodes for a slice or for some of its nodes, or a spare.

In all functions, `inventory` is the whole inventory, not that of the run, and a node in `unavailable` is never chosen.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from launcher.core.model.inventory import NODE_LEVEL, Inventory, Node, RackName
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.placement import Exclusion, Placement, Shortfall, Slice, Unavailable, UnavailableNodes
from launcher.core.model.task import Task
from launcher.core.placement.capacity import rank_order
from launcher.core.placement.colocation import placed_groups
from launcher.core.placement.constraints import (
    Constraint,
    Constraints,
    TopologyLevel,
    constraints_on,
    spread_level,
    within_level,
)
from launcher.core.placement.explain import shortfall_of
from launcher.core.placement.filters import NodeFilter, is_free
from launcher.core.placement.place import place
from launcher.core.placement.slice_range import pinned


def replace_slice(
    task: Task,
    inventory: Inventory,
    unavailable: UnavailableNodes,
    placement: Placement,
    part: Slice,
    lost: Collection[str] = (),
) -> Slice | Shortfall:
    """Return a slice with the same index on other nodes, or why there are none.

    Every hard rule of the task holds against the other slices. The old nodes may serve again unless they are
    unavailable; those of the other slices may not. Slices in `lost`, by key, are placed again together with this one:
    it goes where all of them fit. If they do not fit together, it is placed beside them where they are.
    """
    owners = {group.name for group in placed_groups(task).groups}
    others = tuple(other for other in placement.slices if other.key != part.key and other.group in owners)
    kept = tuple(other for other in others if other.key not in lost)
    result = place(pinned(task), inventory, _used_by_others(unavailable, kept), kept)
    if isinstance(result, Shortfall) and len(kept) < len(others):
        return replace_slice(task, inventory, unavailable, placement, part)
    if isinstance(result, Shortfall):
        return result
    return next(other for other in result.slices if other.key == part.key)


def lost_together(task: Task, placement: Placement, failed: Collection[NodeName]) -> tuple[str, ...]:
    """Return the slices whose nodes have all failed, where rules of the task bind slices to each other; else none."""
    if not any(group.topology.all_within or group.topology.near for group in task.groups):
        return ()
    return tuple(part.key for part in placement.slices if all(name in failed for name in part.nodes))


def replace_nodes(
    task: Task,
    inventory: Inventory,
    unavailable: UnavailableNodes,
    placement: Placement,
    part: Slice,
    lost: Collection[NodeName],
) -> Slice | Shortfall:
    """Return a slice with other nodes in place of its lost ones, or why not.

    Only the slice's own domain is searched: its rack and NVLink domain, or its domain of level `within`, and of it the
    part in the slice's own `all_within` domain. All other nodes of the slice keep their slots.
    """
    old = [*part.nodes, *part.spares]
    remaining = tuple(name for name in old if name not in lost)
    found = more_nodes(
        task, inventory, unavailable, placement, replace(part, nodes=remaining, spares=()), old, len(lost)
    )
    if isinstance(found, Shortfall):
        return found
    new = dict(zip(sorted(lost, key=old.index), (node.name for node in found), strict=True))
    return replace(
        part,
        nodes=tuple(new.get(name, name) for name in part.nodes),
        spares=tuple(new.get(name, name) for name in part.spares),
    )


def move_slices(
    task: Task,
    inventory: Inventory,
    unavailable: UnavailableNodes,
    placement: Placement,
    wanted: Mapping[str, Sequence[NodeName]],
) -> Sequence[Slice] | str:
    """Return slices on the nodes named for each by its key, members first, or why they cannot be there.

    Every hard rule holds against the slices that stay, and between those that move.
    """
    task = placed_groups(task)
    owners, known = {group.name for group in task.groups}, {node.name: node for node in inventory.nodes}
    placed = [other for other in placement.slices if other.key not in wanted and other.group in owners]
    moved: list[Slice] = []
    for part in (part for part in placement.slices if part.key in wanted):
        names = wanted[part.key]
        if missing := [name for name in names if name not in known]:
            return f"{fold(missing)} is no longer in the inventory"
        nodes = [known[name] for name in names]
        rules = constraints_on(task, part.group, inventory, unavailable, (*placed, *moved))
        taken = {name for other in (*placed, *moved) for name in (*other.nodes, *other.spares)}
        node_filter = NodeFilter(task.group(part.group), unavailable, taken, rules)
        for node in nodes:
            if (why := node_filter.exclusion(node)) is not None:
                return f"{node.name} is {why.value}"
        size = len(part.nodes) + len(part.spares)
        if len(nodes) != size or len({(node.rack, node.domain) for node in nodes}) != 1:
            return f"{fold(names)} are not {size} nodes of one NVLink domain"
        moved.append(slice_on(task, part, nodes))
    return moved


def slice_on(task: Task, part: Slice, nodes: Sequence[Node]) -> Slice:
    """Return a slice on other nodes of one rack and NVLink domain, members first."""
    first, names, count = nodes[0], tuple(node.name for node in nodes), len(part.nodes)
    own = task.group(part.group).topology.within == NODE_LEVEL
    return replace(
        part,
        place=first.name if own else first.rack,
        rack=first.rack,
        domain=first.domain,
        nodes=names[:count],
        spares=names[count:],
    )


def find_spare(
    task: Task, inventory: Inventory, unavailable: UnavailableNodes, placement: Placement, part: Slice
) -> NodeName | None:
    """Return a free node that a slice could have as another spare, or None.

    Every hard rule of the task holds. Nodes of the placement are never chosen.
    """
    found = more_nodes(task, inventory, unavailable, placement, part, (*part.nodes, *part.spares), 1)
    return None if isinstance(found, Shortfall) else found[0].name


def more_nodes(
    task: Task,
    inventory: Inventory,
    unavailable: UnavailableNodes,
    placement: Placement,
    remaining: Slice,
    old: Collection[NodeName],
    count: int,
) -> Sequence[Node] | Shortfall:
    """Return `count` more nodes for what remains of a slice, in its own domain.

    `old` are all nodes that the slice has or had. Nodes in the racks of `old` come first, then those of partly used
    NVLink domains, then those that did not come back from quarantine lately, then rank order.
    """
    task = placed_groups(task)
    group, owners = task.group(remaining.group), {one.name for one in task.groups}
    others = tuple(other for other in placement.slices if other.key != remaining.key and other.group in owners)
    used = _used_by_others(unavailable, placement.slices)
    had = [node for node in inventory.nodes if node.name in old]
    assigned = {name for other in others for name in (*other.nodes, *other.spares)} | {*old}
    constraints = _constraints_on_more(task, inventory, used, others, remaining, had)
    node_filter = NodeFilter(group, unavailable, assigned, constraints)
    found = [node for node in inventory.nodes if node_filter.exclusion(node) is None]
    unused = _unused_domains(inventory, {**unavailable, **dict.fromkeys(assigned, Unavailable(used_by=task.name))})
    racks = {node.rack for node in had}
    returned = {name for name, use in unavailable.items() if use.returned}
    found.sort(
        key=lambda node: (
            node.rack not in racks,
            (node.rack, node.domain) in unused,
            node.name in returned,
            rank_order(node),
        )
    )
    if (apart := spread_level(group.topology.spread_members)) is not None:
        found = _first_of_each(found, apart, {node.at(apart) for node in had if node.name in remaining.nodes})
    if len(found) >= count:
        return found[:count]
    alone = replace(group, topology=replace(group.topology, slices=1, nodes_per_slice=count, spares=0))
    return replace(shortfall_of(alone, inventory, node_filter, placed=0, proven=True), largest=len(found))


def _first_of_each(nodes: Sequence[Node], level: str, used: Collection[str | None]) -> list[Node]:
    """Return the first node of each domain at a level, without the domains in use."""
    first: dict[str | None, Node] = {}
    for node in nodes:
        first.setdefault(node.at(level), node)
    return [node for name, node in first.items() if name not in used]


def _constraints_on_more(
    task: Task,
    inventory: Inventory,
    unavailable: UnavailableNodes,
    others: Sequence[Slice],
    remaining: Slice,
    had: Sequence[Node],
) -> Constraints:
    """Return the constraints on more nodes of a slice.

    `spread` allows the domains of the slice itself, and the slice meets `near` already.
    """
    rule = task.group(remaining.group).topology
    levels = [within_level(rule), *([TopologyLevel(rule.all_within)] if rule.all_within else [])]
    own = [
        Constraint(Exclusion.WITHIN, level, frozenset(at for node in had if (at := level.domain_of(node)) is not None))
        for level in levels
    ]
    with_own = constraints_on(task, remaining.group, inventory, unavailable, (*others, remaining))
    return Constraints(
        required=(*own, *with_own.required),
        forbidden=constraints_on(task, remaining.group, inventory, unavailable, others).forbidden,
    )


def _unused_domains(inventory: Inventory, unavailable: UnavailableNodes) -> set[tuple[RackName, str | None]]:
    """Return the NVLink domains in which every node is free."""
    used = {(node.rack, node.domain) for node in inventory.nodes if not is_free(node, unavailable.get(node.name))}
    return {(node.rack, node.domain) for node in inventory.nodes} - used


def _used_by_others(unavailable: UnavailableNodes, slices: Sequence[Slice]) -> UnavailableNodes:
    """Return the unavailable nodes without those of the task's own slices."""
    own = {name for part in slices for name in (*part.nodes, *part.spares)}
    return {name: use for name, use in unavailable.items() if name not in own}
