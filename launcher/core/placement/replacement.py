"""Other nodes for a part of a placement, while all the rest of it stays where it is."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from launcher.core.model.inventory import Inventory, Node, RackName
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Exclusion, Placement, Shortfall, Slice, Taken
from launcher.core.model.task import Task
from launcher.core.placement.capacity import rank_order
from launcher.core.placement.colocation import hosts
from launcher.core.placement.constraints import Bounds, bounds, ground, within_scale
from launcher.core.placement.explain import account
from launcher.core.placement.filters import Sieve, free_of_marks
from launcher.core.placement.place import place

_Taken = Mapping[NodeName, Taken]


def replace_slice(
    task: Task, inventory: Inventory, taken: _Taken, placement: Placement, part: Slice
) -> Slice | Shortfall:
    """Return other nodes for one slice of a placement, under the same index, or why there are none.

    Every hard rule of the task holds against the slices that stay. `inventory` is the whole one, not that of the run.
    `taken` is what other runs have and what is sick or failed: none of it is free. The old nodes of the slice may
    serve again unless they are in `taken`; those of the slices that stay never do.
    """
    own = {group.name for group in hosts(task).groups}
    kept = tuple(other for other in placement.slices if other.key != part.key and other.group in own)
    answer = place(task, inventory, _of_others(taken, kept), kept)
    if isinstance(answer, Shortfall):
        return answer
    return next(other for other in answer.slices if other.key == part.key)


def replace_nodes(
    task: Task,
    inventory: Inventory,
    taken: _Taken,
    placement: Placement,
    part: Slice,
    lost: Collection[NodeName],
) -> Slice | Shortfall:
    """Return a slice with other nodes in the slots of lost ones, or why there are not enough.

    Only the place that the loss broke is searched: the slice's own, so its rack and NVLink domain, or its place at the
    level that it may not cross. Whoever is well keeps its slot. `inventory` and `taken` are as for `replace_slice`.
    """
    stay = [name for name in (*part.nodes, *part.spares) if name not in lost]
    whole = [*part.nodes, *part.spares]
    found = beside(task, inventory, taken, placement, replace(part, nodes=tuple(stay), spares=()), whole, len(lost))
    if isinstance(found, Shortfall):
        return found
    new = dict(zip(sorted(lost, key=whole.index), (node.name for node in found), strict=True))
    return replace(
        part,
        nodes=tuple(new.get(name, name) for name in part.nodes),
        spares=tuple(new.get(name, name) for name in part.spares),
    )


def beside(
    task: Task,
    inventory: Inventory,
    taken: _Taken,
    placement: Placement,
    stays: Slice,
    old: Collection[NodeName],
    count: int,
) -> Sequence[Node] | Shortfall:
    """Return `count` more nodes for what stays of a slice, in its own place; `old` are those it has, or had.

    First come nodes in the racks of `old`, then those whose NVLink domain is broken already, then rank order.
    """
    task = hosts(task)
    group, own = task.group(stays.group), {one.name for one in task.groups}
    others = tuple(other for other in placement.slices if other.key != stays.key and other.group in own)
    foreign = _of_others(taken, placement.slices)
    had = [node for node in inventory.nodes if node.name in old]
    promised = {name for other in others for name in (*other.nodes, *other.spares)} | {*old}
    sieve = Sieve(group, taken, promised, _limits(task, inventory, foreign, others, stays, had))
    found = [node for node in inventory.nodes if sieve.reason(node) is None]
    whole = _whole_domains(inventory, {**taken, **dict.fromkeys(promised, Taken(by_run=task.name))})
    racks = {node.rack for node in had}
    found.sort(key=lambda node: (node.rack not in racks, (node.rack, node.domain) in whole, rank_order(node)))
    if (apart := ground(group.topology.spread_members)) is not None:
        used = {node.at(apart) for node in had if node.name in stays.nodes}
        found = _first_of_each(found, apart, used)
    if len(found) >= count:
        return found[:count]
    alone = replace(group, topology=replace(group.topology, slices=1, nodes_per_slice=count, spares=0))
    return replace(account(alone, inventory, sieve, placed=0, proven=True), largest=len(found))


def _first_of_each(nodes: Sequence[Node], level: str, used: Collection[str | None]) -> list[Node]:
    """Return the first node of each place at a level that is not used."""
    first: dict[str | None, Node] = {}
    for node in nodes:
        first.setdefault(node.at(level), node)
    return [node for value, node in first.items() if value not in used]


def _limits(
    task: Task, inventory: Inventory, taken: _Taken, others: Sequence[Slice], stays: Slice, had: Sequence[Node]
) -> Bounds:
    """Return the bounds of more nodes of a slice: its own grounds are no others', and it need not come to itself."""
    scale = within_scale(task.group(stays.group).topology)
    here = frozenset(spot for node in had if (spot := scale.spot(node)) is not None)
    company = bounds(task, stays.group, inventory, taken, (*others, stays))
    return Bounds(
        inside=((Exclusion.ELSEWHERE, scale, here), *company.inside),
        outside=bounds(task, stays.group, inventory, taken, others).outside,
    )


def _whole_domains(inventory: Inventory, taken: _Taken) -> set[tuple[RackName, str | None]]:
    """Return the NVLink domains of which every node is free."""
    broken = {(node.rack, node.domain) for node in inventory.nodes if not free_of_marks(node, taken.get(node.name))}
    return {(node.rack, node.domain) for node in inventory.nodes} - broken


def _of_others(taken: _Taken, kept: Sequence[Slice]) -> _Taken:
    """Return what is taken without what the task's own slices have: they are no other run to be kept apart from."""
    ours = {name for part in kept for name in (*part.nodes, *part.spares)}
    return {name: mark for name, mark in taken.items() if name not in ours}


def spare_for(
    task: Task, inventory: Inventory, taken: Mapping[NodeName, Taken], placement: Placement, part: Slice
) -> NodeName | None:
    """Return a free node that a slice could have as another spare, by every hard rule of the task: in its own rack and
    NVLink domain, or in its own place where it may span racks. None where there is none.

    `inventory` is the whole one. A node in `taken` is not free, whoever has it; those of the placement never are.
    """
    answer = beside(task, inventory, taken, placement, part, (*part.nodes, *part.spares), 1)
    return None if isinstance(answer, Shortfall) else answer[0].name
