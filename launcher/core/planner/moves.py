"""The problem of defragmentation in counts: slices that may move between pools of nodes, and room that is wanted.

A pool is all nodes of one NVLink domain that are alike. A slice moves as a whole. Moving any slices of a gang restarts
the gang once, and all of them move in that one step.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

MAX_ORDERS = 5_000
"""The most partial orders of steps that are tried before an assignment is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovableSlice:
    """A slice that may move: its nodes, its pool, its gang, and the pools that its rules allow (None: every pool)."""

    size: int
    pool: int
    gang: int
    allowed: frozenset[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedSlice:
    """Room that is wanted: its nodes, and the pools where it is of use (None: every pool)."""

    size: int
    allowed: frozenset[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveProblem:
    """Free nodes of each pool, the slices that may move, what a restart of each gang costs, and the room wanted."""

    free: tuple[int, ...]
    slices: tuple[MovableSlice, ...]
    gang_costs: tuple[float, ...]
    wanted: tuple[WantedSlice, ...]

    def members(self) -> tuple[tuple[int, ...], ...]:
        """Return the slices of each gang."""
        found: list[list[int]] = [[] for _ in self.gang_costs]
        for at, part in enumerate(self.slices):
            found[part.gang].append(at)
        return tuple(map(tuple, found))

    def residents(self) -> tuple[tuple[int, ...], ...]:
        """Return the slices of each pool."""
        found: list[list[int]] = [[] for _ in self.free]
        for at, part in enumerate(self.slices):
            found[part.pool].append(at)
        return tuple(map(tuple, found))

    def cost(self, moved: Iterable[int]) -> float:
        """Return what it costs to move these slices: a restart of each of their gangs."""
        return sum((self.gang_costs[gang] for gang in {self.slices[at].gang for at in moved}), 0.0)


def emptied(problem: MoveProblem) -> list[int]:
    """Return the free nodes of each pool with all its movable slices gone."""
    room = list(problem.free)
    for part in problem.slices:
        room[part.pool] += part.size
    return room


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The new pool of each slice that moves, and the pool of each wanted slice."""

    moved: Mapping[int, int]
    wanted: tuple[int, ...]


def order_steps(problem: MoveProblem, assignment: Assignment, first: Sequence[int] = ()) -> tuple[int, ...] | None:
    """Return the gangs of an assignment in an order in which every step has room; None where no order was found.

    A step needs its new nodes free before it begins, those that its own gang gives up not counted: they are reserved
    before anything stops. `first` is an order to try first. With few gangs every order is tried.
    """
    gangs: dict[int, list[int]] = {}
    for at in assignment.moved:
        gangs.setdefault(problem.slices[at].gang, []).append(at)
    wish = {gang: rank for rank, gang in enumerate(first)}
    search = _Orders(problem, assignment, gangs, sorted(gangs, key=lambda gang: wish.get(gang, len(wish))))
    return tuple(search.done) if search.run() else None


class _Orders:
    """A depth-first search over orders of steps; a set of gangs that led nowhere is not tried again."""

    def __init__(
        self, problem: MoveProblem, assignment: Assignment, gangs: Mapping[int, Sequence[int]], order: Sequence[int]
    ) -> None:
        self._free = list(problem.free)
        self._out = {
            gang: [(problem.slices[at].pool, problem.slices[at].size) for at in own] for gang, own in gangs.items()
        }
        self._in = {
            gang: _sums((assignment.moved[at], problem.slices[at].size) for at in own) for gang, own in gangs.items()
        }
        self._left = list(order)
        self._hopeless: set[frozenset[int]] = set()
        self._work = MAX_ORDERS
        self.done: list[int] = []

    def run(self) -> bool:
        """Whether an order was found; it is in `done` then."""
        at: list[int] = [0]  # the next candidate at each depth
        while self._left:
            candidate = self._next(at[-1])
            if candidate is not None:
                at[-1] = candidate + 1
                self._apply(candidate)
                at.append(0)
                continue
            self._hopeless.add(frozenset(self._left))
            at.pop()
            if not at or self._work <= 0:
                return False
            self._undo(at[-1] - 1)
        return True

    def _next(self, start: int) -> int | None:
        """Return the first gang from `start` on whose step has room and leads somewhere."""
        for at in range(start, len(self._left)):
            gang = self._left[at]
            roomy = all(self._free[pool] >= size for pool, size in self._in[gang].items())
            if roomy and frozenset(self._left) - {gang} not in self._hopeless:
                return at
        return None

    def _apply(self, at: int) -> None:
        self._work -= 1
        gang = self._left.pop(at)
        self.done.append(gang)
        self._shift(gang, 1)

    def _undo(self, at: int) -> None:
        gang = self.done.pop()
        self._left.insert(at, gang)
        self._shift(gang, -1)

    def _shift(self, gang: int, sign: int) -> None:
        for pool, size in self._out[gang]:
            self._free[pool] += sign * size
        for pool, size in self._in[gang].items():
            self._free[pool] -= sign * size


def _sums(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for pool, size in pairs:
        found[pool] = found.get(pool, 0) + size
    return found
