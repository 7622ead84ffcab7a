"""Colocation: groups that run on the nodes of another group, their *owner*.

Only owners are placed, with the GPUs that all groups on their nodes need. Colocated groups follow by arithmetic: their
slices are laid out in rank order on the slices of the owner, as many on each as fit there whole. Every node of an
owner, spares included, has room for one member of each colocated group, so that any node can take any slot.
"""

from collections.abc import Sequence
from dataclasses import replace

from launcher.core.model.inventory import NODE_LEVEL
from launcher.core.model.placement import Placement, Slice
from launcher.core.model.task import Group, Task, TopologyRule, owner_rank

MAX_COLOCATED_GROUPS = 4
"""Limit on the groups on another group's nodes, by ports (`setup/ports.py`)."""


def placed_groups(task: Task) -> Task:
    """Return the task with only the groups that own nodes.

    Each asks for the GPUs that all groups on its nodes need together.
    """
    if _owners_only(task):
        return task
    owners = (group for group in task.groups if group.topology.nodes_of is None)
    return replace(task, groups=tuple(_joint(group, task.colocated_groups(group.name)) for group in owners))


def with_colocated_slices(task: Task, slices: Sequence[Slice]) -> tuple[Slice, ...]:
    """Return the slices of owners and of their colocated groups, in task order.

    Slices of colocated groups in the input are replaced.
    """
    if _owners_only(task):
        return tuple(slices)
    by_group = {group.name: [part for part in slices if part.group == group.name] for group in task.groups}
    found: list[Slice] = []
    for group in task.groups:
        owner = group.topology.nodes_of
        found += by_group[group.name] if owner is None else _colocated(group, task.group(owner), by_group[owner])
    return tuple(found)


def with_colocated_groups(task: Task, placement: Placement) -> Placement:
    """Return a placement of owners with the slices of all colocated groups."""
    if _owners_only(task):
        return placement
    slices = with_colocated_slices(task, placement.slices)
    reasons = dict(zip(placement.slices, placement.reasons, strict=True))
    return replace(placement, slices=slices, reasons=tuple(reasons.get(part) or _reason(task, part) for part in slices))


def max_colocated_slices(rule: TopologyRule, owner: TopologyRule) -> int:
    """Return how many slices of a colocated group fit on an owner's nodes."""
    return owner.slices * (owner.nodes_per_slice // rule.nodes_per_slice)


def can_colocate(task: Task, owner: Group, group: Group) -> bool:
    """Whether a group could run on the nodes of another group instead of its own."""
    owns = owner is not group and owner.topology.nodes_of is None and group.topology.nodes_of is None
    free = not task.colocated_groups(group.name) and len(task.colocated_groups(owner.name)) < MAX_COLOCATED_GROUPS
    named = any(group.name in (one.topology.near, one.topology.apart_from) for one in task.groups)
    kinds = {one.accelerator.casefold() for one in (owner, group) if one.accelerator is not None}
    has_driver = owner.driver is not None or group.driver is not None
    fits = max_colocated_slices(group.topology, owner.topology) >= group.topology.slices
    return owns and free and fits and len(kinds) < 2 and not named and not has_driver


def colocate(task: Task, name: str, owner: Group) -> Task:
    """Return the task with a group moved onto the nodes of another."""
    rule = task.group(name).topology
    colocated = TopologyRule(
        slices=rule.slices, nodes_per_slice=rule.nodes_per_slice, within=owner.topology.within, nodes_of=owner.name
    )
    return replace(
        task, groups=tuple(replace(one, topology=colocated) if one.name == name else one for one in task.groups)
    )


def first_gpu(task: Task, group: Group) -> int:
    """Return the index of a group's first GPU on a node.

    The owner's GPUs come first, then those of the colocated groups in task order.
    """
    owner = group.topology.nodes_of
    if owner is None:
        return 0
    before = task.colocated_groups(owner)[: position_on_node(task, group)[0] - 1]
    return task.group(owner).gpus + sum(one.gpus for one in before)


def position_on_node(task: Task, group: Group) -> tuple[int, int]:
    """Return a group's position among the groups on its nodes, and their number."""
    owner = group if group.topology.nodes_of is None else task.group(group.topology.nodes_of)
    names = [one.name for one in (owner, *task.colocated_groups(owner.name))]
    return names.index(group.name), len(names)


def _owners_only(task: Task) -> bool:
    return all(group.topology.nodes_of is None for group in task.groups)


def _joint(group: Group, colocated: Sequence[Group]) -> Group:
    if not colocated:
        return group
    kinds = (one.accelerator for one in (group, *colocated) if one.accelerator is not None)
    return replace(group, gpus=group.gpus + sum(one.gpus for one in colocated), accelerator=next(kinds, None))


def _colocated(group: Group, owner: Group, parts: Sequence[Slice]) -> list[Slice]:
    """Return the slices of a colocated group on these slices of its owner."""
    by_index, size = {part.index: part for part in parts}, group.topology.nodes_per_slice
    found: list[Slice] = []
    for index in range(group.topology.slices):
        first = owner_rank(group.topology, owner.topology, index, 0)
        part, at = by_index[first // owner.topology.nodes_per_slice], first % owner.topology.nodes_per_slice
        nodes = part.nodes[at : at + size]
        place = nodes[0] if group.topology.within == NODE_LEVEL else part.place
        found.append(replace(part, group=group.name, index=index, place=place, nodes=nodes, spares=()))
    return found


def _reason(task: Task, part: Slice) -> str:
    """Return the reason of a colocated slice: the owner, and the slice's GPUs."""
    group = task.group(part.group)
    first = first_gpu(task, group)
    gpus = f"GPU {first}" if group.gpus == 1 else f"GPUs {first}-{first + group.gpus - 1}" if group.gpus else "no GPU"
    return f"on nodes of `{group.topology.nodes_of}`, {gpus}"
