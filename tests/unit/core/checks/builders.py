"""Imaginary slices: what is slow decides each measurement."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from launcher.core.checks.bisection import BisectionStep, Slices, next_step
from launcher.core.checks.group_tests import Group, GroupResult
from launcher.core.model.nodeset import NodeName

GOOD = 100.0


def slices(racks: int, trays: int, *, size: int = 0, usual: float | None = None) -> Slices:
    """Racks of equal nodes, in slices of `size` nodes (0: whole racks)."""
    names = [[NodeName(f"r{rack}-n{tray:02d}") for tray in range(1, trays + 1)] for rack in range(1, racks + 1)]
    step = size or trays
    parts = tuple(tuple(rack[at : at + step]) for rack in names for at in range(0, trays, step))
    domains = {name: name.partition("-")[0] for rack in names for name in rack}
    return Slices(parts=parts, domains=domains, slower_by=1.25, usual=usual)


@dataclass
class World:
    """What is slow, broken or without the command; how a group measures."""

    slow: Mapping[str, float] = field(default_factory=dict)
    links: Mapping[tuple[str, str], float] = field(default_factory=dict)
    outside: Mapping[str, float] = field(default_factory=dict)
    broken: tuple[str, ...] = ()
    alone: bool = True
    """Whether only the broken node reports the failure; else all nodes of its group do."""
    without: tuple[str, ...] = ()
    numbers: bool = True
    noise: float = 0.0
    small: float = 1.0
    """The speed of groups of two or three, as a part of the usual."""
    draw: random.Random = field(default_factory=lambda: random.Random(1))

    def measure(self, given: Slices, group: Group) -> GroupResult:
        if silent := frozenset(name for name in group if name in self.without):
            return GroupResult(unclear=silent)
        if bad := frozenset(name for name in group if name in self.broken):
            return GroupResult(bad=bad if self.alone else frozenset(group))
        across = len({given.domains[name] for name in group}) > 1
        parts = [self.slow.get(name, 1.0) for name in group]
        parts += [self.outside.get(name, 1.0) for name in group if across]
        parts += [factor for pair, factor in self.links.items() if set(pair) <= set(group)]
        whole = GOOD * (0.5 if across else 1.0) * (self.small if len(group) < 4 else 1.0)
        return GroupResult(speed=whole * min(parts) * self.draw.gauss(1.0, self.noise) if self.numbers else None)


@dataclass
class Searched:
    """A finished search: its last step, all results, and how many rounds it took."""

    step: BisectionStep
    outcomes: dict[frozenset[NodeName], GroupResult]
    rounds: int

    @property
    def found(self) -> list[tuple[str, tuple[NodeName, ...]]]:
        return sorted((one.part.value, one.nodes) for one in self.step.found)


def search(given: Slices, world: World) -> Searched:
    """Run all tests that are asked for; no two of one step share a node, and none is asked for twice."""
    outcomes: dict[frozenset[NodeName], GroupResult] = {}
    for rounds in range(60):
        step = next_step(given, outcomes)
        if not step.tests:
            return Searched(step, outcomes, rounds)
        used = [name for test in step.tests for name in test.nodes]
        assert len(used) == len(set(used))
        for test in step.tests:
            assert frozenset(test.nodes) not in outcomes
            assert test.reason
            outcomes[frozenset(test.nodes)] = world.measure(given, test.nodes)
    raise AssertionError("the search does not end")
