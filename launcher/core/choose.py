"""Which nodes the slices of one group get, chosen from the top: the place, the cells in it, the nodes in them.

The rule is best fit: the place with the fewest free nodes that still holds the slice and its spares. Nodes are
*stranded* for slices of b nodes when they can all stay free while no such slice fits: up to b - 1 in each domain, so
the sum of min(free, b - 1). Among domains with room, best fit strands the fewest for every b at once: two holes of
one sum hold the less of small things the further they are apart. So a choice never costs a slice of any size its last
place if another choice would have kept it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from launcher.core.cover import cover, fill
from launcher.core.eligible import Cell, Sieve, gather
from launcher.core.fleet import NODE_LEVEL, RACK_LEVEL, Inventory, Node, RackName
from launcher.core.nodeset import NaturalKey, natural
from launcher.core.task import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """Nodes chosen for one slice, in rank order; its place had `room` free nodes and `rivals` others had enough."""

    place: str
    rack: RackName | None
    domain: str | None
    nodes: tuple[Node, ...]
    room: int
    rivals: int


def rank_order(node: Node) -> tuple[NaturalKey, bool, int, NaturalKey]:
    """Answer the sort key of ranks: rack by rack, tray by tray; a node without a tray comes last in its rack."""
    return natural(node.rack), node.tray is None, node.tray or 0, natural(node.name)


def choose(group: Group, inventory: Inventory, sieve: Sieve) -> tuple[Pick, ...]:
    """Answer a pick for each slice of a group in rank order, or for as many slices as found room.

    Fewer picks than slices mean that no choice of nodes holds all; only for `spread` below `within` that is a search
    with a limit (see `cover`).
    """
    picks = _Board(group, inventory, gather(inventory, sieve)).best_fit()
    if len(picks) < group.topology.slices and sieve.spread is not None:
        picks = _Board(group, inventory, gather(inventory, sieve)).searched() or picks
    return tuple(sorted(picks, key=lambda pick: rank_order(pick.nodes[0])))


@dataclass(slots=True, kw_only=True)
class _Place:
    """Somewhere a slice may be: one cell for `rack` and `node`, for other levels all cells of one value.

    `gpus` is the most that one of its nodes has.
    """

    name: str
    cells: list[Cell]
    at: dict[str, str | None]
    gpus: int
    order: tuple[NaturalKey, NaturalKey]

    @property
    def room(self) -> int:
        return sum(len(cell.free) for cell in self.cells)

    @property
    def whole(self) -> bool:
        return all(cell.whole for cell in self.cells)


_Portion = list[tuple[Cell, int]]


class _Board:
    """The places of one group while its slices are put on them."""

    def __init__(self, group: Group, inventory: Inventory, cells: Iterable[Cell]) -> None:
        self.rule = group.topology
        self.need = self.rule.nodes_per_slice + self.rule.spares
        self.without_gpus = group.gpus == 0
        self.levels = tuple(reversed(inventory.levels))
        self.nearby: Counter[tuple[str, str | None]] = Counter()
        self.picks: list[Pick] = []
        self.local = self.rule.within in (RACK_LEVEL, NODE_LEVEL)
        grouped: dict[tuple[str, str | None], list[Cell]] = {}
        for cell in cells:
            grouped.setdefault((cell.place, cell.domain if self.local else None), []).append(cell)
        self.places = sorted(map(self._place, grouped.values()), key=lambda place: place.order)

    def best_fit(self) -> list[Pick]:
        """Put slices on the best place, one after another, until all are placed or no place has room."""
        while self._missing():
            roomy = [place for place in self.places if self._holds(place)]
            if not roomy:
                break
            place = self._best(self._preferred(roomy))
            self._give(place, self._portion(_grounds(place, self.need)), len(roomy) - 1)
        return self.picks

    def searched(self) -> list[Pick] | None:
        """Put all slices where a search over the grounds finds room; None where it finds none."""
        found = cover([list(_sizes(place).items()) for place in self.places], self.need, self.rule.slices)
        places = list(self.places)
        for index, grounds in found or ():
            place = places[index]
            self._give(place, self._portion([cell for cell in place.cells if cell.ground in grounds]), len(places) - 1)
        return None if found is None else self.picks

    def _place(self, cells: list[Cell]) -> _Place:
        cells.sort(key=lambda cell: (natural(cell.rack), natural(cell.domain or ""), natural(cell.ground or "")))
        first = cells[0]
        return _Place(
            name=first.place,
            cells=cells,
            at={level: at for level, at in first.at.items() if all(cell.at[level] == at for cell in cells)},
            gpus=max(node.gpus for cell in cells for node in cell.free) if self.without_gpus else 0,
            order=(natural(first.place), natural(first.domain or "" if self.local else "")),
        )

    def _missing(self) -> int:
        return self.rule.slices - len(self.picks)

    def _holds(self, place: _Place) -> bool:
        return place.room >= self.need and (self.need == 1 or self.rule.within != NODE_LEVEL)

    def _preferred(self, roomy: Sequence[_Place]) -> Sequence[_Place]:
        """Answer the places that are together at the `prefer` level: where slices are, else where all of them fit."""
        level = self.rule.prefer
        if level is None:
            return roomy
        slots = self._slots(level, roomy)
        best = min(slots, key=lambda value: (self._closeness(level, value, slots), natural(value or "")))
        return [place for place in roomy if place.at.get(level) == best]

    def _best(self, roomy: Sequence[_Place]) -> _Place:
        """Answer the fullest place; among equals the one nearest to the other slices, then the first by name."""
        fullest = min(map(self._fullness, roomy))
        ties = [place for place in roomy if self._fullness(place) == fullest]
        if len(ties) == 1:
            return ties[0]
        slots = [(level, self._slots(level, ties)) for level in self.levels]
        return min(ties, key=lambda place: [self._closeness(level, place.at.get(level), by) for level, by in slots])

    def _fullness(self, place: _Place) -> tuple[int, int, int]:
        """Answer the order of best fit; work without GPUs keeps off GPU nodes, then off whole domains, before that."""
        if self.without_gpus:
            return place.gpus, place.whole, place.room
        return place.room, place.whole, 0

    def _slots(self, level: str, roomy: Sequence[_Place]) -> Counter[str | None]:
        """Answer how many slices each value of a level has room for; places that share a ground count once."""
        slots: Counter[str | None] = Counter()
        grounds = {(place.at.get(level), place.cells[0].ground) for place in roomy}
        slots.update(value for value, ground in grounds if ground is not None)
        for place in roomy:
            slots[place.at.get(level)] += place.room // self.need if place.cells[0].ground is None else 0
        return slots

    def _closeness(self, level: str, value: str | None, slots: Counter[str | None]) -> tuple[int, bool, bool, int]:
        """Answer the order of nearness: beside other slices, named at all, room for all missing slices, tightest."""
        short = slots[value] < self._missing()
        return -self.nearby[level, value], value is None, short, -slots[value] if short else slots[value]

    def _portion(self, cells: Sequence[Cell]) -> _Portion:
        """Answer how many nodes to take of which cells: broken domains are used up before whole ones, few of each."""
        portion: _Portion = []
        missing = self.need
        for _, alike in groupby(sorted(cells, key=self._waste), key=self._waste):
            stock = [(cell, len(cell.free)) for cell in alike]
            portion += fill(stock, min(missing, sum(size for _, size in stock)))
            missing = self.need - sum(count for _, count in portion)
        return portion

    def _waste(self, cell: Cell) -> tuple[int, bool]:
        gpus = max((node.gpus for node in cell.free), default=0) if self.without_gpus else 0
        return gpus, cell.whole

    def _give(self, place: _Place, portion: _Portion, rivals: int) -> None:
        """Take the nodes of a portion for the next slice, and its grounds out of reach of the others."""
        room = place.room
        nodes: list[Node] = []
        for cell, count in portion:
            cell.free.sort(key=lambda node: (node.gpus, rank_order(node)))
            nodes += cell.free[:count]
            del cell.free[:count]
        used = {cell.ground for cell, _ in portion} - {None}
        if used:
            for other in self.places:
                other.cells = [cell for cell in other.cells if cell.ground not in used]
            self.places = [other for other in self.places if other.cells]
        self.nearby.update((level, value) for level, value in place.at.items() if value is not None)
        nodes.sort(key=rank_order)
        self.picks.append(
            Pick(
                place=nodes[0].name if self.rule.within == NODE_LEVEL else place.name,
                rack=nodes[0].rack if self.local else None,
                domain=nodes[0].domain if self.local else None,
                nodes=tuple(nodes),
                room=room,
                rivals=rivals,
            )
        )


def _sizes(place: _Place) -> Counter[str]:
    """Answer how many free nodes a place has on each ground."""
    sizes: Counter[str] = Counter()
    for cell in place.cells:
        if cell.ground is not None:
            sizes[cell.ground] += len(cell.free)
    return sizes


def _grounds(place: _Place, need: int) -> Sequence[Cell]:
    """Answer the cells of the few grounds that hold a slice; all cells where grounds do not matter."""
    sizes = _sizes(place)
    if not sizes:
        return place.cells
    chosen = {ground for ground, _ in fill(sorted(sizes.items(), key=lambda item: natural(item[0])), need)}
    return [cell for cell in place.cells if cell.ground in chosen]
