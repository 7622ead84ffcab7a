"""Groups that share nodes: each member of a guest sits on the node of a member of its host group, and moves with it.

Which one is arithmetic, and so the same wherever the nodes are: the slices of a guest are laid out in rank order on
those of its host, as many beside each other on one as fit there whole. Every node of a host, spares too, has room for
one member of each guest, so that any of them can take any slot.
"""

from collections.abc import Sequence
from dataclasses import replace

from launcher.core.model.inventory import NODE_LEVEL
from launcher.core.model.placement import Placement, Slice
from launcher.core.model.task import Group, Task, TopologyRule, host_rank

MOST_GUESTS = 4
"""How many groups may sit on the nodes of one: each node has a port for the rendezvous of each (`setup/ports.py`)."""


def hosts(task: Task) -> Task:
    """Return the task of the groups that have nodes of their own, each asking also for what its guests need there."""
    if all(group.topology.nodes_of is None for group in task.groups):
        return task
    own = (group for group in task.groups if group.topology.nodes_of is None)
    return replace(task, groups=tuple(_joint(group, task.guests(group.name)) for group in own))


def _joint(group: Group, guests: Sequence[Group]) -> Group:
    if not guests:
        return group
    kinds = (one.accelerator for one in (group, *guests) if one.accelerator is not None)
    return replace(group, gpus=group.gpus + sum(one.gpus for one in guests), accelerator=next(kinds, None))


def with_colocated(task: Task, slices: Sequence[Slice]) -> tuple[Slice, ...]:
    """Return the slices of hosts among these with those of all guests on them, in the order of the task."""
    if all(group.topology.nodes_of is None for group in task.groups):
        return tuple(slices)
    by_group = {group.name: [part for part in slices if part.group == group.name] for group in task.groups}
    found: list[Slice] = []
    for group in task.groups:
        host = group.topology.nodes_of
        found += by_group[group.name] if host is None else _with_colocated(group, task.group(host), by_group[host])
    return tuple(found)


def peopled(task: Task, placement: Placement) -> Placement:
    """Return a placement of the hosts of a task with all guests in it, and a sentence for each of their slices."""
    if all(group.topology.nodes_of is None for group in task.groups):
        return placement
    slices, own = with_colocated(task, placement.slices), dict(zip(placement.slices, placement.why, strict=True))
    return replace(placement, slices=slices, why=tuple(own.get(part) or words(task, part) for part in slices))


def _with_colocated(group: Group, host: Group, parts: Sequence[Slice]) -> list[Slice]:
    known, size = {part.index: part for part in parts}, group.topology.nodes_per_slice
    found: list[Slice] = []
    for index in range(group.topology.slices):
        first = host_rank(group.topology, host.topology, index, 0)
        part, at = known[first // host.topology.nodes_per_slice], first % host.topology.nodes_per_slice
        nodes = part.nodes[at : at + size]
        place = nodes[0] if group.topology.within == NODE_LEVEL else part.place
        found.append(replace(part, group=group.name, index=index, place=place, nodes=nodes, spares=()))
    return found


def most_slices(guest: TopologyRule, host: TopologyRule) -> int:
    """Return how many slices of a guest of this size have room on the nodes of its host."""
    return host.slices * (host.nodes_per_slice // guest.nodes_per_slice)


def may_host(task: Task, host: Group, guest: Group) -> bool:
    """Whether a task may slot a group that has nodes of its own on those of another instead."""
    own = host is not guest and host.topology.nodes_of is None and guest.topology.nodes_of is None
    free = not task.guests(guest.name) and len(task.guests(host.name)) < MOST_GUESTS
    spoken = any(guest.name in (one.topology.near, one.topology.apart_from) for one in task.groups)
    kinds = {one.accelerator.casefold() for one in (host, guest) if one.accelerator is not None}
    driven = host.driver is not None or guest.driver is not None
    room = most_slices(guest.topology, host.topology) >= guest.topology.slices
    return own and free and room and len(kinds) < 2 and not spoken and not driven


def colocate(task: Task, name: str, host: Group) -> Task:
    """Return a task with a group on the nodes of another, in as many slices as before."""
    rule = task.group(name).topology
    beside = TopologyRule(
        slices=rule.slices, nodes_per_slice=rule.nodes_per_slice, within=host.topology.within, nodes_of=host.name
    )
    return replace(
        task, groups=tuple(replace(one, topology=beside) if one.name == name else one for one in task.groups)
    )


def first_gpu(task: Task, group: Group) -> int:
    """Return which GPU of its nodes is the first of a group: its host's come first, then its guests' in the order of
    the task."""
    host = group.topology.nodes_of
    if host is None:
        return 0
    guests = task.guests(host)
    return task.group(host).gpus + sum(one.gpus for one in guests[: lane(task, group)[0] - 1])


def lane(task: Task, group: Group) -> tuple[int, int]:
    """Return which of the groups on its nodes a group is, counted from 0, and how many there may be."""
    own = group if group.topology.nodes_of is None else task.group(group.topology.nodes_of)
    family = [one.name for one in (own, *task.guests(own.name))]
    return family.index(group.name), len(family)


def words(task: Task, part: Slice) -> str:
    """Return one sentence: on whose nodes a guest's slice is, and which of their GPUs it has."""
    group = task.group(part.group)
    first = first_gpu(task, group)
    last = first + group.gpus - 1
    has = f"GPU {first} of each" if group.gpus == 1 else f"GPUs {first} to {last} of each"
    has = has if group.gpus else "none of their GPUs"
    return f"`{part.key}` on nodes of `{group.topology.nodes_of}` in `{part.place}`: {has}"
