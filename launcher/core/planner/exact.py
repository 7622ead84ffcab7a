"""The best moves of a small fleet: sets of gangs in order of cost, until the slices of one can be packed anew."""

import heapq
from collections.abc import Iterator, Sequence

from launcher.core.planner.moves import Assignment, MovableSlice, MoveProblem, WantedSlice, order_steps

MAX_WORK = 200_000
"""How many pools are looked at before the search gives up: it might take for ever."""


class GaveUpError(Exception):
    """The search has used up its work: nothing is known."""


def cheapest(problem: MoveProblem, below: float, work: int = MAX_WORK) -> Assignment | None:
    """Return the cheapest assignment whose steps can be ordered; None where there is none that costs less than `below`.

    GaveUpError where neither was shown. Any slices of a gang that restarts may move: that costs nothing more.
    """
    search = _Search(problem, work)
    for cost, gangs in gang_sets(problem):
        if cost >= below:
            return None
        found = search.pack(gangs)
        if found is not None:
            return found
    return None


def gang_sets(problem: MoveProblem) -> Iterator[tuple[float, tuple[int, ...]]]:
    """Return every set of gangs that have slices to move, and its cost, in order of cost."""
    costs = problem.gang_costs
    gangs = sorted((gang for gang, own in enumerate(problem.members()) if own), key=lambda gang: costs[gang])
    yield 0.0, ()
    heap: list[tuple[float, int, tuple[int, ...]]] = [(costs[gangs[0]], 0, (0,))] if gangs else []
    while heap:
        cost, last, ranks = heapq.heappop(heap)
        yield cost, tuple(gangs[rank] for rank in ranks)
        if last + 1 < len(gangs):
            more = costs[gangs[last + 1]]
            heapq.heappush(heap, (cost + more, last + 1, (*ranks, last + 1)))
            heapq.heappush(heap, (cost + more - costs[gangs[last]], last + 1, (*ranks[:-1], last + 1)))


class _Search:
    """Backtracking over the pools of all slices that have to be packed, the largest first.

    A part is a movable slice by its number, or a wanted one by its number from the end: -1 is the first.
    """

    def __init__(self, problem: MoveProblem, work: int) -> None:
        self._problem, self._work = problem, work
        self._members = problem.members()
        self._free: list[int] = []
        self._parts: list[int] = []

    def pack(self, gangs: Sequence[int]) -> Assignment | None:
        """Return where the wanted slices and those of some gangs can go so that the steps can be ordered."""
        slices = [at for gang in gangs for at in self._members[gang]]
        self._free = list(self._problem.free)
        for at in slices:
            self._free[self._problem.slices[at].pool] += self._problem.slices[at].size
        self._parts = [*range(-1, -1 - len(self._problem.wanted), -1), *slices]
        self._parts.sort(key=lambda at: -self._part(at).size)
        if sum(self._free) < sum(self._part(at).size for at in self._parts):
            return None
        return self._go([])

    def _part(self, at: int) -> MovableSlice | WantedSlice:
        return self._problem.slices[at] if at >= 0 else self._problem.wanted[-1 - at]

    def _go(self, chosen: list[int]) -> Assignment | None:
        if len(chosen) == len(self._parts):
            whole = self._assignment(chosen)
            return None if order_steps(self._problem, whole) is None else whole
        size = self._part(self._parts[len(chosen)]).size
        for pool in self._pools(chosen):
            self._work -= 1
            if self._work < 0:
                raise GaveUpError
            if self._free[pool] >= size:
                self._free[pool] -= size
                found = self._go([*chosen, pool])
                self._free[pool] += size
                if found is not None:
                    return found
        return None

    def _pools(self, chosen: Sequence[int]) -> Iterator[int]:
        """Return the pools to try for the next part: first its own; of equal wanted slices only one order."""
        at = self._parts[len(chosen)]
        part, every = self._part(at), range(len(self._free))
        if isinstance(part, MovableSlice):
            yield part.pool
            yield from (pool for pool in (every if part.allowed is None else sorted(part.allowed)) if pool != part.pool)
            return
        before = self._parts[len(chosen) - 1] if chosen else 0
        least = chosen[-1] if before < 0 and self._part(before) == part else 0
        yield from (pool for pool in (every if part.allowed is None else sorted(part.allowed)) if pool >= least)

    def _assignment(self, chosen: Sequence[int]) -> Assignment:
        pools = dict(zip(self._parts, chosen, strict=True))
        return Assignment(
            moved={at: pool for at, pool in pools.items() if at >= 0 and self._problem.slices[at].pool != pool},
            wanted=tuple(pools[-1 - rank] for rank in range(len(self._problem.wanted))),
        )
