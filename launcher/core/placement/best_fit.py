"""Best fit: the domain for the next slice, by the task's rules and tightness.

Best fit takes the domain with the fewest free nodes that still holds the slice and its spares. Nodes are *stranded* for
slices of b nodes if they can all stay free while no such slice fits: up to b - 1 in each domain, so the sum of
min(free, b - 1). Among the domains with room, best fit strands the fewest nodes for every b at once: of two gaps with a
fixed sum, the more unequal strand fewer. So a choice never costs a slice of any size its last domain if another choice
would have kept it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, RACK_LEVEL
from launcher.core.model.nodeset import natural
from launcher.core.placement.capacity import Capacity, Demand, NodeClass, TopologyDomain
from launcher.core.placement.constraints import TopologyLevel, near_level
from launcher.core.placement.node_selection import by_domain_name, max_spread_slices, usable_nodes

_Closeness = tuple[int, bool, bool, int]


@dataclass(slots=True)
class Candidate:
    """A domain with room for the next slice.

    `classes` are the node classes that the slice may use there, `free` their free nodes, `slices` how many slices they
    hold.
    """

    domain: TopologyDomain
    classes: Sequence[NodeClass]
    free: int
    slices: int


class BestFit:
    """Chooses domains for the slices of one group, one slice after the other."""

    def __init__(self, capacity: Capacity, demand: Demand) -> None:
        self._capacity, self._demand = capacity, demand
        self._levels = tuple(reversed(capacity.levels))
        self._slices_at: Counter[tuple[str, str | None]] = Counter()
        self.missing = demand.missing

    def candidates(self) -> list[Candidate]:
        """Return every domain with room for the next slice."""
        constraints, demand = self._capacity.usage.constraints(self._demand.name), self._demand
        constrained = bool(constraints)
        if not constrained and demand.spread_members is None and not demand.rule.spares_per_rack:
            need = demand.need
            return [
                Candidate(domain, domain.classes, domain.free, domain.free // need)
                for domain in demand.domains
                if domain.free >= need
            ]
        found: list[Candidate] = []
        for domain in demand.domains:
            if domain.free < demand.need:
                continue
            classes: Sequence[NodeClass] = domain.classes
            if constrained:
                classes = [one for one in classes if one.free and constraints.exclusion(one) is None]
            free = sum([len(one.free) for one in classes])
            slices = self._slices_in(domain, classes, free) if free >= demand.need else 0
            if slices:
                found.append(Candidate(domain, classes, free, slices))
        return found

    def choose(self, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return the domain for the next slice: tightest fit, then nearest.

        Returns all equal fits where the task needs each of them, since a domain that is used becomes the tightest.
        """
        demand = self._demand
        candidates = self._gathered(demand.rule.prefer, self._all_within(self._with_room_for_followers(candidates)))
        candidates = self._near(self._balanced(candidates))
        ties = self._tightest(candidates)
        unconstrained = demand.name in self._capacity.usage.unconstrained
        interchangeable = unconstrained and demand.spread_members is None and demand.rule.balance is None
        if len(ties) == 1 or (interchangeable and sum(one.slices for one in ties) <= self.missing):
            return ties
        # Racks with equal room are equally near, except to slices that they hold already.
        nearest = self._most_used_racks(ties)
        for level in self._levels:
            if len(nearest) > 1 and (level != RACK_LEVEL or not demand.rack_local):
                closeness = self._closeness(level, ties)
                distances = [closeness[one.domain.names.get(level)] for one in nearest]
                least = min(distances)
                nearest = [one for one, distance in zip(nearest, distances, strict=True) if distance == least]
        return nearest[:1]

    def add(self, candidate: Candidate) -> None:
        """Count a slice that was placed in a domain."""
        self.missing -= 1
        self._slices_at.update(candidate.domain.names.items())

    def _slices_in(self, domain: TopologyDomain, classes: Sequence[NodeClass], free: int) -> int:
        demand = self._demand
        if demand.spread_members is not None:
            domains = by_domain_name(classes, demand.spread_members)
            return max_spread_slices([sum(len(one.free) for one in own) for own in domains.values()], demand.need)
        has_spares = (demand.name, id(domain)) in self._capacity.shared_spares
        shared = 0 if has_spares else demand.rule.spares_per_rack
        return max(0, free - shared) // demand.need

    def _with_room_for_followers(self, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return the candidates with room for the groups that must be near, if any."""
        followers = [one for one in self._capacity.demands.values() if one.rule.near == self._demand.name]
        followers = [one for one in followers if one.missing]
        if not followers:
            return candidates
        fits = {id(one) for one in candidates}
        for level in {near_level(one.rule) for one in followers}:
            holds = self._holds_followers(level, [one for one in followers if near_level(one.rule) == level])
            fits &= {id(one) for one in candidates if any(holds(own) for own in one.classes)}
        return [one for one in candidates if id(one) in fits] or candidates

    def _holds_followers(self, level: TopologyLevel, followers: Sequence[Demand]) -> Callable[[NodeClass], bool]:
        """Return the test whether a class is in a domain that holds the followers too.

        The domain must hold a slice and its share of the followers' slices. Each group must fit on the nodes it can
        use, and all of them together on the nodes that any of them can use.
        """
        shares = [(one.use, -(-one.missing // max(1, self._demand.missing)) * one.need) for one in followers]
        any_use = sum({use for use, _ in shares} | {self._demand.use})
        wanted = [*shares, (any_use, self._demand.need + sum(share for _, share in shares))]
        free: dict[int, Counter[object]] = {use: Counter() for use, _ in wanted}
        for nodes in self._capacity.classes:
            domain = level.domain_of(nodes)
            for use, counts in free.items():
                if nodes.uses & use:
                    counts[domain] += len(nodes.free)
        fits = {domain for domain in free[any_use] if all(free[use][domain] >= share for use, share in wanted)}
        return lambda nodes: level.domain_of(nodes) in fits

    def _all_within(self, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return the candidates in one `all_within` domain that holds all slices."""
        level = self._demand.rule.all_within
        return candidates if level in (None, ANY_LEVEL, NODE_LEVEL) else self._gathered(level, candidates)

    def _gathered(self, level: str | None, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return the candidates in one domain of a level.

        That is the domain in use, or else the tightest one that holds all slices.
        """
        if level is None:
            return candidates
        closeness = self._closeness(level, candidates)
        best = min(closeness, key=lambda name: (closeness[name], natural(name or "")))
        return [one for one in candidates if one.domain.names.get(level) == best]

    def _balanced(self, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return the candidates in the least used of the fewest `balance` domains."""
        level = self._demand.rule.balance
        if level is None or self._demand.rule.slices == 1:
            return candidates
        room = self._room_by_name(level, candidates)
        have = {name: self._slices_at[level, name] for name in room}
        holds = {name: room[name] + have[name] for name in room}
        ranked = sorted(room, key=lambda name: (-holds[name], natural(name or "")))
        total = self.missing + sum(have.values())
        few = next((n for n in range(1, len(ranked)) if sum(holds[v] for v in ranked[:n]) >= total), len(ranked))
        able = [name for name in room if holds[name] >= -(-total // few)]
        able.sort(key=lambda name: (-have[name], room[name], natural(name or "")))
        chosen = able[:few] if len(able) >= few else ranked[:few]
        least = min(have[name] for name in chosen)
        return [one for one in candidates if (name := one.domain.names.get(level)) in chosen and have[name] == least]

    def _near(self, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return the candidates with the fewest slices per slice of the near group."""
        rule = self._demand.rule
        if rule.near is None:
            return candidates
        level, usage = near_level(rule), self._capacity.usage
        own, theirs = usage.slices_by_domain(self._demand.name, level), usage.slices_by_domain(rule.near, level)
        ratios = [
            min((own[domain] / theirs[domain] for one in each.classes if (domain := level.domain_of(one))), default=0.0)
            for each in candidates
        ]
        least = min(ratios)
        return [one for one, ratio in zip(candidates, ratios, strict=True) if ratio == least]

    def _tightest(self, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return the candidates with the least room, partly used ones first.

        For a group without GPUs, return those least useful to GPU jobs.
        """
        if self._demand.group.gpus == 0:
            order = [(one.domain.max_gpus, one.domain.unused, one.free) for one in candidates]
            first = min(order)
            return [one for one, own in zip(candidates, order, strict=True) if own == first]
        least = min([one.free for one in candidates])
        ties = [one for one in candidates if one.free == least]
        return [one for one in ties if not one.domain.unused] or ties

    def _most_used_racks(self, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return the candidates in the racks with the most slices of this group."""
        slices = [self._slices_at.get((RACK_LEVEL, one.domain.names.get(RACK_LEVEL)), 0) for one in candidates]
        most = max(slices)
        return [one for one, count in zip(candidates, slices, strict=True) if count == most] if most else candidates

    def _closeness(self, level: str, candidates: Sequence[Candidate]) -> dict[str | None, _Closeness]:
        """Return a sort key for each domain of a level.

        Most slices first, then named domains, then those with room for all missing slices, then the tightest.
        """
        missing = self.missing
        return {
            name: (-self._slices_at[level, name], name is None, room < missing, -room if room < missing else room)
            for name, room in self._room_by_name(level, candidates).items()
        }

    def _room_by_name(self, level: str, candidates: Sequence[Candidate]) -> Counter[str | None]:
        """Return how many slices fit in each domain of a level.

        Candidates in one `spread` domain count once.
        """
        room: Counter[str | None] = Counter()
        spread = self._demand.spread
        if spread is None:
            for one in candidates:
                room[one.domain.names.get(level)] += one.slices
            return room
        counted: set[tuple[str | None, str]] = set()
        for one in candidates:
            name, domains = one.domain.names.get(level), by_domain_name(one.classes, spread)
            if len(domains) == 1:
                counted.add((name, next(iter(domains))))
            else:
                sizes = [usable_nodes(classes, self._demand) for classes in domains.values()]
                room[name] += _most_slices(sizes, self._demand.need)
        room.update(name for name, _ in counted)
        return room


def _most_slices(sizes: Sequence[int], need: int) -> int:
    """Return an upper bound on the slices, if a domain serves one slice only."""
    return sum(1 for size in sizes if size >= need) + sum(size for size in sizes if size < need) // need
