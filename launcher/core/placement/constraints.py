"""Constraints between slices: spread, near, apart_from, all_within, exclusive."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, RACK_LEVEL, Inventory
from launcher.core.model.placement import Exclusion, Slice, UnavailableNodes
from launcher.core.model.task import Task, TopologyRule

DomainId = tuple[str, str | None]
"""A topology domain: its name, and the NVLink domain where that matters."""


class Located(Protocol):
    """A node, or a class of equal nodes."""

    @property
    def domain(self) -> str | None:
        """The NVLink domain."""

    def at(self, level: str) -> str | None:
        """Return the name of the domain at a level; None if unknown."""


@dataclass(frozen=True, slots=True)
class TopologyLevel:
    """A level of the topology.

    With `nvlink`, each NVLink domain of a rack is a domain of its own.
    """

    name: str
    nvlink: bool = False

    def domain_of(self, node: Located) -> DomainId | None:
        """Return the domain of a node at this level; None if unknown."""
        if self.name == ANY_LEVEL:
            return ANY_LEVEL, None
        name = node.at(self.name)
        return None if name is None else (name, node.domain if self.nvlink and self.name == RACK_LEVEL else None)


def within_level(rule: TopologyRule) -> TopologyLevel:
    """Return the level of the domains that contain one slice each."""
    return TopologyLevel(rule.within, nvlink=rule.within == RACK_LEVEL)


def near_level(rule: TopologyRule) -> TopologyLevel:
    """Return the level of the domains shared with the group named by `near`."""
    return TopologyLevel(rule.near_level, nvlink=rule.within == RACK_LEVEL)


def spread_level(level: str | None) -> str | None:
    """Return a level to spread over; None where different nodes are enough."""
    return None if level in (None, NODE_LEVEL, ANY_LEVEL) else level


class Constraint(NamedTuple):
    """Domains of one level that are required or forbidden, and the reason."""

    reason: Exclusion
    level: TopologyLevel
    domains: AbstractSet[DomainId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """Where the next slice of a group may be.

    Inside each set of `required` domains, and in none of the `forbidden` ones.
    """

    required: tuple[Constraint, ...] = ()
    forbidden: tuple[Constraint, ...] = ()

    def __bool__(self) -> bool:
        """Whether any node is excluded."""
        return bool(self.required) or any(domains for _, _, domains in self.forbidden)

    def exclusion(self, node: Located) -> Exclusion | None:
        """Return why a node cannot be used; None if it can."""
        for reason, level, domains in self.forbidden:
            if domains and level.domain_of(node) in domains:
                return reason
        for reason, level, domains in self.required:
            if level.domain_of(node) not in domains:
                return reason
        return None


class DomainUsage:
    """The domains that each group of a task uses, and the constraints that follow.

    `unconstrained` are the groups whose slices may be anywhere, whatever the others use.
    """

    def __init__(self, task: Task, inventory: Inventory, unavailable: UnavailableNodes) -> None:
        self._rules = {group.name: group.topology for group in task.groups}
        self._used: dict[tuple[str, TopologyLevel], Counter[DomainId]] = {
            key: Counter() for key in _tracked(self._rules)
        }
        self._fixed: list[tuple[str, TopologyLevel, frozenset[DomainId]]] = []
        self._other_runs = {
            level: _other_runs(TopologyLevel(level), inventory, unavailable) for level in _exclusive_levels(self._rules)
        }
        self.unconstrained = frozenset(name for name in self._rules if not any(self._constrained_by(name)))

    def constraints(self, name: str) -> Constraints:
        """Return the constraints on a group's next slice.

        They change as slices are added or removed.
        """
        if name in self.unconstrained:
            return Constraints()
        rule = self._rules[name]
        required: list[Constraint] = []
        if rule.all_within is not None:
            level = TopologyLevel(rule.all_within)
            if used := self._used[name, level]:
                required.append(Constraint(Exclusion.WITHIN, level, used.keys()))
        if rule.near is not None:
            level = near_level(rule)
            required.append(Constraint(Exclusion.NEAR, level, self._used[rule.near, level].keys()))
        required += (Constraint(Exclusion.NEAR, level, domains) for level, domains in self.unmet_near(name))
        return Constraints(required=tuple(required), forbidden=tuple(self._forbidden(name, rule)))

    def add(self, group: str, nodes: Iterable[Located]) -> None:
        """Count the domains of one more slice of a group."""
        self._count(group, nodes, 1)

    def add_fixed(self, group: str, nodes: Iterable[Located]) -> None:
        """Count a slice that keeps its nodes: groups it is near must come to it."""
        nodes = tuple(nodes)
        self.add(group, nodes)
        rule = self._rules[group]
        if rule.near is not None:
            level = near_level(rule)
            domains = frozenset(domain for node in nodes if (domain := level.domain_of(node)))
            self._fixed.append((rule.near, level, domains))

    def remove(self, group: str, nodes: Iterable[Located]) -> None:
        """Undo `add`."""
        self._count(group, nodes, -1)

    def _count(self, group: str, nodes: Iterable[Located], by: int) -> None:
        nodes = tuple(nodes)
        for (name, level), used in self._used.items():
            if name == group:
                for domain in {domain for node in nodes if (domain := level.domain_of(node)) is not None}:
                    used[domain] += by
                    if used[domain] <= 0:
                        del used[domain]

    @property
    def tracked(self) -> AbstractSet[tuple[str, TopologyLevel]]:
        """Return the groups and levels for which used domains are counted."""
        return self._used.keys()

    def slices_by_domain(self, group: str, level: TopologyLevel) -> Counter[DomainId]:
        """Return the number of slices of a group in each domain of a tracked level."""
        return self._used[group, level]

    def unmet_near(self, name: str) -> list[tuple[TopologyLevel, frozenset[DomainId]]]:
        """Return the domains of fixed slices that still need a slice of a group."""
        return [
            (level, domains)
            for target, level, domains in self._fixed
            if target == name and not domains & self._used[name, level].keys()
        ]

    def _constrained_by(self, name: str) -> Iterator[bool]:
        rule = self._rules[name]
        yield rule.exclusive is not None or rule.near is not None or rule.all_within is not None
        yield spread_level(rule.spread) is not None or rule.apart_from is not None
        yield any(name in (other.near, other.apart_from) for other in self._rules.values())

    def _forbidden(self, name: str, rule: TopologyRule) -> Iterator[Constraint]:
        if rule.exclusive is not None:
            yield Constraint(Exclusion.EXCLUSIVE, TopologyLevel(rule.exclusive), self._other_runs[rule.exclusive])
        if (spread := spread_level(rule.spread)) is not None:
            level = TopologyLevel(spread)
            yield Constraint(Exclusion.SPREAD, level, self._used[name, level].keys())
        for other, level in _apart_from(name, self._rules):
            yield Constraint(Exclusion.APART_FROM, level, self._used[other, level].keys())


def constraints_on(
    task: Task, name: str, inventory: Inventory, unavailable: UnavailableNodes, placed: Iterable[Slice]
) -> Constraints:
    """Return the constraints on a group's next slice, given the placed slices."""
    usage = DomainUsage(task, inventory, unavailable)
    nodes = {node.name: node for node in inventory.nodes}
    for part in placed:
        usage.add_fixed(part.group, [nodes[node] for node in (*part.nodes, *part.spares) if node in nodes])
    return usage.constraints(name)


def _tracked(rules: Mapping[str, TopologyRule]) -> Iterator[tuple[str, TopologyLevel]]:
    for name, rule in rules.items():
        if rule.all_within is not None:
            yield name, TopologyLevel(rule.all_within)
        if (spread := spread_level(rule.spread)) is not None:
            yield name, TopologyLevel(spread)
        if rule.near is not None:
            yield rule.near, near_level(rule)
            yield name, near_level(rule)
        yield from _apart_from(name, rules)


def _apart_from(name: str, rules: Mapping[str, TopologyRule]) -> Iterator[tuple[str, TopologyLevel]]:
    """Return the groups to stay apart from, in either direction, with the level."""
    for other, rule in rules.items():
        if rules[name].apart_from == other:
            yield other, TopologyLevel(rules[name].apart_level)
        if rule.apart_from == name:
            yield other, TopologyLevel(rule.apart_level)


def _exclusive_levels(rules: Mapping[str, TopologyRule]) -> set[str]:
    return {rule.exclusive for rule in rules.values() if rule.exclusive is not None}


def _other_runs(level: TopologyLevel, inventory: Inventory, unavailable: UnavailableNodes) -> frozenset[DomainId]:
    """Return the domains in which another run has a node."""
    used = (node for node in inventory.nodes if (use := unavailable.get(node.name)) and use.used_by is not None)
    return frozenset(domain for node in used if (domain := level.domain_of(node)) is not None)
