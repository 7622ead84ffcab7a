"""Where a slice may be because of others: `spread`, `near`, `apart_from`, all in one place, nobody else there."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from launcher.core.fleet import ANY_LEVEL, RACK_LEVEL, Inventory, Node, NodeName
from launcher.core.placement import Exclusion, Slice, Taken
from launcher.core.task import Task, TopologyRule

Spot = tuple[str, str | None]
"""A place at a level: its name, and for the racks of rack-local work its NVLink domain."""


def spot_at(node: Node, level: str, *, local: bool = False) -> Spot | None:
    """Answer the place of a node at a level; None where the inventory does not say. `local` tells domains apart."""
    if level == ANY_LEVEL:
        return ANY_LEVEL, None
    name = node.at(level)
    return None if name is None else (name, node.domain if local and level == RACK_LEVEL else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What keeps the next slice of a group off nodes. All of `inside` hold at once; `outside` bars single places."""

    inside: tuple[tuple[Exclusion, str, bool, frozenset[Spot]], ...] = ()
    outside: Mapping[tuple[str, bool], Mapping[Spot, Exclusion]] = field(default_factory=dict)

    def reason(self, node: Node) -> Exclusion | None:
        """Answer why the node may not be used; None where it may."""
        for (level, local), barred in self.outside.items():
            spot = spot_at(node, level, local=local)
            why = None if spot is None else barred.get(spot)
            if why is not None:
                return why
        for why, level, local, allowed in self.inside:
            if spot_at(node, level, local=local) not in allowed:
                return why
        return None


def bounds(
    task: Task, name: str, inventory: Inventory, taken: Mapping[NodeName, Taken], placed: Iterable[Slice]
) -> Bounds:
    """Answer the bounds of a group's next slice, given the slices of the task that have their place."""
    return _Surveyor(task, inventory, taken, tuple(placed)).bounds(name)


class _Surveyor:
    """The slices that are placed, and what each of them means for the others."""

    def __init__(
        self, task: Task, inventory: Inventory, taken: Mapping[NodeName, Taken], placed: tuple[Slice, ...]
    ) -> None:
        self._task, self._inventory, self._taken, self._placed = task, inventory, taken, placed
        self._nodes = {node.name: node for node in inventory.nodes}

    def bounds(self, name: str) -> Bounds:
        """Answer the bounds of one group."""
        rule = self._task.group(name).topology
        local = rule.within == RACK_LEVEL
        inside: list[tuple[Exclusion, str, bool, frozenset[Spot]]] = []
        if rule.all_within is not None and (together := self._spots(name, rule.all_within, local=False)):
            inside.append((Exclusion.ELSEWHERE, rule.all_within, False, frozenset(together)))
        if rule.near is not None:
            spots = self._spots(rule.near, rule.near_level, local=local)
            inside.append((Exclusion.NOT_NEAR, rule.near_level, local, frozenset(spots)))
        inside += self._followed(name)
        outside: dict[tuple[str, bool], dict[Spot, Exclusion]] = {}
        for level, spot, why in self._barred(name, rule):
            outside.setdefault((level, False), {})[spot] = why
        return Bounds(inside=tuple(inside), outside=outside)

    def _spots(self, group: str, level: str, *, local: bool) -> set[Spot]:
        return {spot for part in self._placed if part.group == group for spot in self._of(part, level, local=local)}

    def _of(self, part: Slice, level: str, *, local: bool = False) -> set[Spot]:
        nodes = [self._nodes[name] for name in (*part.nodes, *part.spares) if name in self._nodes]
        return {spot for node in nodes if (spot := spot_at(node, level, local=local)) is not None}

    def _followed(self, name: str) -> Iterable[tuple[Exclusion, str, bool, frozenset[Spot]]]:
        """Answer where slices are that must be near this group, and that no slice of it is near to yet."""
        for follower in self._task.groups:
            rule = follower.topology
            if rule.near != name:
                continue
            local = rule.within == RACK_LEVEL
            here = self._spots(name, rule.near_level, local=local)
            for part in self._placed:
                spots = self._of(part, rule.near_level, local=local)
                if part.group == follower.name and not spots & here:
                    yield Exclusion.NOT_NEAR, rule.near_level, local, frozenset(spots)

    def _barred(self, name: str, rule: TopologyRule) -> Iterable[tuple[str, Spot, Exclusion]]:
        if rule.spread is not None and rule.spread != ANY_LEVEL:
            yield from ((rule.spread, spot, Exclusion.SPREAD) for spot in self._spots(name, rule.spread, local=False))
        for other in self._task.groups:
            levels = {
                own.apart_level for own, far in ((rule, other.name), (other.topology, name)) if own.apart_from == far
            }
            for level in sorted(levels):
                yield from ((level, spot, Exclusion.APART) for spot in self._spots(other.name, level, local=False))
        if rule.exclusive is not None:
            for node in self._inventory.nodes:
                taken = self._taken.get(node.name)
                spot = spot_at(node, rule.exclusive)
                if taken is not None and taken.by_run is not None and spot is not None:
                    yield rule.exclusive, spot, Exclusion.SHARED
