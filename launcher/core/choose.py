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
    rule = group.topology
    if rule.within == NODE_LEVEL and rule.nodes_per_slice + rule.spares > 1:
        return ()
    picks = _Board(group, inventory, gather(inventory, sieve)).best_fit()
    if len(picks) < rule.slices and sieve.spread is not None:
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
    room: int = 0
    whole: bool = False

    def count(self) -> "_Place":
        """Take notice of what its cells have left."""
        self.room = sum([len(cell.free) for cell in self.cells])
        self.whole = all(cell.whole for cell in self.cells)
        return self


_Portion = list[tuple[Cell, int]]
_Closeness = tuple[int, bool, bool, int]


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
            roomy = [place for place in self.places if place.room >= self.need]
            if not roomy:
                break
            for place in self._best(self._preferred(roomy)):
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
        if len(cells) > 1:
            cells.sort(key=lambda cell: (natural(cell.rack), natural(cell.domain or ""), natural(cell.ground or "")))
        first, *others = cells
        return _Place(
            name=first.place,
            cells=cells,
            at={level: at for level, at in first.at.items() if all(cell.at[level] == at for cell in others)},
            gpus=max(node.gpus for cell in cells for node in cell.free) if self.without_gpus else 0,
            order=(natural(first.place), natural(first.domain or "" if self.local else "")),
        ).count()

    def _missing(self) -> int:
        return self.rule.slices - len(self.picks)

    def _preferred(self, roomy: Sequence[_Place]) -> Sequence[_Place]:
        """Answer the places that are together at the `prefer` level: where slices are, else where all of them fit."""
        level = self.rule.prefer
        if level is None:
            return roomy
        closeness = self._by_closeness(level, roomy)
        best = min(closeness, key=lambda value: (closeness[value], natural(value or "")))
        return [place for place in roomy if place.at.get(level) == best]

    def _best(self, roomy: Sequence[_Place]) -> Sequence[_Place]:
        """Answer the fullest place; among equals the one nearest to the other slices, then the first by name.

        All equals are the answer where each of them is needed: what is left in one makes it the fullest again.
        """
        fullness = list(map(self._fullness, roomy))
        fullest = min(fullness)
        ties = [place for place, full in zip(roomy, fullness, strict=True) if full == fullest]
        needed = sum([place.room // self.need for place in ties]) <= self._missing()
        if len(ties) == 1 or (needed and ties[0].cells[0].ground is None):
            return ties
        near = [(level, self._by_closeness(level, ties)) for level in self.levels]
        return [min(ties, key=lambda place: [closeness[place.at.get(level)] for level, closeness in near])]

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

    def _by_closeness(self, level: str, roomy: Sequence[_Place]) -> dict[str | None, _Closeness]:
        """Answer how near each value of a level is: beside other slices, named, with room for all missing, tightest."""
        missing = self._missing()
        return {
            value: (-self.nearby[level, value], value is None, room < missing, -room if room < missing else room)
            for value, room in self._slots(level, roomy).items()
        }

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
            self.places = [other.count() for other in self.places if other.cells]
        place.count()
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
