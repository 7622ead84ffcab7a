"""Where a slice may be because of others: `spread`, `near`, `apart_from`, all in one place, nobody else there."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, RACK_LEVEL, Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Exclusion, Slice, Taken
from launcher.core.model.task import Task, TopologyRule

Spot = tuple[str, str | None]
"""A place at a level: its name, and for the racks of rack-local work its NVLink domain."""


class Sited(Protocol):
    """A node, or nodes that are alike."""

    @property
    def domain(self) -> str | None:
        """Its NVLink domain."""

    def at(self, level: str) -> str | None:
        """Return the name of its place at a level; None where the inventory does not say."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A level at which places are told apart; `local` tells the NVLink domains of a rack apart too."""

    level: str
    local: bool = False

    def spot(self, what: Sited) -> Spot | None:
        """Return where something is; None where the inventory does not say."""
        if self.level == ANY_LEVEL:
            return ANY_LEVEL, None
        name = what.at(self.level)
        return None if name is None else (name, what.domain if self.local and self.level == RACK_LEVEL else None)


def within_scale(rule: TopologyRule) -> Scale:
    """Return the scale of the places that no slice may cross."""
    return Scale(rule.within, local=rule.within == RACK_LEVEL)


def near_scale(rule: TopologyRule) -> Scale:
    """Return the scale of the places that slices share with the group that they are near."""
    return Scale(rule.near_level, local=rule.within == RACK_LEVEL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What keeps the next slice of a group off nodes. All of `inside` hold at once; `outside` bars single places."""

    inside: tuple[tuple[Exclusion, Scale, AbstractSet[Spot]], ...] = ()
    outside: tuple[tuple[Exclusion, Scale, AbstractSet[Spot]], ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is kept off."""
        return bool(self.inside) or any(barred for _, _, barred in self.outside)

    def reason(self, what: Sited) -> Exclusion | None:
        """Return why a node may not be used; None where it may."""
        for why, scale, barred in self.outside:
            if barred and scale.spot(what) in barred:
                return why
        for why, scale, allowed in self.inside:
            if scale.spot(what) not in allowed:
                return why
        return None


class Ledger:
    """The places that the slices of a task have touched so far, and what they mean for the next one of each group."""

    def __init__(self, task: Task, inventory: Inventory, taken: Mapping[NodeName, Taken]) -> None:
        self._rules = {group.name: group.topology for group in task.groups}
        self._touched: dict[tuple[str, Scale], Counter[Spot]] = {key: Counter() for key in _watched(self._rules)}
        self._kept: list[tuple[str, Scale, frozenset[Spot]]] = []
        self._foreign = {level: _foreign(Scale(level), inventory, taken) for level in _exclusive(self._rules)}
        self.free = frozenset(name for name in self._rules if not any(self._speaks_of(name)))

    def _speaks_of(self, name: str) -> Iterator[bool]:
        rule = self._rules[name]
        yield rule.exclusive is not None or rule.near is not None or rule.all_within is not None
        yield ground(rule.spread) is not None or rule.apart_from is not None
        yield any(name in (other.near, other.apart_from) for other in self._rules.values())

    def touch(self, group: str, nodes: Iterable[Sited], sign: int = 1) -> None:
        """Note the places of a slice of a group; `sign` -1 takes that back."""
        nodes = tuple(nodes)
        for (name, scale), touched in self._touched.items():
            if name == group:
                for spot in {spot for node in nodes if (spot := scale.spot(node)) is not None}:
                    touched[spot] += sign
                    if touched[spot] <= 0:
                        del touched[spot]

    def keep(self, group: str, nodes: Iterable[Sited]) -> None:
        """Note a slice that stays where it is, and that what it is near to has to come to it."""
        nodes = tuple(nodes)
        self.touch(group, nodes)
        rule = self._rules[group]
        if rule.near is not None:
            scale = near_scale(rule)
            self._kept.append((rule.near, scale, frozenset(spot for node in nodes if (spot := scale.spot(node)))))

    @property
    def watched(self) -> AbstractSet[tuple[str, Scale]]:
        """Return the groups and scales whose places are noted."""
        return self._touched.keys()

    def touched(self, group: str, scale: Scale) -> Counter[Spot]:
        """Return how many slices of a group touch each place, at a scale that its rules speak of."""
        return self._touched[group, scale]

    def lonely(self, name: str) -> list[tuple[Scale, frozenset[Spot]]]:
        """Return where slices stay that must be near a group, and that no slice of it is near to yet."""
        return [
            (scale, spots)
            for target, scale, spots in self._kept
            if target == name and not spots & self._touched[name, scale].keys()
        ]

    def bounds(self, name: str) -> Bounds:
        """Return the bounds of the next slice of a group; they follow what is noted later."""
        if name in self.free:
            return Bounds()
        rule = self._rules[name]
        inside: list[tuple[Exclusion, Scale, AbstractSet[Spot]]] = []
        if rule.all_within is not None and (spots := self._touched[name, Scale(rule.all_within)]):
            inside.append((Exclusion.ELSEWHERE, Scale(rule.all_within), spots.keys()))
        if rule.near is not None:
            inside.append((Exclusion.NOT_NEAR, near_scale(rule), self._touched[rule.near, near_scale(rule)].keys()))
        inside += ((Exclusion.NOT_NEAR, scale, spots) for scale, spots in self.lonely(name))
        return Bounds(inside=tuple(inside), outside=tuple(self._barred(name, rule)))

    def _barred(self, name: str, rule: TopologyRule) -> Iterator[tuple[Exclusion, Scale, AbstractSet[Spot]]]:
        if rule.exclusive is not None:
            yield Exclusion.SHARED, Scale(rule.exclusive), self._foreign[rule.exclusive]
        if (spread := ground(rule.spread)) is not None:
            yield Exclusion.SPREAD, Scale(spread), self._touched[name, Scale(spread)].keys()
        for other, scale in _apart(name, self._rules):
            yield Exclusion.APART, scale, self._touched[other, scale].keys()


def ground(level: str | None) -> str | None:
    """Return a level at which nodes must keep apart; None where that they are different nodes is enough."""
    return None if level in (None, NODE_LEVEL, ANY_LEVEL) else level


def bounds(
    task: Task, name: str, inventory: Inventory, taken: Mapping[NodeName, Taken], placed: Iterable[Slice]
) -> Bounds:
    """Return the bounds of a group's next slice, given the slices of the task that have their place."""
    ledger = Ledger(task, inventory, taken)
    nodes = {node.name: node for node in inventory.nodes}
    for part in placed:
        ledger.keep(part.group, [nodes[one] for one in (*part.nodes, *part.spares) if one in nodes])
    return ledger.bounds(name)


def _watched(rules: Mapping[str, TopologyRule]) -> Iterator[tuple[str, Scale]]:
    for name, rule in rules.items():
        if rule.all_within is not None:
            yield name, Scale(rule.all_within)
        if (spread := ground(rule.spread)) is not None:
            yield name, Scale(spread)
        if rule.near is not None:
            yield rule.near, near_scale(rule)
            yield name, near_scale(rule)
        yield from _apart(name, rules)


def _apart(name: str, rules: Mapping[str, TopologyRule]) -> Iterator[tuple[str, Scale]]:
    """Return the groups that a group keeps apart from, or that do from it, each with the scale of that."""
    for other, rule in rules.items():
        if rules[name].apart_from == other:
            yield other, Scale(rules[name].apart_level)
        if rule.apart_from == name:
            yield other, Scale(rule.apart_level)


def _exclusive(rules: Mapping[str, TopologyRule]) -> set[str]:
    return {rule.exclusive for rule in rules.values() if rule.exclusive is not None}


def _foreign(scale: Scale, inventory: Inventory, taken: Mapping[NodeName, Taken]) -> frozenset[Spot]:
    """Return the places where another run has a node."""
    nodes = (node for node in inventory.nodes if node.name in taken and taken[node.name].by_run is not None)
    return frozenset(spot for node in nodes if (spot := scale.spot(node)) is not None)
