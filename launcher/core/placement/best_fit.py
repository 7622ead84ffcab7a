"""Which place the next slice of a group gets, chosen from the top: nearness where it is asked for, then best fit.

The rule is best fit: the place with the fewest free nodes that still holds the slice and its spares. Nodes are
*stranded* for slices of b nodes when they can all stay free while no such slice fits: up to b - 1 in each domain, so
the sum of min(free, b - 1). Among domains with room, best fit strands the fewest for every b at once: two holes of
one sum hold the less of small things the further they are apart. So a choice never costs a slice of any size its last
place if another choice would have kept it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, RACK_LEVEL
from launcher.core.model.nodeset import natural
from launcher.core.placement.capacity import Board, Cell, Place, Role
from launcher.core.placement.constraints import Scale, near_scale
from launcher.core.placement.node_selection import by_value, most_slices, worth

_Closeness = tuple[int, bool, bool, int]


@dataclass(slots=True)
class Option:
    """A place with the cells of it that the next slice may use, their free nodes, and how many slices they hold."""

    place: Place
    cells: Sequence[Cell]
    room: int
    slices: int


class Chooser:
    """The options of one role, while its slices are put on the board; it counts them at every level."""

    def __init__(self, board: Board, role: Role) -> None:
        self._board, self._role = board, role
        self._levels = tuple(reversed(board.levels))
        self._nearby: Counter[tuple[str, str | None]] = Counter()
        self.missing = role.missing

    def options(self) -> list[Option]:
        """Return every place that holds a slice now."""
        bounds, role = self._board.ledger.bounds(self._role.name), self._role
        bounded = bool(bounds)
        if not bounded and role.members is None and not role.rule.spares_per_rack:
            need = role.need
            return [
                Option(place, place.cells, place.room, place.room // need)
                for place in role.places
                if place.room >= need
            ]
        found: list[Option] = []
        for place in role.places:
            if place.room < role.need:
                continue
            cells = (
                [cell for cell in place.cells if cell.free and bounds.reason(cell) is None] if bounded else place.cells
            )
            room = sum([len(cell.free) for cell in cells])
            slices = self._slices(place, cells, room) if room >= role.need else 0
            if slices:
                found.append(Option(place, cells, room, slices))
        return found

    def best(self, options: Sequence[Option]) -> Sequence[Option]:
        """Return where the next slice goes: the fullest place; among equals the one nearest to the other slices.

        All equals are the answer where each of them is needed: what is left in one makes it the fullest again.
        """
        role = self._role
        options = self._paired(self._even(self._together(role.rule.prefer, self._gathered(self._roomy(options)))))
        ties = self._fullest(options)
        plain = role.name in self._board.ledger.free and role.members is None and role.rule.balance is None
        if len(ties) == 1 or (plain and sum(option.slices for option in ties) <= self.missing):
            return ties
        # Racks that are equally full are equally near, but for the slices that are in them already.
        nearest = self._beside(ties)
        for level in self._levels:
            if len(nearest) > 1 and (level != RACK_LEVEL or not role.local):
                close = self._by_closeness(level, ties)
                distance = [close[option.place.at.get(level)] for option in nearest]
                least = min(distance)
                nearest = [option for option, own in zip(nearest, distance, strict=True) if own == least]
        return nearest[:1]

    def _beside(self, options: Sequence[Option]) -> Sequence[Option]:
        """Return the places with the most slices of this role in their racks."""
        beside = [self._nearby.get((RACK_LEVEL, option.place.at.get(RACK_LEVEL)), 0) for option in options]
        most = max(beside)
        return [option for option, many in zip(options, beside, strict=True) if many == most] if most else options

    def placed(self, option: Option) -> None:
        """Note that a slice went to a place."""
        self.missing -= 1
        self._nearby.update(option.place.at.items())

    def _slices(self, place: Place, cells: Sequence[Cell], room: int) -> int:
        role = self._role
        if role.members is not None:
            sizes = [sum(len(cell.free) for cell in own) for own in by_value(cells, role.members).values()]
            return most_slices(sizes, role.need)
        stationed = (role.name, id(place)) in self._board.stations
        shared = 0 if stationed else role.rule.spares_per_rack
        return max(0, room - shared) // role.need

    def _fullest(self, options: Sequence[Option]) -> Sequence[Option]:
        """Return what best fit takes first; work without GPUs keeps off GPU nodes, then off whole domains."""
        if self._role.group.gpus == 0:
            order = [(option.place.gpus, option.place.whole, option.room) for option in options]
            first = min(order)
            return [option for option, own in zip(options, order, strict=True) if own == first]
        least = min([option.room for option in options])
        ties = [option for option in options if option.room == least]
        return [option for option in ties if not option.place.whole] or ties

    def _roomy(self, options: Sequence[Option]) -> Sequence[Option]:
        """Return the places that hold also what groups near to this one need there, if there are any."""
        followers = [role for role in self._board.roles.values() if role.rule.near == self._role.name and role.missing]
        if not followers:
            return options
        fits = {id(option) for option in options}
        for scale in {near_scale(role.rule) for role in followers}:
            room = self._shares(scale, [role for role in followers if near_scale(role.rule) == scale])
            fits &= {id(option) for option in options if any(room(cell) for cell in option.cells)}
        return [option for option in options if id(option) in fits] or options

    def _shares(self, scale: Scale, followers: Sequence[Role]) -> Callable[[Cell], bool]:
        """Whether a place has room for a slice and its share of the slices that go with it, each on its own
        nodes and all of them together."""
        shares = [(role.use, -(-role.missing // max(1, self._role.missing)) * role.need) for role in followers]
        every = sum({use for use, _ in shares} | {self._role.use})
        wanted = [*shares, (every, self._role.need + sum(share for _, share in shares))]
        free: dict[int, Counter[object]] = {use: Counter() for use, _ in wanted}
        for cell in self._board.cells:
            spot = scale.spot(cell)
            for use, room in free.items():
                if cell.uses & use:
                    room[spot] += len(cell.free)
        fits = {spot for spot in free[every] if all(free[use][spot] >= share for use, share in wanted)}
        return lambda cell: scale.spot(cell) in fits

    def _gathered(self, options: Sequence[Option]) -> Sequence[Option]:
        """Return the places of the one value that has room for all slices, where they must be together."""
        level = self._role.rule.all_within
        return options if level in (None, ANY_LEVEL, NODE_LEVEL) else self._together(level, options)

    def _together(self, level: str | None, options: Sequence[Option]) -> Sequence[Option]:
        """Return the places that are together at a level: where slices are, else where all of them fit."""
        if level is None:
            return options
        closeness = self._by_closeness(level, options)
        best = min(closeness, key=lambda value: (closeness[value], natural(value or "")))
        return [option for option in options if option.place.at.get(level) == best]

    def _even(self, options: Sequence[Option]) -> Sequence[Option]:
        """Return the places where the fewest slices are, of as few as hold all slices evenly."""
        level = self._role.rule.balance
        if level is None or self._role.rule.slices == 1:
            return options
        slots = self._slots(level, options)
        have = {value: self._nearby[level, value] for value in slots}
        holds = {value: slots[value] + have[value] for value in slots}
        ranked = sorted(slots, key=lambda value: (-holds[value], natural(value or "")))
        total = self.missing + sum(have.values())
        few = next((n for n in range(1, len(ranked)) if sum(holds[v] for v in ranked[:n]) >= total), len(ranked))
        able = [value for value in slots if holds[value] >= -(-total // few)]
        able.sort(key=lambda value: (-have[value], slots[value], natural(value or "")))
        chosen = able[:few] if len(able) >= few else ranked[:few]
        least = min(have[value] for value in chosen)
        return [
            option for option in options if (value := option.place.at.get(level)) in chosen and have[value] == least
        ]

    def _paired(self, options: Sequence[Option]) -> Sequence[Option]:
        """Return the places with the fewest slices for each slice that they are near to."""
        rule = self._role.rule
        if rule.near is None:
            return options
        scale = near_scale(rule)
        own, theirs = self._board.ledger.touched(self._role.name, scale), self._board.ledger.touched(rule.near, scale)
        crowd = [
            min((own[spot] / theirs[spot] for cell in option.cells if (spot := scale.spot(cell))), default=0.0)
            for option in options
        ]
        least = min(crowd)
        return [option for option, many in zip(options, crowd, strict=True) if many == least]

    def _slots(self, level: str, options: Sequence[Option]) -> Counter[str | None]:
        """Return how many slices each value of a level has room for; places that share a ground count once."""
        slots: Counter[str | None] = Counter()
        spread = self._role.spread
        if spread is None:
            for option in options:
                slots[option.place.at.get(level)] += option.slices
            return slots
        grounds: set[tuple[str | None, str]] = set()
        for option in options:
            value, own = option.place.at.get(level), by_value(option.cells, spread)
            if len(own) == 1:
                grounds.add((value, next(iter(own))))
            else:
                slots[value] += _portions([worth(cells, self._role) for cells in own.values()], self._role.need)
        slots.update(value for value, _ in grounds)
        return slots

    def _by_closeness(self, level: str, options: Sequence[Option]) -> dict[str | None, _Closeness]:
        """Return how near each value of a level is: beside other slices, named, with room for all missing, tightest."""
        missing = self.missing
        return {
            value: (-self._nearby[level, value], value is None, room < missing, -room if room < missing else room)
            for value, room in self._slots(level, options).items()
        }


def _portions(sizes: Sequence[int], need: int) -> int:
    """Return a number of slices that no split can exceed, when a ground serves one slice only."""
    return sum(1 for size in sizes if size >= need) + sum(size for size in sizes if size < need) // need
