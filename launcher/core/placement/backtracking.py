"""Full search by backtracking: find a placement, or prove that there is none.

Nodes in the same domains at every level that the task names are equal, so that the search handles a few counts instead
of nodes. Slices of one group differ by their domain only, and unused domains of equal shape are interchangeable.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from launcher.core.model.task import TopologyRule
from launcher.core.placement.capacity import Capacity, Demand, NodeClass, class_order
from launcher.core.placement.constraints import DomainId, TopologyLevel, near_level, within_level

MAX_WORK = 400_000
"""Limit on the steps of one search, about half a second."""

MAX_SLICES = 200
"""Limit on the slices of one search, far below Python's recursion limit."""


class SearchLimitError(Exception):
    """The search reached its limit: whether a placement exists is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedSlice:
    """The nodes of one slice.

    `parts` are sets of node classes, each with how many nodes to take; the last `shared` nodes are shared spares.
    """

    demand: Demand
    parts: tuple[tuple[tuple[NodeClass, ...], int], ...]
    shared: int


def search(capacity: Capacity, order: Sequence[Demand], work: int = MAX_WORK) -> list[SearchedSlice] | None:
    """Return nodes for all missing slices, or None if no placement exists.

    Raises SearchLimitError if neither is known. `order` must have a group before the groups that are near it.
    """
    if sum(demand.missing for demand in order) > MAX_SLICES or len(capacity.classes) * len(order) > work:
        raise SearchLimitError
    return _Search(capacity, order, work).run()


@dataclass(slots=True)
class _Pool:
    """Nodes that are equal to the task, and their domain at each level."""

    uses: int
    domains: Mapping[TopologyLevel, DomainId | None]
    classes: list[NodeClass] = field(default_factory=list)
    free: int = 0


_Counts = tuple[tuple[int, int], ...]
"""Pools by number, each with how many nodes a slice takes of it."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One placed slice; `domain` numbers the domains of its group."""

    demand: Demand
    domain: int
    counts: _Counts
    shared: int


class _Search:
    """A search: the pools, the domains as lists of pools, and the slices placed."""

    def __init__(self, capacity: Capacity, order: Sequence[Demand], work: int) -> None:
        self._usage, self._shared_spares, self._work = capacity.usage, capacity.shared_spares, work
        self._order = [(demand, left) for demand in order for left in range(demand.missing, 0, -1)]
        named = {level for demand in order for level in _levels(demand.rule)}
        self._levels = sorted(
            named | {level for _, level in capacity.usage.tracked}, key=lambda level: (level.name, level.nvlink)
        )
        self._pools = self._equal_nodes(capacity)
        self._domains = {demand.name: self._domains_of(demand) for demand in order}
        self._same: dict[TopologyLevel, frozenset[TopologyLevel]] = {}
        self._steps: list[_Step] = []
        self._have_spares: set[tuple[str, int]] = set()

    def run(self) -> list[SearchedSlice] | None:
        """Return the first placement found. Leaves the domain usage as it was."""
        if not self._place_from(0):
            return None
        found = [
            SearchedSlice(
                demand=step.demand,
                parts=tuple((tuple(self._pools[at].classes), count) for at, count in step.counts),
                shared=step.shared,
            )
            for step in self._steps
        ]
        while self._steps:
            self._undo()
        return found

    def _equal_nodes(self, capacity: Capacity) -> list[_Pool]:
        pools: dict[tuple[object, ...], _Pool] = {}
        for nodes in sorted(capacity.classes, key=class_order):
            domains = {level: level.domain_of(nodes) for level in self._levels}
            pool = pools.setdefault((nodes.uses, *domains.values()), _Pool(nodes.uses, domains))
            pool.classes.append(nodes)
            pool.free += len(nodes.free)
        return list(pools.values())

    def _domains_of(self, demand: Demand) -> list[list[int]]:
        """Return the domains that can contain a slice of a group, each as its pools."""
        if not demand.domains:
            return []
        level, outer = within_level(demand.rule), demand.rule.all_within
        domains: dict[tuple[DomainId | None, DomainId | None], list[int]] = {}
        for at, pool in enumerate(self._pools):
            if pool.uses & demand.use:
                key = pool.domains[level], pool.domains[TopologyLevel(outer)] if outer else None
                domains.setdefault(key, []).append(at)
        return list(domains.values())

    def _same_domains(self, own: TopologyLevel) -> frozenset[TopologyLevel]:
        """Return the levels whose domains are exactly those of a level."""
        if own in self._same:
            return self._same[own]
        self._spend(len(self._pools) * len(self._levels))
        pairs = {level: set[tuple[object, object]]() for level in self._levels}
        for pool in self._pools:
            for level in self._levels:
                pairs[level].add((pool.domains[own], pool.domains[level]))
        self._same[own] = frozenset(
            level
            for level, both in pairs.items()
            if len({domain for domain, _ in both}) == len({domain for _, domain in both}) == len(both)
        )
        return self._same[own]

    def _place_from(self, at: int) -> bool:
        """Place all slices from this one on; return whether they fit."""
        if at == len(self._order):
            return not any(self._usage.unmet_near(demand.name) for demand, _ in self._order)
        demand, left = self._order[at]
        last = self._steps[-1] if self._steps and self._steps[-1].demand is demand else None
        candidates = self._candidates(demand)
        if sum(slices for _, slices, _ in candidates) < left:
            return False
        seen: set[object] = set()
        for domain, _, pools in candidates:
            shape = self._shape(demand, pools)
            if (last is not None and domain < last.domain) or shape in seen:
                continue
            seen.add(shape)
            shared = self._spares_to_add(demand, domain)
            for counts in self._selections(demand, pools, demand.need + shared):
                # Slices of one group are interchangeable: only one order of them is tried.
                same_domain = last is not None and domain == last.domain and not demand.rule.spares_per_rack
                if same_domain and last is not None and counts > last.counts:
                    continue
                self._apply(_Step(demand, domain, counts, shared))
                if self._place_from(at + 1):
                    return True
                self._undo()
        return False

    def _candidates(self, demand: Demand) -> list[tuple[int, int, list[int]]]:
        """Return the domains with room for the next slice.

        Each as its number, an upper bound on the slices that fit there, and its usable pools.
        """
        constraints, apart = self._usage.constraints(demand.name), demand.spread_members
        found = []
        for domain, pools in enumerate(self._domains[demand.name]):
            self._spend(len(pools))
            usable = [
                at for at in pools if self._pools[at].free and constraints.exclusion(self._pools[at].classes[0]) is None
            ]
            room = sum(self._pools[at].free for at in usable) - self._spares_to_add(demand, domain)
            most = room
            if apart is not None:
                most = len({self._pools[at].domains[TopologyLevel(apart)] for at in usable})
            if min(room, most) >= demand.need:
                found.append((domain, room // demand.need, usable))
        return found

    def _spend(self, work: int) -> None:
        self._work -= work
        if self._work < 0:
            while self._steps:
                self._undo()
            raise SearchLimitError

    def _spares_to_add(self, demand: Demand, domain: int) -> int:
        """Return how many shared spares the next slice in a domain has to add."""
        if not demand.rule.spares_per_rack or (demand.name, domain) in self._have_spares:
            return 0
        known = self._pools[self._domains[demand.name][domain][0]].classes[0].domains
        if any((demand.name, id(one)) in self._shared_spares for one in known):
            return 0
        return demand.rule.spares_per_rack

    def _shape(self, demand: Demand, pools: Sequence[int]) -> object:
        """Return what distinguishes a domain: its free nodes, and names that matter."""
        same = self._same_domains(within_level(demand.rule))
        self._spend(len(pools) * len(self._usage.tracked))

        def look(pool: _Pool) -> tuple[object, ...]:
            names = tuple(pool.domains[level] for level in self._levels if level not in same)
            used = tuple(
                pool.domains[level] if pool.domains[level] in self._usage.slices_by_domain(name, level) else None
                for name, level in self._usage.tracked
                if level in same
            )
            return pool.uses, pool.free, names, used

        number = next(at for at, own in enumerate(self._domains[demand.name]) if pools[0] in own)
        return self._spares_to_add(demand, number), tuple(sorted((look(self._pools[at]) for at in pools), key=repr))

    def _selections(self, demand: Demand, pools: Sequence[int], need: int) -> Iterator[_Counts]:
        """Return every way to take `need` nodes of pools by the rules of the group."""
        level = None if demand.spread_members is None else TopologyLevel(demand.spread_members)
        after = [0] * (len(pools) + 1)
        for at in range(len(pools) - 1, -1, -1):
            after[at] = after[at + 1] + self._pools[pools[at]].free

        def take_from(at: int, left: int, used: frozenset[DomainId | None]) -> Iterator[_Counts]:
            if left == 0:
                yield ()
            if left == 0 or after[at] < left:
                return
            self._spend(1)
            pool = self._pools[pools[at]]
            domain = None if level is None else pool.domains[level]
            most = min(left, pool.free) if level is None else int(domain not in used)
            for count in range(most, max(0, left - after[at + 1]) - 1, -1):
                now_used = used | {domain} if count and level is not None else used
                for rest in take_from(at + 1, left - count, now_used):
                    yield ((pools[at], count), *rest) if count else rest

        yield from take_from(0, need, frozenset())

    def _apply(self, step: _Step) -> None:
        for at, count in step.counts:
            self._pools[at].free -= count
        self._usage.add(step.demand.name, [self._pools[at].classes[0] for at, _ in step.counts])
        if step.shared:
            self._have_spares.add((step.demand.name, step.domain))
        self._steps.append(step)

    def _undo(self) -> None:
        step = self._steps.pop()
        for at, count in step.counts:
            self._pools[at].free += count
        self._usage.remove(step.demand.name, [self._pools[at].classes[0] for at, _ in step.counts])
        if step.shared:
            self._have_spares.discard((step.demand.name, step.domain))


def _levels(rule: TopologyRule) -> Iterator[TopologyLevel]:
    """Return every level that a rule names."""
    yield within_level(rule)
    yield near_level(rule)
    for level in (rule.all_within, rule.spread, rule.spread_members, rule.exclusive):
        if level is not None:
            yield TopologyLevel(level)
