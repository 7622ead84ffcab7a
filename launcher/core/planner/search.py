"""Moves of little cost: a greedy search (`ejection.py`) run with several prices and costs.

A bound (`bound.py`) says how good the best is; few slices are searched through for the best (`exact.py`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from launcher.core.planner.bound import Relaxation, hopeless, relax
from launcher.core.planner.ejection import Ejection
from launcher.core.planner.exact import GaveUpError, cheapest
from launcher.core.planner.moves import Assignment, MoveProblem, WantedSlice, emptied, order_steps
from launcher.core.planner.relaxation import RoomValues

ROUNDS = 120
"""How many steps the bound is given."""

PRICE_SCALES = (0.1, 0.3, 0.6, 1.0)
"""Parts of the prices of the relaxation that are tried first."""

VARIATIONS = 32
"""How often costs are varied after that."""

MAX_FAILURES = 4
"""How often costs are varied where no plan was found at all."""

CLOSE = 1e-4
"""A plan that is no more than this above the bound is not improved further."""

MAX_SEARCHED = 40
"""The most slices, movable and wanted, that are searched through for the best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveSolution:
    """The cheapest assignment found, with its gangs in the order of their steps, its cost, and a bound on any cost.

    `assignment` is None where none was found. `proven`: nothing costs less, or no assignment exists.
    """

    assignment: Assignment | None
    order: tuple[int, ...]
    cost: float
    bound: float
    proven: bool


def solve(problem: MoveProblem) -> MoveSolution:
    """Return the moves of least cost that free the wanted room, as far as the work allows. Equal problems give equal
    solutions."""
    rooms = RoomValues(problem)
    search = _Variations(problem, rooms)
    search.attempt([0.0] * len(rooms.kinds), problem.gang_costs)
    if search.cost == 0:
        return search.solution(0.0)
    if search.cost == math.inf and hopeless(problem, ROUNDS):
        return search.solution(math.inf)
    relaxation = relax(problem, min(search.cost, sum(problem.gang_costs)), ROUNDS)
    search.vary(relaxation)
    bound = min(relaxation.bound, search.cost)
    if search.cost > bound * (1 + CLOSE) and len(problem.slices) + len(problem.wanted) <= MAX_SEARCHED:
        bound = search.complete(bound)
    return search.solution(bound)


def room_now(problem: MoveProblem, wanted: WantedSlice) -> int:
    """Return for how many slices there is room without moves."""
    return sum(
        free // wanted.size
        for pool, free in enumerate(problem.free)
        if wanted.allowed is None or pool in wanted.allowed
    )


def most_room(problem: MoveProblem, wanted: WantedSlice) -> int:
    """Return for how many slices moves at any cost were found to make room."""
    low, high = room_now(problem, wanted), room_now(replace(problem, free=tuple(emptied(problem))), wanted)
    while low < high:
        middle = (low + high + 1) // 2
        if solve(replace(problem, wanted=(wanted,) * middle)).assignment is None:
            high = middle - 1
        else:
            low = middle
    return low


class _Variations:
    """The best of several greedy runs."""

    def __init__(self, problem: MoveProblem, rooms: RoomValues) -> None:
        self._problem, self._rooms = problem, rooms
        self._best: Assignment | None = None
        self._order: tuple[int, ...] = ()
        self.cost = math.inf

    def attempt(self, prices: Sequence[float], costs: Sequence[float]) -> None:
        """Search once, and keep what is better."""
        search = Ejection(self._problem, prices, costs, self._rooms)
        self._keep(search.run(self.cost), search.order())

    def _keep(self, found: Assignment | None, order: Sequence[int] = ()) -> None:
        if found is None or (cost := self._problem.cost(found.moved)) >= self.cost:
            return
        steps = order_steps(self._problem, found, order)
        if steps is not None:
            self._best, self._order, self.cost = found, steps, cost

    def vary(self, relaxation: Relaxation) -> None:
        """Search with prices of the relaxation, then with costs that favour gangs likely to move, each time others."""
        for scale in PRICE_SCALES:
            self.attempt([scale * price for price in relaxation.prices], self._problem.gang_costs)
        for turn in range(VARIATIONS):
            if self.cost <= relaxation.bound * (1 + CLOSE) or (turn >= MAX_FAILURES and self._best is None):
                return
            scale = PRICE_SCALES[turn % len(PRICE_SCALES)]
            likely = zip(self._problem.gang_costs, relaxation.likely, strict=True)
            costs = [cost * _factor(gang, turn) * (1 - share / 2) for gang, (cost, share) in enumerate(likely)]
            self.attempt([scale * price for price in relaxation.prices], costs)

    def complete(self, bound: float) -> float:
        """Search through all assignments that cost less, and return the bound known then."""
        try:
            self._keep(cheapest(self._problem, self.cost))
        except GaveUpError:
            return bound
        return self.cost

    def solution(self, bound: float) -> MoveSolution:
        """Return the best so far."""
        return MoveSolution(
            assignment=self._best,
            order=self._order,
            cost=self.cost,
            bound=bound,
            proven=self.cost <= bound * (1 + CLOSE),
        )


def _factor(gang: int, turn: int) -> float:
    """Return a factor between 0.7 and 1.3, spread evenly over gangs and over turns (golden and plastic ratio)."""
    return 0.7 + 0.6 * ((gang * 0.6180339887498949 + (turn + 1) * 0.7548776662466927) % 1)
