"""Which nodes or which link make a group slow, once the group is known to be slow."""

from collections.abc import Mapping, Sequence

from launcher.core.checks.group_tests import (
    FaultyPart,
    Group,
    GroupResult,
    GroupShape,
    KnownTests,
    SlowPart,
    culprits,
    halves,
    unclear,
)
from launcher.core.model.nodeset import NodeName, fold

LEAF = 3
"""A slow group of at most so many nodes is not halved further: each node is tested with a good partner."""


class SlowGroup:
    """The search in groups that are slow: halves first, then each node with a partner that is known to be good.

    `domains` has the NVLink domain of each node.
    """

    def __init__(self, tests: KnownTests, domains: Mapping[NodeName, str]) -> None:
        self._tests, self._domains = tests, domains

    def locate(self, shape: GroupShape, group: Group) -> list[SlowPart] | None:
        """Return what makes a slow group slow; None while tests are missing."""
        blamed = _blamed(frozenset(group), self._tests.outcomes[frozenset(group)])
        if 0 < len(blamed) <= LEAF:
            return self._single_out(shape, tuple(name for name in group if name in blamed))
        if len(group) <= LEAF:
            return self._single_out(shape, group)
        first, second = halves(group)
        fast = [self._tests.fast(shape, half, f"half of {fold(group)}") for half in (first, second)]
        if None in fast:
            return None
        if all(fast):
            return self._link(shape, first, second)
        found: list[SlowPart] = []
        pending = False
        for half, well in zip((first, second), fast, strict=True):
            if not well:
                part = self.locate(shape, half)
                pending |= part is None
                found += part or []
        return None if pending else found

    def _link(self, shape: GroupShape, first: Group, second: Group) -> list[SlowPart] | None:
        """Return the slow link between two fast groups; None while tests are missing."""
        for _ in range(2):
            while len(first) > 1:
                half, other = halves(first)
                fast = self._tests.fast(shape, (*half, *second), f"link between {fold(first)} and {fold(second)}")
                if fast is None:
                    return None
                first = other if fast else half
            first, second = second, first
        pair = (first[0], second[0])
        fast = self._tests.fast(shape, pair, "the two ends of a slow link")
        if fast is None:
            return None
        if fast:
            return [unclear(pair, "slow in a larger group only")]
        return self._single_out(shape, pair)

    def _single_out(self, shape: GroupShape, group: Group) -> list[SlowPart] | None:
        """Test each node of a slow group with a partner that is known to be good."""
        pairs = self._with_partners(shape, group)
        if pairs is None:
            return [unclear(group, "no node is known to be good, to compare with")]
        fast = [self._tests.fast(shape, pair, f"{pair[0]} with the good node {pair[1]}") for pair in pairs]
        if None in fast:
            return None
        if not any(fast) and (control := self._control(shape, group, pairs)) is not None:
            outcome = self._tests.outcome(control, "two good nodes, to compare with")
            if outcome is None:
                return None
            small = GroupShape(nodes=shape.nodes, usual=outcome.speed, across=shape.across)
            if self._tests.fast(small, group, "as small as the pairs"):
                return []  # groups as small as this one are slower by nature
            fast = [self._tests.fast(small, pair, "") for pair in pairs]
        slow = [pair for pair, well in zip(pairs, fast, strict=True) if not well]
        if slow:
            return [
                SlowPart(part=FaultyPart.NODE, nodes=(node,), message=self._compared(shape, node, partner))
                for node, partner in slow
            ]
        return self._slow_pair(shape, group)

    def _slow_pair(self, shape: GroupShape, group: Group) -> list[SlowPart] | None:
        """Return the link of a slow group whose nodes are all good."""
        pairs = [(one, other) for at, one in enumerate(group) for other in group[at + 1 :]]
        for pair in pairs:
            fast = self._tests.fast(shape, pair, "link between two good nodes")
            if fast is None:
                return None
            if not fast:
                message = "each is good with another partner; the link between them is slow"
                return [SlowPart(part=FaultyPart.LINK, nodes=pair, message=message)]
        return [unclear(group, "slow together, but each two of them are good")]

    def _with_partners(self, shape: GroupShape, group: Group) -> list[tuple[NodeName, NodeName]] | None:
        """Return each node with a good one of its domain, or else of another; None where there are too few.

        A pair that was tested before is taken again.
        """
        good = self._good(shape, group)
        pairs: list[tuple[NodeName, NodeName]] = []
        for node in group:
            tested = [name for name in good if frozenset((node, name)) in self._tests.outcomes]
            apart = [name for name in good if (self._domains[name] != self._domains[node]) is shape.across]
            chosen = next(iter([*tested, *apart, *good]), None)
            if chosen is None:
                return None
            good.remove(chosen)
            pairs.append((node, chosen))
        return pairs

    def _good(self, shape: GroupShape, group: Group) -> list[NodeName]:
        """Return the nodes of fast groups, those of this shape and of large groups first."""
        found: dict[NodeName, None] = {}
        nodes, blamed = frozenset(shape.nodes), set(culprits(shape.found))
        results = sorted(
            self._tests.outcomes.items(), key=lambda one: (not one[0] <= nodes, -len(one[0]), sorted(one[0]))
        )
        for names, outcome in results:
            own = _blamed(names, outcome)
            blamed |= own
            if self._tests.is_fast(shape, outcome) or (own and names <= nodes):
                found.update(dict.fromkeys(sorted(names)))
        return [name for name in found if name not in group and name not in blamed]

    def _control(
        self, shape: GroupShape, group: Group, pairs: Sequence[tuple[NodeName, NodeName]]
    ) -> tuple[NodeName, NodeName] | None:
        """Return two good nodes that are as far apart as the pairs; None where there are none."""
        partners = [partner for _, partner in pairs]
        domains = self._domains
        apart = domains[pairs[0][0]] != domains[pairs[0][1]]
        pool = [*partners, *(name for name in self._good(shape, group) if name not in partners)]
        return next(
            ((one, two) for one in pool for two in pool if one != two and (domains[one] != domains[two]) is apart), None
        )

    def _compared(self, shape: GroupShape, node: NodeName, partner: NodeName) -> str:
        outcome = self._tests.outcomes[frozenset((node, partner))]
        if outcome.speed is None or shape.usual is None:
            return f"fails with the good node {partner}"
        return f"{outcome.speed:.4g} with the good node {partner}, {shape.usual:.4g} is usual"


def _blamed(names: frozenset[NodeName], outcome: GroupResult) -> frozenset[NodeName]:
    """Return the nodes of a group that report a failure while most of the group does not."""
    return outcome.bad if 2 * len(outcome.bad) <= len(names) else frozenset()
