"""A lower bound on the cost of freeing room, and prices that guide the search for moves.

The prices of the relaxed problem are raised by the volume algorithm (Barahona and Anbil, "The volume algorithm:
producing primal solutions with a subgradient method", 2000), which also tells how likely each gang is to move.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from launcher.core.planner.moves import MoveProblem
from launcher.core.planner.relaxation import RelaxedOptimum, RelaxedPools


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation:
    """A lower bound on the cost, a price for the room of each kind of slice, and how likely each gang is to move."""

    bound: float
    prices: tuple[float, ...]
    likely: tuple[float, ...]


def relax(problem: MoveProblem, upper: float, rounds: int) -> Relaxation:
    """Return the bound after so many rounds; `upper` is the cost of a known plan, or of restarting every gang."""
    volume = _Volume(problem, upper)
    for _ in range(rounds):
        if not volume.improve():
            break
    return volume.result()


def hopeless(problem: MoveProblem, rounds: int) -> bool:
    """Whether it is proven within so many rounds that no moves at any cost make room.

    With restarts for nothing, prices at which the relaxed problem costs anything are a proof. They are looked for where
    the average of what was missing so far points (the algorithm of von Neumann for the feasibility of linear programs).
    """
    pools, unpaid = RelaxedPools(problem), [0.0] * len(problem.slices)
    missing = pools.solve([0.0] * len(pools.rooms.kinds), unpaid).missing
    for _ in range(rounds):
        prices = [max(0.0, one) for one in missing]
        if sum(prices) < 1e-9:
            return False
        new = pools.solve(prices, unpaid).missing
        if sum(price * one for price, one in zip(prices, new, strict=True)) > 1e-6 * sum(prices):
            return True
        apart = [one - other for one, other in zip(missing, new, strict=True)]
        along = sum(price * one for price, one in zip(prices, apart, strict=True))
        weight = min(1.0, along / max(sum(one * one for one in apart), 1e-12))
        missing = [one - weight * other for one, other in zip(missing, apart, strict=True)]
    return False


class _Volume:
    """The best prices so far, and the average of the optima met on the way."""

    def __init__(self, problem: MoveProblem, upper: float) -> None:
        self._problem, self._upper = problem, upper
        self._pools, self._members = RelaxedPools(problem), problem.members()
        self._gang_of = [part.gang for part in problem.slices]
        shares = [problem.gang_costs[part.gang] / len(self._members[part.gang]) for part in problem.slices]
        self._best = self._pools.solve([0.0] * len(self._pools.rooms.kinds), shares)
        self._moved = [0.0] * len(problem.slices)
        self._paid = [0.0] * len(problem.gang_costs)
        self._missing = list(self._best.missing)
        self._mix(1.0, self._best)
        self._step, self._weight, self._stalled, self._rounds, self._last = 0.1, 0.1, 0, 0, self._best.value

    def result(self) -> Relaxation:
        """Return what is known now."""
        return Relaxation(
            bound=max(0.0, self._best.value),
            prices=tuple(self._best.prices),
            likely=tuple(self._paid),
        )

    def improve(self) -> bool:
        """Take one step from the best prices against what the average optimum violates; False at the optimum."""
        best, gang_of = self._best, self._gang_of
        lack = [miss if miss > 0 or price > 0 else 0.0 for miss, price in zip(self._missing, best.prices, strict=True)]
        unpaid = [
            moved - self._paid[gang] if share > 0 or moved > self._paid[gang] else 0.0
            for moved, gang, share in zip(self._moved, gang_of, best.shares, strict=True)
        ]
        norm = sum(one * one for one in lack) + sum(one * one for one in unpaid)
        gap = self._upper - best.value
        if norm < 1e-9 or gap <= 1e-6 * self._upper:
            return False
        step = self._step * gap / norm
        point = self._pools.solve(
            [max(0.0, price + step * one) for price, one in zip(best.prices, lack, strict=True)],
            [max(0.0, share + step * one) for share, one in zip(best.shares, unpaid, strict=True)],
        )
        self._mix(self._weight, point)
        self._adapt(point, self._agrees(point, lack, unpaid))
        return True

    def _agrees(self, point: RelaxedOptimum, lack: Sequence[float], unpaid: Sequence[float]) -> bool:
        """Whether a further step in the same direction would help too."""
        along = sum(one * miss for one, miss in zip(lack, point.missing, strict=True))
        along += sum(unpaid[at] for at in point.moved)
        return along > sum(unpaid[at] for gang in point.paid for at in self._members[gang])

    def _adapt(self, point: RelaxedOptimum, agrees: bool) -> None:
        """Keep a better point; take longer steps while they help, shorter ones after ten that did not."""
        if point.value > self._best.value:
            self._best, self._stalled = point, 0
            self._step = min(2.0, self._step * 1.1) if agrees else self._step
        else:
            self._stalled += 1
            if self._stalled == 10:
                self._step, self._stalled = self._step * 0.66, 0
        self._rounds += 1
        if self._rounds % 50 == 0:
            if self._best.value - self._last < 0.01 * abs(self._best.value):
                self._weight = max(self._weight / 2, 0.001)
            self._last = self._best.value

    def _mix(self, weight: float, point: RelaxedOptimum) -> None:
        """Take an optimum into the average."""
        keep = 1 - weight
        self._moved = [keep * one for one in self._moved]
        self._paid = [keep * one for one in self._paid]
        for at in point.moved:
            self._moved[at] += weight
        for gang in point.paid:
            self._paid[gang] += weight
        self._missing = [keep * one + weight * new for one, new in zip(self._missing, point.missing, strict=True)]
