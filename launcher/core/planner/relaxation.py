"""A lower bound on the cost of freeing room, and prices that guide the search for moves.

Two conditions of the problem are priced instead of held: that each slice moved or wanted gets room in some pool (a
price for each kind of slice), and that a gang of which a slice moves is paid for (a share of its cost for each slice).
What is left falls apart into one small problem a pool, so its optimum is cheap, and never above the true one. Prices
are raised by the volume algorithm (Barahona and Anbil, "The volume algorithm: producing primal solutions with a
subgradient method", 2000), which also tells how likely each gang is to move.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from launcher.core.planner.moves import MoveProblem

SliceKind = tuple[int, frozenset[int] | None]
"""What makes slices alike to a pool: their nodes, and the pools that their rules allow."""

Choice = tuple[int, tuple[int, ...]]
"""Slices that leave a pool, after the free nodes that there are then."""

MOST_LISTED = 5
"""The most slices of a pool of which every set is listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation:
    """A lower bound on the cost, a price for the room of each kind of slice, and how likely each gang is to move."""

    bound: float
    prices: Mapping[SliceKind, float]
    likely: tuple[float, ...]


class RoomValues:
    """For each pool, what so many free nodes are worth at given prices, and which slices would fill them so."""

    def __init__(self, problem: MoveProblem) -> None:
        kinds: list[SliceKind] = [(part.size, part.allowed) for part in problem.slices]
        kinds += [(part.size, part.allowed) for part in problem.wanted]
        self.kinds = tuple(dict.fromkeys(kinds))
        self.kind_of = [self.kinds.index((part.size, part.allowed)) for part in problem.slices]
        self.wanted_of = [self.kinds.index((part.size, part.allowed)) for part in problem.wanted]
        fits = [
            tuple(at for at, (_, allowed) in enumerate(self.kinds) if allowed is None or pool in allowed)
            for pool in range(len(problem.free))
        ]
        self._menus = tuple(dict.fromkeys(fits))
        self.menu_of = [self._menus.index(menu) for menu in fits]
        room = list(problem.free)
        for part in problem.slices:
            room[part.pool] += part.size
        self._most = max(room, default=0)

    def tables(self, prices: Sequence[float]) -> list[tuple[list[float], list[tuple[int, ...]]]]:
        """Return for each menu of kinds the value of 0, 1, 2... free nodes, and the kinds that give it."""
        return [self._table(menu, prices) for menu in self._menus]

    def _table(self, menu: Iterable[int], prices: Sequence[float]) -> tuple[list[float], list[tuple[int, ...]]]:
        priced = [(self.kinds[at][0], prices[at], at) for at in menu if prices[at] > 0]
        values: list[float] = [0.0]
        filled: list[tuple[int, ...]] = [()]
        for room in range(1, self._most + 1):
            best, chosen = values[-1], filled[-1]
            for size, price, at in priced:
                if size <= room and values[room - size] + price > best:
                    best, chosen = values[room - size] + price, (*filled[room - size], at)
            values.append(best)
            filled.append(chosen)
        return values, filled


def relax(problem: MoveProblem, upper: float, rounds: int) -> Relaxation:
    """Return the bound after so many rounds; `upper` is the cost of a known plan, or of restarting every gang.

    A bound above the cost of restarting every gang proves that no plan exists.
    """
    volume = _Volume(problem, upper)
    for _ in range(rounds):
        if not volume.improve():
            break
    return volume.result()


@dataclass(slots=True)
class _Point:
    """Prices of kinds and shares of slices, the value of the relaxed problem there, and its optimum."""

    prices: list[float]
    shares: list[float]
    value: float
    missing: list[float]
    moved: list[int]
    paid: list[int]


class _Volume:
    """The best prices so far, and the average of the optima met on the way."""

    def __init__(self, problem: MoveProblem, upper: float) -> None:
        self._problem, self._upper = problem, upper
        self._rooms = RoomValues(problem)
        self._members, self._residents = problem.members(), problem.residents()
        menus = zip(self._rooms.menu_of, problem.free, self._residents, strict=True)
        self._idle = Counter((menu, free) for menu, free, residents in menus if not residents)
        self._choices = [
            (pool, choices(problem, pool, residents) if len(residents) <= MOST_LISTED else ())
            for pool, residents in enumerate(self._residents)
            if residents
        ]
        self._gang_of = [part.gang for part in problem.slices]
        shares = [problem.gang_costs[part.gang] / len(self._members[part.gang]) for part in problem.slices]
        self._best = self._solve([0.0] * len(self._rooms.kinds), shares)
        self._moved = [0.0] * len(problem.slices)
        self._paid = [0.0] * len(problem.gang_costs)
        self._missing = list(self._best.missing)
        self._mix(1.0, self._best)
        self._step, self._weight, self._stalled, self._rounds, self._last = 0.1, 0.1, 0, 0, self._best.value

    def result(self) -> Relaxation:
        """Return what is known now."""
        return Relaxation(
            bound=max(0.0, self._best.value),
            prices=dict(zip(self._rooms.kinds, self._best.prices, strict=True)),
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
        point = self._solve(
            [max(0.0, price + step * one) for price, one in zip(best.prices, lack, strict=True)],
            [max(0.0, share + step * one) for share, one in zip(best.shares, unpaid, strict=True)],
        )
        self._mix(self._weight, point)
        self._adapt(point, self._agrees(point, lack, unpaid))
        return True

    def _agrees(self, point: _Point, lack: Sequence[float], unpaid: Sequence[float]) -> bool:
        """Whether a further step in the same direction would help too."""
        along = sum(one * miss for one, miss in zip(lack, point.missing, strict=True))
        along += sum(unpaid[at] for at in point.moved)
        return along > sum(unpaid[at] for gang in point.paid for at in self._members[gang])

    def _adapt(self, point: _Point, agrees: bool) -> None:
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

    def _mix(self, weight: float, point: _Point) -> None:
        """Take an optimum into the average."""
        keep = 1 - weight
        self._moved = [keep * one for one in self._moved]
        self._paid = [keep * one for one in self._paid]
        for at in point.moved:
            self._moved[at] += weight
        for gang in point.paid:
            self._paid[gang] += weight
        self._missing = [keep * one + weight * new for one, new in zip(self._missing, point.missing, strict=True)]

    def _solve(self, prices: list[float], shares: list[float]) -> _Point:
        """Return the optimum of the relaxed problem: each pool gives up and takes what is worth most there."""
        tables = self._rooms.tables(prices)
        kind_of, menu_of = self._rooms.kind_of, self._rooms.menu_of
        prices_of = [share + prices[kind] for share, kind in zip(shares, kind_of, strict=True)]
        missing = [0.0] * len(prices)
        value = 0.0
        for kind in self._rooms.wanted_of:
            value += prices[kind]
            missing[kind] += 1
        moved: list[int] = []
        nothing: tuple[int, ...] = ()
        for (menu, room), pools in self._idle.items():
            values, filled = tables[menu]
            value -= pools * values[room]
            for kind in filled[room]:
                missing[kind] -= pools
        for pool, choices in self._choices:
            values, filled = tables[menu_of[pool]]
            best, room, gone = math.inf, 0, nothing
            for left, leave in choices or self._cheapest(pool, prices_of):
                cost = -values[left]
                for at in leave:
                    cost += prices_of[at]
                if cost < best:
                    best, room, gone = cost, left, leave
            value += best
            moved += gone
            for kind in filled[room]:
                missing[kind] -= 1
        for at in moved:
            missing[kind_of[at]] += 1
        paid = []
        for gang, members in enumerate(self._members):
            rest = self._problem.gang_costs[gang] - sum(shares[at] for at in members)
            if members and rest < -1e-9:
                value += rest
                paid.append(gang)
        return _Point(prices, shares, value, missing, moved, paid)

    def _cheapest(self, pool: int, prices_of: Sequence[float]) -> Iterable[Choice]:
        """Return for each room that slices of a pool can leave the cheapest ones that do."""
        states: dict[int, tuple[float, tuple[int, ...]]] = {self._problem.free[pool]: (0.0, ())}
        for at in self._residents[pool]:
            size, price = self._problem.slices[at].size, prices_of[at]
            for room, (cost, gone) in list(states.items()):
                known = states.get(room + size)
                if known is None or cost + price < known[0]:
                    states[room + size] = (cost + price, (*gone, at))
        return [(room, gone) for room, (_, gone) in states.items()]


def choices(problem: MoveProblem, pool: int, residents: Iterable[int]) -> tuple[Choice, ...]:
    """Return every set of slices that can leave a pool, each with the room that it leaves."""
    found: list[Choice] = [(problem.free[pool], ())]
    for at in residents:
        found += [(room + problem.slices[at].size, (*gone, at)) for room, gone in found]
    return tuple(found)
