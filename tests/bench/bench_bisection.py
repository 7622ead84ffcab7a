"""How many tests `nvlaunch check` needs to find what is slow among 232 nodes of 13 racks.

    python tests/bench/bench_bisection.py [DRAWS]

A public figure for comparison: NVIDIA's Cluster Readiness Engine needs 22 to 57 tests to find one bad node of 232, 28
where all are good, against 26,796 pairs. `rounds` are tests that run at the same time.
"""

import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass

from launcher.core.checks.bisection import Slices, next_step
from launcher.core.checks.group_tests import FaultyPart, Group, GroupResult
from launcher.core.model.nodeset import NodeName

NODES = 232
TRAYS = 18
NOISE = 0.03
"""The standard deviation of a measurement, as a part of it."""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What is slow, and by how much; `outside` only in tests across domains."""

    nodes: dict[NodeName, float]
    links: dict[frozenset[NodeName], float]
    outside: dict[NodeName, float]


@dataclass(frozen=True, kw_only=True)
class Found:
    """Whether the search named what is slow and nothing else, and what it cost."""

    right: bool
    tests: int
    rounds: int


def fleet() -> Slices:
    """Return 13 domains of 18 nodes, the last smaller."""
    names = [NodeName(f"r{at // TRAYS + 1:02d}-n{at % TRAYS + 1:02d}") for at in range(NODES)]
    parts = tuple(tuple(names[at : at + TRAYS]) for at in range(0, NODES, TRAYS))
    return Slices(parts=parts, domains={name: name[:3] for name in names}, slower_by=1.25)


def search(slices: Slices, truth: Truth, draw: random.Random) -> Found:
    """Search with measurements of a few percent of noise."""
    outcomes: dict[frozenset[NodeName], GroupResult] = {}
    rounds = 0
    while (step := next_step(slices, outcomes)).tests:
        rounds += 1
        for test in step.tests:
            outcomes[frozenset(test.nodes)] = GroupResult(
                speed=_speed(slices, test.nodes, truth) * draw.gauss(1.0, NOISE)
            )
    nodes = {one.nodes[0] for one in step.found if one.part is FaultyPart.NODE}
    links = {frozenset(one.nodes) for one in step.found if one.part is FaultyPart.LINK}
    right = (
        nodes == {*truth.nodes, *truth.outside}
        and links == set(truth.links)
        and len(step.found) == len(nodes) + len(links)
    )
    return Found(right=right, tests=len(outcomes), rounds=rounds)


def _speed(slices: Slices, group: Group, truth: Truth) -> float:
    """Return what an all-reduce of a group reaches: its slowest part decides."""
    across = len({slices.domains[name] for name in group}) > 1
    slow = [truth.nodes.get(name, 1.0) for name in group]
    slow += [truth.outside.get(name, 1.0) for name in group if across]
    slow += [factor for pair, factor in truth.links.items() if pair <= set(group)]
    return (400.0 if across else 840.0) * min(slow) * (1.0 - 0.05 * (len(group) < 4))


def _some(names: list[NodeName], count: int, draw: random.Random) -> dict[NodeName, float]:
    return {name: draw.uniform(0.3, 0.7) for name in draw.sample(names, count)}


def _pair(slices: Slices, draw: random.Random, *, across: bool) -> frozenset[NodeName]:
    if not across:
        return frozenset(draw.sample(draw.choice(slices.parts), 2))
    return frozenset(draw.choice(part) for part in draw.sample(slices.parts, 2))


def _truths(slices: Slices) -> dict[str, Callable[[random.Random], Truth]]:
    names = [name for part in slices.parts for name in part]

    def truth(nodes: int = 0, outside: int = 0, draw: random.Random | None = None) -> Truth:
        assert draw is not None
        return Truth(nodes=_some(names, nodes, draw), links={}, outside=_some(names, outside, draw))

    def link(draw: random.Random) -> Truth:
        return Truth(nodes={}, links={_pair(slices, draw, across=False): draw.uniform(0.3, 0.7)}, outside={})

    return {
        "nothing slow": lambda draw: truth(draw=draw),
        "one slow node": lambda draw: truth(1, draw=draw),
        "two slow nodes": lambda draw: truth(2, draw=draw),
        "one slow link in a rack": link,
        "one node slow across racks only": lambda draw: truth(0, 1, draw=draw),
    }


def measure(draws: int, seed: int = 1) -> dict[str, list[Found]]:
    """Return the searches of each situation."""
    slices = fleet()
    found: dict[str, list[Found]] = {}
    for name, make in _truths(slices).items():
        draw = random.Random(f"{seed} {name}")
        found[name] = [search(slices, make(draw), draw) for _ in range(draws)]
    return found


def p95(numbers: list[int]) -> int:
    """Return the number that 95 % do not exceed."""
    return sorted(numbers)[max(0, -(-len(numbers) * 95 // 100) - 1)]


def main(draws: int) -> None:
    """Print the table."""
    print(f"{'232 nodes, 13 racks':34} {'found':>8} {'tests median':>13} {'p95':>5} {'rounds median':>14} {'p95':>5}")
    for name, found in measure(draws).items():
        tests, rounds = [one.tests for one in found], [one.rounds for one in found]
        right = f"{sum(one.right for one in found)}/{draws}"
        print(
            f"{name:34} {right:>8} {statistics.median(tests):13.0f} {p95(tests):5} {statistics.median(rounds):14.0f} "
            f"{p95(rounds):5}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
