"""A greedy search for moves: room is made slice by slice, and what gives way looks for room in turn."""

import heapq
import math
from collections.abc import Sequence

from launcher.core.planner.moves import Assignment, MovableSlice, MoveProblem, WantedSlice
from launcher.core.planner.relaxation import RoomValues, SliceKind


class Ejection:
    """One greedy run. Room is given to the largest slice first, in the pool where that costs least.

    The price of a pool is that of the gangs that have to restart, of new room for what gives way, and of the value
    that its free nodes lose.
    """

    def __init__(
        self, problem: MoveProblem, prices: Sequence[float], costs: Sequence[float], rooms: RoomValues
    ) -> None:
        self._problem, self._prices, self._costs, self._rooms = problem, prices, costs, rooms
        self._values = [values for values, _ in rooms.tables(prices)]
        self._free = list(problem.free)
        self._residents = [list(own) for own in problem.residents()]
        self._pools_of = [frozenset(problem.slices[at].pool for at in own) for own in problem.members()]
        self._paid: set[int] = set()
        self._cost = 0.0
        self._leaving: dict[int, list[tuple[int, float, tuple[int, ...]]]] = {}
        self._offers: dict[SliceKind, list[float]] = {}
        self._moved: dict[int, int] = {}
        self._entered = [0] * len(problem.free)
        self._left: list[set[int]] = [set() for _ in problem.free]
        self._after: list[set[int]] = [set() for _ in problem.gang_costs]

    def run(self, below: float = math.inf) -> Assignment | None:
        """Return an assignment for which an order of steps exists; None where something finds no room, or only at a
        cost that is not below a limit."""
        problem = self._problem
        wanted = [-1] * len(problem.wanted)
        waiting = [(-part.size, 0, at) for at, part in enumerate(problem.wanted)]
        heapq.heapify(waiting)
        while waiting:
            _, moving, at = heapq.heappop(waiting)
            part = problem.slices[at] if moving else problem.wanted[at]
            pool = self._cheapest(part)
            if pool is None:
                return None
            for gone in self._give(part, pool):
                heapq.heappush(waiting, (-problem.slices[gone].size, 1, gone))
            if self._cost >= below:
                return None
            if moving:
                self._enter(at, pool)
            else:
                wanted[at] = pool
        return Assignment(moved=self._moved, wanted=tuple(wanted))

    def order(self) -> tuple[int, ...]:
        """Return the gangs that move, each after those that have to leave its new pools first."""
        done: dict[int, None] = {}
        for gang in {self._problem.slices[at].gang: None for at in self._moved}:
            stack = [gang]
            while stack:
                ahead = [other for other in self._after[stack[-1]] if other not in done]
                if ahead:
                    stack += ahead
                else:
                    done[stack.pop()] = None
        return tuple(done)

    def _enter(self, at: int, pool: int) -> None:
        """Note the new pool of a slice, and the gangs that have to leave there first."""
        part = self._problem.slices[at]
        self._moved[at] = pool
        self._entered[pool] += part.size
        if self._entered[pool] > self._problem.free[pool]:
            self._after[part.gang] |= self._left[pool]

    def _cheapest(self, part: MovableSlice | WantedSlice) -> int | None:
        """Return the pool where room for a slice costs least. One that moves needs another than its own, and one that
        its gang can move to after those that it needs gone."""
        kind = part.size, part.allowed
        if kind not in self._offers:
            self._offers[kind] = [self._offer(kind, pool)[0] for pool in range(len(self._free))]
        offers, barred = self._offers[kind], []
        if isinstance(part, MovableSlice):
            barred.append((part.pool, offers[part.pool]))
            offers[part.pool] = math.inf
        found = None
        while found is None and (least := min(offers)) < math.inf:
            pool = offers.index(least)
            if isinstance(part, WantedSlice) or self._can_follow(part, pool, self._offer(kind, pool)[1]):
                found = pool
            else:
                barred.append((pool, least))
                offers[pool] = math.inf
        for one, price in barred:
            offers[one] = price
        return found

    def _can_follow(self, part: MovableSlice, pool: int, gone: Sequence[int]) -> bool:
        """Whether the gang of a slice can move to a pool after all gangs that leave it, where it needs their room."""
        if self._entered[pool] + part.size <= self._problem.free[pool]:
            return True
        ahead = [*self._left[pool], *(self._problem.slices[at].gang for at in gone)]
        seen: set[int] = set()
        while ahead:
            gang = ahead.pop()
            if gang == part.gang:
                return False
            if gang not in seen:
                seen.add(gang)
                ahead += self._after[gang]
        return True

    def _offer(self, kind: SliceKind, pool: int) -> tuple[float, tuple[int, ...]]:
        """Return the least price of room for a slice of a kind in a pool, and the slices that give way."""
        size, allowed = kind
        best: tuple[float, tuple[int, ...]] = (math.inf, ())
        if allowed is not None and pool not in allowed:
            return best
        values = self._values[self._rooms.menu_of[pool]]
        if pool not in self._leaving:
            self._leaving[pool] = self._sets(pool)
        for room, price, gone in self._leaving[pool]:
            total = math.inf if room < size else price + values[self._free[pool]] - values[room - size]
            if total < best[0]:
                best = total, gone
        return best

    def _sets(self, pool: int) -> list[tuple[int, float, tuple[int, ...]]]:
        """Return for each room that slices of a pool can leave the cheapest ones that do, and their price."""
        states: dict[int, tuple[float, tuple[int, ...]]] = {self._free[pool]: (0.0, ())}
        slices, kinds = self._problem.slices, self._rooms.kind_of
        for at in self._residents[pool]:
            size, gang, price = slices[at].size, slices[at].gang, self._prices[kinds[at]]
            for room, (cost, gone) in list(states.items()):
                new = gang not in self._paid and all(slices[one].gang != gang for one in gone)
                total = cost + price + (self._costs[gang] if new else 0.0)
                known = states.get(room + size)
                if known is None or total < known[0]:
                    states[room + size] = (total, (*gone, at))
        return [(room, cost, gone) for room, (cost, gone) in states.items()]

    def _give(self, part: MovableSlice | WantedSlice, pool: int) -> tuple[int, ...]:
        """Give a slice room in a pool, and return the slices that give way."""
        _, gone = self._offer((part.size, part.allowed), pool)
        touched = {pool}
        for at in gone:
            gang = self._problem.slices[at].gang
            self._free[pool] += self._problem.slices[at].size
            self._residents[pool].remove(at)
            self._left[pool].add(gang)
            if gang not in self._paid:
                self._paid.add(gang)
                self._cost += self._problem.gang_costs[gang]
                touched |= self._pools_of[gang]
        self._free[pool] -= part.size
        for one in touched:
            self._leaving.pop(one, None)
        for known, offers in self._offers.items():
            for one in touched:
                offers[one] = self._offer(known, one)[0]
        return gone
