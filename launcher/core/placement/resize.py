"""A task given again while its run goes on: what stays where it is, what comes and what goes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from launcher.core.model.inventory import Inventory, Node
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Shortfall, Slice, Taken
from launcher.core.model.task import Group, Task
from launcher.core.placement.colocation import hosts
from launcher.core.placement.constraints import bounds, ground, within_scale
from launcher.core.placement.filters import Sieve
from launcher.core.placement.place import place
from launcher.core.placement.replacement import beside
from launcher.core.placement.solver import leaders_first

_Taken = Mapping[NodeName, Taken]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """The placement of a task given again, and how it differs: slices that come and go, and those that move, each as it
    was and as it will be. A slice whose spares alone differ is among those that move, with the same members."""

    placement: Placement
    comes: tuple[Slice, ...]
    goes: tuple[Slice, ...]
    moves: tuple[tuple[Slice, Slice], ...]


def resize(task: Task, inventory: Inventory, taken: _Taken, before: Placement) -> Resize | Shortfall:
    """Return where a task is after it was given again, or why it cannot be placed so; slices that may stay do.

    A slice stays when it has as many members as before and the new rules allow it where it is; of fewer slices, those
    of the lowest index stay, so that no rank of them changes. `taken` is what other runs have and what is sick:
    a slice with a node in it is placed again.
    """
    ours = {*before.nodes}
    foreign = {name: mark for name, mark in taken.items() if name not in ours or mark.sick or mark.drained}
    whole, task = task, hosts(task)
    kept: list[Slice] = []
    for group in leaders_first(task.groups):
        for part in sorted((part for part in before.slices if part.group == group.name), key=lambda part: part.index):
            trimmed = _trimmed(group, part)
            if trimmed is not None and _allowed(task, group, inventory, foreign, kept, trimmed):
                kept.append(trimmed)
    kept = _spared(task, inventory, foreign, kept)
    after = place(whole, inventory, foreign, kept)
    if isinstance(after, Shortfall):
        return after
    old, new = ({part.key: part for part in placed.slices} for placed in (before, after))
    return Resize(
        placement=after,
        comes=tuple(part for key, part in new.items() if key not in old),
        goes=tuple(part for key, part in old.items() if key not in new),
        moves=tuple((old[key], part) for key, part in new.items() if key in old and old[key] != part),
    )


def _trimmed(group: Group, part: Slice) -> Slice | None:
    """Return a slice with no more spares than are asked; None where the group has no such slice any more."""
    rule = group.topology
    if part.index >= rule.slices or len(part.nodes) != rule.nodes_per_slice:
        return None
    if rule.spares_per_rack:
        return part if len(part.spares) == rule.spares + rule.spares_per_rack else None
    return replace(part, spares=part.spares[: rule.spares])


def _spared(task: Task, inventory: Inventory, taken: _Taken, kept: Sequence[Slice]) -> list[Slice]:
    """Return the slices with as many spares as are asked, without those that have no room for them."""
    spared = list(kept)
    for part in kept:
        missing = task.group(part.group).topology.spares - len(part.spares)
        if missing > 0:
            more = beside(task, inventory, taken, Placement(slices=tuple(spared)), part, _names(part), missing)
            spared.remove(part)
            if not isinstance(more, Shortfall):
                spared.append(replace(part, spares=(*part.spares, *(node.name for node in more))))
    return spared


def _allowed(task: Task, group: Group, inventory: Inventory, taken: _Taken, kept: Sequence[Slice], part: Slice) -> bool:
    """Whether the rules allow a slice where it is."""
    known = {node.name: node for node in inventory.nodes}
    if any(name not in known for name in _names(part)):
        return False
    nodes = [known[name] for name in _names(part)]
    promised = {name for other in kept for name in other.nodes}
    sieve = Sieve(group, taken, promised, bounds(task, group.name, inventory, taken, kept))
    return _whole(group, nodes) and all(sieve.reason(node) is None for node in nodes)


def _whole(group: Group, nodes: Sequence[Node]) -> bool:
    scale, apart = within_scale(group.topology), ground(group.topology.spread_members)
    places = {scale.spot(node) for node in nodes}
    return len(places) == 1 and (apart is None or len({node.at(apart) for node in nodes}) == len(nodes))


def _names(part: Slice) -> tuple[NodeName, ...]:
    return (*part.nodes, *part.spares)
