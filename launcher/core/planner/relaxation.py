"""The problem of moves with two of its conditions priced instead of held, so that each pool can be looked at alone.

Priced are that each slice moved or wanted gets room in some pool (a price for each kind of slice), and that a gang of
which a slice moves is paid for (a share of its cost for each slice). The optimum is never above the true one.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from launcher.core.planner.moves import MovableSlice, MoveProblem, WantedSlice, emptied

SliceKind = tuple[int, frozenset[int] | None]
"""What makes slices alike to a pool: their nodes, and the pools that their rules allow."""

Choice = tuple[int, tuple[int, ...]]
"""Slices that leave a pool, after the free nodes that there are then."""

MOST_KINDS = 24
"""The most kinds told apart by the pools they allow; with more only their nodes count, which is a lower bound still."""

MOST_LISTED = 5
"""The most slices of a pool of which every set is listed."""


class RoomValues:
    """For each pool, what so many free nodes are worth at given prices, and which slices would fill them so."""

    def __init__(self, problem: MoveProblem) -> None:
        parts: list[MovableSlice | WantedSlice] = [*problem.slices, *problem.wanted]
        self._coarse = len({(part.size, part.allowed) for part in parts}) > MOST_KINDS
        self.kinds = tuple(dict.fromkeys(map(self._kind, parts)))
        numbers = {kind: at for at, kind in enumerate(self.kinds)}
        self.kind_of = [numbers[self._kind(part)] for part in problem.slices]
        self.wanted_of = [numbers[self._kind(part)] for part in problem.wanted]
        fits = [
            tuple(at for at, (_, allowed) in enumerate(self.kinds) if allowed is None or pool in allowed)
            for pool in range(len(problem.free))
        ]
        self._menus = tuple(dict.fromkeys(fits))
        menus = {menu: at for at, menu in enumerate(self._menus)}
        self.menu_of = [menus[menu] for menu in fits]
        self._most = max(emptied(problem), default=0)

    def _kind(self, part: MovableSlice | WantedSlice) -> SliceKind:
        return part.size, None if self._coarse else part.allowed

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


@dataclass(slots=True)
class RelaxedOptimum:
    """Prices of kinds and shares of slices, the value of the relaxed problem there, and its optimum."""

    prices: list[float]
    shares: list[float]
    value: float
    missing: list[float]
    moved: list[int]
    paid: list[int]


class RelaxedPools:
    """The pools of a problem, each of which gives up and takes what is worth most there at given prices."""

    def __init__(self, problem: MoveProblem) -> None:
        self._problem = problem
        self.rooms = RoomValues(problem)
        self._members, self._residents = problem.members(), problem.residents()
        menus = zip(self.rooms.menu_of, problem.free, self._residents, strict=True)
        self._idle = Counter((menu, free) for menu, free, residents in menus if not residents)
        self._choices = [
            (pool, choices(problem, pool, residents) if len(residents) <= MOST_LISTED else ())
            for pool, residents in enumerate(self._residents)
            if residents
        ]

    def solve(self, prices: list[float], shares: list[float]) -> RelaxedOptimum:
        """Return the optimum of the relaxed problem: each pool gives up and takes what is worth most there."""
        tables = self.rooms.tables(prices)
        kind_of, menu_of = self.rooms.kind_of, self.rooms.menu_of
        prices_of = [share + prices[kind] for share, kind in zip(shares, kind_of, strict=True)]
        missing = [0.0] * len(prices)
        value = 0.0
        for kind in self.rooms.wanted_of:
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
        return RelaxedOptimum(prices, shares, value, missing, moved, paid)

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
