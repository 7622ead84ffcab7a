"""Which node or link makes a slice slow: the next tests, by the results so far.

Pure: `next_step` starts from the beginning each time and takes the results that are there. It tests whole slices,
halves a slow one inside its NVLink domain until two or three nodes are left, and tests each of these with a partner
that is known to be good. Then it takes a node of each domain, several such rows at a time, and halves a slow group in
the same way. A slice whose halves are both fast has a slow link, which is found by halving one side and then the other.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from launcher.core.model.nodeset import NodeName, fold

ACROSS = 4
"""Groups of nodes that are tested across domains at first. With more, each group is smaller, and a slow one is halved
less often; four is the least of both, and three fast ones still agree on what is usual."""

PEERS = 3
"""Fewer slices than this do not show what is usual: then their halves are tested too."""

_LEAF = 3
"""A slow group of at most so many nodes is not halved further: each node is tested with a good partner."""

Group = tuple[NodeName, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a test on several nodes at once.

    `speed`: more is better; None where the check prints no number. `bad` are nodes that reported a failure, `unclear`
    those that could not tell.
    """

    speed: float | None = None
    bad: frozenset[NodeName] = frozenset()
    unclear: frozenset[NodeName] = frozenset()


Outcomes = Mapping[frozenset[NodeName], Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTest:
    """A test to run on these nodes at once, in rank order, and why."""

    nodes: Group
    reason: str


class FaultyPart(Enum):
    """What was found: a node, the link between two good nodes, nodes of which none could be singled out, or no answer."""

    NODE = "node"
    LINK = "link"
    UNCLEAR = "unclear"
    NO_ANSWER = "no-answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowPart:
    """A finding, and the tests that show it in words."""

    part: FaultyPart
    nodes: Group
    message: str


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


def next_step(slices: Slices, outcomes: Outcomes) -> BisectionStep:
    """Return the next tests, and what has been found so far."""
    silent = sorted({name for outcome in outcomes.values() for name in outcome.unclear})
    found = [SlowPart(part=FaultyPart.NO_ANSWER, nodes=(name,), message="the check cannot tell") for name in silent]
    parts = tuple(tuple(name for name in part if name not in set(silent)) for part in slices.parts)
    search = _Search(slices, outcomes, tuple(part for part in parts if len(part) > 1))
    found += search.run()
    return BisectionStep(tests=search.wanted_now(), found=tuple(found))


def quarter_best(speeds: Iterable[float]) -> float | None:
    """Return the speed that a quarter of all reaches or exceeds: what is usual while three quarters may be slow."""
    ordered = sorted(speeds, reverse=True)
    return ordered[len(ordered) // 4] if ordered else None


@dataclass(slots=True)
class _Context:
    """Tests of one shape: those inside one slice, or those across domains.

    `usual` is the speed of a good group, `nodes` all nodes of the shape.
    """

    nodes: Group
    usual: float | None
    across: bool = False
    found: list[SlowPart] = field(default_factory=list)


class _Search:
    """One pass over the results; `wanted` collects tests whose results are missing."""

    def __init__(self, slices: Slices, outcomes: Outcomes, parts: tuple[Group, ...]) -> None:
        self._slices, self._outcomes, self._parts = slices, outcomes, parts
        self._wanted: dict[frozenset[NodeName], GroupTest] = {}

    def wanted_now(self) -> tuple[GroupTest, ...]:
        """Return the missing tests that share no node; the others follow in the next step."""
        chosen: list[GroupTest] = []
        used: set[NodeName] = set()
        for test in self._wanted.values():
            if used.isdisjoint(test.nodes):
                chosen.append(test)
                used.update(test.nodes)
        return tuple(chosen)

    def run(self) -> list[SlowPart]:
        """Return what is found so far."""
        usual = self._usual_of_parts()
        if usual is _PENDING:
            return []
        contexts = [_Context(nodes=part, usual=usual) for part in self._parts]
        done = [self._search(context, part) for context, part in zip(contexts, self._parts, strict=True)]
        found = [one for context in contexts for one in context.found]
        if all(done):
            found += self._across(found)
        return found

    def _usual_of_parts(self) -> float | None:
        """Return the speed of a good slice; `_PENDING` while tests are missing."""
        results = [self._outcome(part, "slice") for part in self._parts]
        if None in results:
            return _PENDING
        if self._slices.usual is not None:
            return self._slices.usual
        if len(self._parts) < PEERS:
            halves = [half for part in self._parts if len(part) > _LEAF for half in _halves(part)]
            results += [self._outcome(half, "half, to know what is usual") for half in halves]
            if None in results:
                return _PENDING
        return quarter_best(_speeds(results))

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
        groups = [tuple(name for row in rows[low:high] for name in row) for low, high in zip(cuts, cuts[1:], strict=False)]
        results = [self._outcome(group, f"one node of each domain, {count} groups") for group in groups]
        if None in results:
            return []
        usual = quarter_best(_speeds(results))
        nodes = tuple(name for group in groups for name in group)
        contexts = [_Context(nodes=nodes, usual=usual, across=True) for _ in groups]
        for context, group in zip(contexts, groups, strict=True):
            self._search(context, group)
        return [one for context in contexts for one in context.found]

    def _search(self, context: _Context, group: Group) -> bool:
        """Find what is slow in a group until the rest of it is fast; return whether that is done."""
        rest = group
        while len(rest) > 1:
            fast = self._fast(context, rest, f"without {fold(_culprits(context.found))}")
            if fast is None:
                return False
            if fast:
                return True
            found = self._locate(context, rest)
            if found is None:
                return False
            context.found += [one for one in found if one not in context.found]
            removed = _culprits(found)
            if not removed:
                return True
            rest = tuple(name for name in rest if name not in removed)
        return True

    def _locate(self, context: _Context, group: Group) -> list[SlowPart] | None:
        """Return what makes a slow group slow; None while tests are missing."""
        blamed = tuple(name for name in group if name in self._outcomes[frozenset(group)].bad)
        if blamed and 2 * len(blamed) <= len(group) and len(blamed) <= _LEAF:
            return self._single_out(context, blamed)  # most of the group says that these have failed
        if len(group) <= _LEAF:
            return self._single_out(context, group)
        first, second = _halves(group)
        fast = [self._fast(context, half, f"half of {_short(group)}") for half in (first, second)]
        if None in fast:
            return None
        if all(fast):
            return self._link(context, first, second)
        found: list[SlowPart] = []
        pending = False
        for half, well in zip((first, second), fast, strict=True):
            if not well:
                part = self._locate(context, half)
                pending |= part is None
                found += part or []
        return None if pending else found

    def _link(self, context: _Context, first: Group, second: Group) -> list[SlowPart] | None:
        """Return the slow link between two fast groups; None while tests are missing."""
        for _ in range(2):
            while len(first) > 1:
                half, other = _halves(first)
                fast = self._fast(context, (*half, *second), f"link between {_short(first)} and {_short(second)}")
                if fast is None:
                    return None
                first = other if fast else half
            first, second = second, first
        pair = (first[0], second[0])
        fast = self._fast(context, pair, "the two ends of a slow link")
        if fast is None:
            return None
        if fast:
            return [_unclear(pair, "slow in a larger group only")]
        return self._single_out(context, pair)

    def _single_out(self, context: _Context, group: Group) -> list[SlowPart] | None:
        """Test each node of a slow group with a partner that is known to be good."""
        pairs = self._with_partners(context, group)
        if pairs is None:
            return [_unclear(group, "no node is known to be good, to compare with")]
        fast = [self._fast(context, pair, f"{pair[0]} with the good node {pair[1]}") for pair in pairs]
        if None in fast:
            return None
        if not any(fast) and (control := self._control(context, group, pairs)) is not None:
            outcome = self._outcome(control, "two good nodes, to compare with")
            if outcome is None:
                return None
            same = _Context(nodes=context.nodes, usual=outcome.speed, across=context.across)
            fast = [self._fast(same, pair, "") for pair in pairs]
        slow = [pair for pair, well in zip(pairs, fast, strict=True) if not well]
        if slow:
            return [
                SlowPart(part=FaultyPart.NODE, nodes=(node,), message=self._compared(context, node, partner))
                for node, partner in slow
            ]
        return self._slow_pair(context, group)

    def _slow_pair(self, context: _Context, group: Group) -> list[SlowPart] | None:
        """Return the link of a slow group whose nodes are all good."""
        pairs = [(one, other) for at, one in enumerate(group) for other in group[at + 1 :]]
        for pair in pairs:
            fast = self._fast(context, pair, "link between two good nodes")
            if fast is None:
                return None
            if not fast:
                message = "each is good with another partner; the link between them is slow"
                return [SlowPart(part=FaultyPart.LINK, nodes=pair, message=message)]
        return [_unclear(group, "slow together, but each two of them are good")]

    def _with_partners(self, context: _Context, group: Group) -> list[tuple[NodeName, NodeName]] | None:
        """Return each node with a good one of its domain, or else of another; None where there are too few."""
        good = self._good(context, group)
        pairs: list[tuple[NodeName, NodeName]] = []
        for node in group:
            own = self._slices.domains[node]
            apart = [name for name in good if (self._slices.domains[name] != own) is context.across] or good
            if not apart:
                return None
            good.remove(apart[0])
            pairs.append((node, apart[0]))
        return pairs

    def _good(self, context: _Context, group: Group) -> list[NodeName]:
        """Return the nodes of fast groups, those of this shape first."""
        found: dict[NodeName, None] = {}
        nodes = set(context.nodes)
        for ours in (True, False):
            for names, outcome in self._outcomes.items():
                if (names <= nodes) is not ours:
                    continue
                if self._is_fast(context, outcome):
                    found.update(dict.fromkeys(sorted(names)))
                elif ours and 0 < 2 * len(outcome.bad) <= len(names):
                    found.update(dict.fromkeys(sorted(names - outcome.bad)))
        bad = {name for outcome in self._outcomes.values() for name in outcome.bad}
        return [name for name in found if name not in group and name not in bad and name not in _culprits(context.found)]

    def _control(
        self, context: _Context, group: Group, pairs: Sequence[tuple[NodeName, NodeName]]
    ) -> tuple[NodeName, NodeName] | None:
        """Return two good nodes that are as far apart as the pairs; None where there are none."""
        partners = [partner for _, partner in pairs]
        domains = self._slices.domains
        apart = domains[pairs[0][0]] != domains[pairs[0][1]]
        pool = [*partners, *(name for name in self._good(context, group) if name not in partners)]
        return next(
            ((one, two) for one in pool for two in pool if one != two and (domains[one] != domains[two]) is apart), None
        )

    def _compared(self, context: _Context, node: NodeName, partner: NodeName) -> str:
        outcome = self._outcomes[frozenset((node, partner))]
        if outcome.speed is None or context.usual is None:
            return f"fails with the good node {partner}"
        return f"{outcome.speed:.4g} with the good node {partner}, {context.usual:.4g} is usual"

    def _fast(self, context: _Context, group: Group, reason: str) -> bool | None:
        outcome = self._outcome(group, reason)
        return None if outcome is None else self._is_fast(context, outcome)

    def _is_fast(self, context: _Context, outcome: Outcome) -> bool:
        if outcome.bad or outcome.unclear:
            return False
        if outcome.speed is None or context.usual is None:
            return True
        return outcome.speed * self._slices.slower_by >= context.usual

    def _outcome(self, group: Group, reason: str) -> Outcome | None:
        key = frozenset(group)
        if key not in self._outcomes:
            self._wanted.setdefault(key, GroupTest(nodes=group, reason=reason))
            return None
        return self._outcomes[key]


_PENDING = -1.0


def _halves(group: Group) -> tuple[Group, Group]:
    middle = len(group) // 2
    return group[:middle], group[middle:]


def _speeds(outcomes: Iterable[Outcome | None]) -> list[float]:
    return [one.speed for one in outcomes if one is not None and one.speed is not None and not one.bad]


def _culprits(found: Iterable[SlowPart]) -> Group:
    """Return the nodes that a slice is tested without: of a slow link, one end is enough."""
    return tuple(
        name
        for one in found
        for name in (one.nodes[:1] if one.part is FaultyPart.LINK else one.nodes)
        if one.part is not FaultyPart.UNCLEAR
    )


def _unclear(group: Group, message: str) -> SlowPart:
    return SlowPart(part=FaultyPart.UNCLEAR, nodes=group, message=message)


def _short(group: Group) -> str:
    return fold(group)
