"""Which node or link makes a slice slow: the next tests, by the results so far.

Pure: `next_step` starts from the beginning each time and takes the results that are there. It tests whole slices,
halves a slow one inside its NVLink domain until two or three nodes are left, and tests each of these with a partner
that is known to be good. Then it takes a node of each domain, several such rows at a time, and halves a slow group in
the same way. A slice whose halves are both fast has a slow link, which is found by halving one side and then the other.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from launcher.core.checks.group_tests import (
    FaultyPart,
    Group,
    GroupResult,
    GroupResults,
    GroupShape,
    GroupTest,
    KnownTests,
    SlowPart,
    culprits,
    halves,
    unclear,
)
from launcher.core.checks.slow_group import LEAF, SlowGroup
from launcher.core.model.nodeset import NodeName, fold

ACROSS = 4
"""Groups of nodes that are tested across domains at first. With more, each group is smaller, and a slow one is halved
less often; four is the least of both, and three fast ones still agree on what is usual."""

PEERS = 3
"""Fewer slices than this do not show what is usual: then their halves are tested too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """What is tested: slices of at least two nodes, each within one domain.

    `domains` has the domain of each node. `usual` is the speed of a good slice by earlier results, None if unknown.
    """

    parts: tuple[Group, ...]
    domains: Mapping[NodeName, str]
    slower_by: float
    usual: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectionStep:
    """The tests to run now, all at the same time, since no two share a node; none once the search is over."""

    tests: tuple[GroupTest, ...]
    found: tuple[SlowPart, ...]


def next_step(slices: Slices, outcomes: GroupResults) -> BisectionStep:
    """Return the next tests, and what has been found so far."""
    silent = sorted({name for outcome in outcomes.values() for name in outcome.unclear})
    found = [SlowPart(part=FaultyPart.NO_ANSWER, nodes=(name,), message="the check cannot tell") for name in silent]
    parts = tuple(tuple(name for name in part if name not in set(silent)) for part in slices.parts)
    search = _Search(slices, outcomes, tuple(part for part in parts if len(part) > 1))
    found += search.run()
    return BisectionStep(tests=search.tests.wanted(), found=tuple(found))


def cut_slices(domains: Mapping[str, Sequence[NodeName]], size: int) -> tuple[Group, ...]:
    """Return slices of `size` nodes of each domain, the last one of a domain smaller.

    Where one node would be left over, the slice before it has one less. A domain of one node has no slice.
    """
    found: list[Group] = []
    for names in domains.values():
        rest = list(names)
        while len(rest) > 1:
            left = len(rest) - size
            take = size - 1 if left == 1 and size > 2 else len(rest) if left == 1 else size
            found.append(tuple(rest[:take]))
            rest = rest[take:]
    return tuple(found)


def quarter_best(speeds: Iterable[float]) -> float | None:
    """Return the speed that a quarter of all reaches or exceeds: what is usual while three quarters may be slow."""
    ordered = sorted(speeds, reverse=True)
    return ordered[len(ordered) // 4] if ordered else None


class _Search:
    """One pass over the results, from the beginning."""

    def __init__(self, slices: Slices, outcomes: GroupResults, parts: tuple[Group, ...]) -> None:
        self._slices, self._parts = slices, parts
        self.tests = KnownTests(outcomes, slices.slower_by)
        self._slow = SlowGroup(self.tests, slices.domains)

    def run(self) -> list[SlowPart]:
        """Return what is found so far."""
        usual = self._usual_of_parts()
        if usual is _PENDING:
            return []
        shapes = [GroupShape(nodes=part, usual=usual) for part in self._parts]
        done = [self._search(shape, part) for shape, part in zip(shapes, self._parts, strict=True)]
        found = [one for shape in shapes for one in shape.found]
        if all(done):
            found += self._across(found)
        return found

    def _usual_of_parts(self) -> float | None:
        """Return the speed of a good slice; `_PENDING` while tests are missing."""
        results = [self.tests.outcome(part, "slice") for part in self._parts]
        if None in results:
            return _PENDING
        if self._slices.usual is not None:
            return self._slices.usual
        groups = list(self._parts)
        if len(self._parts) < PEERS:
            more = [half for part in self._parts if len(part) > LEAF for half in halves(part)]
            results += [self.tests.outcome(half, "half, to know what is usual") for half in more]
            groups += more
            if None in results:
                return _PENDING
        largest = max(map(len, groups), default=0)  # the few nodes that a rack has left may differ by nature
        alike = [one for one, group in zip(results, groups, strict=True) if 3 * len(group) >= largest]
        return quarter_best(_speeds(alike))

    def _across(self, found: Sequence[SlowPart]) -> list[SlowPart]:
        """Search the good nodes of all domains, in rows of one node of each domain."""
        left_out = {name for one in found for name in one.nodes}
        columns: dict[str, list[NodeName]] = {}
        for part in self._parts:
            for name in part:
                if name not in left_out:
                    columns.setdefault(self._slices.domains[name], []).append(name)
        height = max(map(len, columns.values()), default=0)
        rows = [tuple(own[at] for own in columns.values() if at < len(own)) for at in range(height)]
        rows = [row for row in rows if len(row) > 1]
        count = min(ACROSS, len(rows))
        if count < 2:
            return []
        cuts = [len(rows) * at // count for at in range(count + 1)]
        groups = [tuple(name for row in rows[low:high] for name in row) for low, high in itertools.pairwise(cuts)]
        results = [self.tests.outcome(group, f"one node of each domain, {count} groups") for group in groups]
        if None in results:
            return []
        usual = quarter_best(_speeds(results))
        nodes = tuple(name for group in groups for name in group)
        shapes = [GroupShape(nodes=nodes, usual=usual, across=True) for _ in groups]
        for shape, group in zip(shapes, groups, strict=True):
            self._search(shape, group)
        return [one for shape in shapes for one in shape.found]

    def _search(self, shape: GroupShape, group: Group) -> bool:
        """Find what is slow in a group until the rest of it is fast; return whether that is done."""
        rest = group
        while len(rest) > 1:
            fast = self.tests.fast(shape, rest, f"without {fold(culprits(shape.found))}")
            if fast is None:
                return False
            if fast:
                return True
            found = self._slow.locate(shape, rest)
            if found is None:
                return False
            shape.found += found or [unclear(rest, "slow, although none of its parts is")]
            removed = culprits(found)
            if not removed:
                return True
            rest = tuple(name for name in rest if name not in removed)
        return True


_PENDING = -1.0


def _speeds(outcomes: Iterable[GroupResult | None]) -> list[float]:
    return [one.speed for one in outcomes if one is not None and one.speed is not None and not one.bad]
