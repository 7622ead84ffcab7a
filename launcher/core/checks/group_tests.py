"""Tests on groups of nodes: their results, and those that are still missing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from launcher.core.model.nodeset import NodeName

Group = tuple[NodeName, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResult:
    """The result of a test on several nodes at once.

    `speed`: more is better; None where the check prints no number. `bad` are nodes that reported a failure, `unclear`
    those that could not tell.
    """

    speed: float | None = None
    bad: frozenset[NodeName] = frozenset()
    unclear: frozenset[NodeName] = frozenset()


GroupResults = Mapping[frozenset[NodeName], GroupResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTest:
    """A test to run on these nodes at once, in rank order, and why."""

    nodes: Group
    reason: str


class FaultyPart(Enum):
    """What was found.

    A node, the link between two good nodes, nodes of which none could be singled out, or a node that cannot tell.
    """

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


@dataclass(slots=True)
class GroupShape:
    """Tests of one shape: those inside one slice, or those across domains.

    `usual` is the speed of a good group, `nodes` all nodes of the shape.
    """

    nodes: Group
    usual: float | None
    across: bool = False
    found: list[SlowPart] = field(default_factory=list)


class KnownTests:
    """The results of tests; those that are asked for in vain are `wanted`."""

    def __init__(self, outcomes: GroupResults, slower_by: float) -> None:
        self.outcomes = outcomes
        self._slower_by = slower_by
        self._wanted: dict[frozenset[NodeName], GroupTest] = {}

    def wanted(self) -> tuple[GroupTest, ...]:
        """Return the missing tests that share no node; the others follow in the next step."""
        chosen: list[GroupTest] = []
        used: set[NodeName] = set()
        for test in self._wanted.values():
            if used.isdisjoint(test.nodes):
                chosen.append(test)
                used.update(test.nodes)
        return tuple(chosen)

    def outcome(self, group: Group, reason: str) -> GroupResult | None:
        """Return the result of a test on a group; None while it is missing."""
        key = frozenset(group)
        if key not in self.outcomes:
            self._wanted.setdefault(key, GroupTest(nodes=group, reason=reason))
            return None
        return self.outcomes[key]

    def fast(self, shape: GroupShape, group: Group, reason: str) -> bool | None:
        """Return whether a group is as fast as is usual; None while its test is missing."""
        outcome = self.outcome(group, reason)
        return None if outcome is None else self.is_fast(shape, outcome)

    def is_fast(self, shape: GroupShape, outcome: GroupResult) -> bool:
        """Whether a result is as fast as is usual in tests of a shape."""
        if outcome.bad or outcome.unclear:
            return False
        if outcome.speed is None or shape.usual is None:
            return True
        return outcome.speed * self._slower_by >= shape.usual


def halves(group: Group) -> tuple[Group, Group]:
    """Return the two halves of a group, in order."""
    middle = len(group) // 2
    return group[:middle], group[middle:]


def culprits(found: Iterable[SlowPart]) -> Group:
    """Return the nodes that a group is tested without: of a slow link, one end is enough."""
    return tuple(
        name
        for one in found
        for name in (one.nodes[:1] if one.part is FaultyPart.LINK else one.nodes)
        if one.part is not FaultyPart.UNCLEAR
    )


def unclear(group: Group, message: str) -> SlowPart:
    """Return that no node of a slow group could be singled out."""
    return SlowPart(part=FaultyPart.UNCLEAR, nodes=group, message=message)
