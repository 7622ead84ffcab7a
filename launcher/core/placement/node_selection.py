"""How much of which cells a slice takes in its place: few of them, broken domains first, apart or balanced where asked.

`fill` is the rule of Kueue's BestFit: the largest first, and only the last one optimised.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TypeVar

from launcher.core.model.nodeset import natural
from launcher.core.placement.capacity import Cell, Role

_T = TypeVar("_T")

Portion = list[tuple[Cell, int]]


def fill(stock: Sequence[tuple[_T, int]], need: int) -> list[tuple[_T, int]]:
    """Return how much to take of which to get `need`: few pieces, the tightest last; stock order breaks ties.

    The stock must hold `need`.
    """
    left = sorted(stock, key=lambda item: -item[1])
    chosen: list[tuple[_T, int]] = []
    while need:
        fits = [item for item in left if item[1] >= need]
        if fits:
            tightest = min(fits, key=lambda item: item[1])
            return [*chosen, (tightest[0], need)]
        chosen.append(left.pop(0))
        need -= chosen[-1][1]
    return chosen


def most_slices(sizes: Iterable[int], need: int) -> int:
    """Return how many slices fit where each takes at most one node of each place: the rule of Gale and Ryser."""
    sizes = list(sizes)
    most = sum(sizes) // need
    while most and sum(min(size, most) for size in sizes) < most * need:
        most -= 1
    return most


def portion_of(cells: Sequence[Cell], role: Role, need: int, rounds: int) -> Portion:
    """Return what a slice takes of cells that hold it; `rounds` slices at most come to them.

    Where that is impossible because `spread` and `spread_members` cross, the portion is short.
    """
    if role.spread is not None:
        cells = _few_grounds(cells, role, need)
    if role.members is not None:
        return _apart(cells, role, need, rounds)
    if role.rule.balance is not None:
        return _balanced(cells, role, need)
    return broken_first(cells, role, need)


def waste(cell: Cell, role: Role) -> tuple[int, bool]:
    """Return how much is lost by taking of a cell: GPUs that nobody asked for, then a whole domain broken."""
    return cell.node.gpus - role.group.gpus, cell.whole


def by_value(cells: Iterable[Cell], level: str) -> dict[str, list[Cell]]:
    """Return the cells of each place at a level, in natural order."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.at(level) or "", []).append(cell)
    return {value: found[value] for value in sorted(found, key=natural)}


def worth(cells: Iterable[Cell], role: Role) -> int:
    """Return how many nodes one slice could take of cells."""
    if role.members is None:
        return sum(len(cell.free) for cell in cells)
    return len({cell.at(role.members) for cell in cells if cell.free})


def broken_first(cells: Sequence[Cell], role: Role, need: int) -> Portion:
    """Return what to take of cells that hold `need`: broken domains are used up before whole ones, few of each."""
    portion: Portion = []
    missing = need
    for _, alike in groupby(sorted(cells, key=lambda cell: waste(cell, role)), key=lambda cell: waste(cell, role)):
        stock = [(cell, len(cell.free)) for cell in alike]
        portion += fill(stock, min(missing, sum(size for _, size in stock)))
        missing = need - sum(count for _, count in portion)
    return portion


def _few_grounds(cells: Sequence[Cell], role: Role, need: int) -> Sequence[Cell]:
    """Return the cells of the few grounds that hold a slice: no other slice can use them then."""
    grounds = by_value(cells, role.spread or "")
    sizes = [(value, worth(own, role)) for value, own in grounds.items()]
    if len(sizes) == 1 or sum(size for _, size in sizes) < need:
        return cells
    return [cell for value, _ in fill(sizes, need) for cell in grounds[value]]


def _apart(cells: Sequence[Cell], role: Role, need: int, rounds: int) -> Portion:
    """Return one node of each of the values that have most left, counted no further than the slices to come."""
    values = by_value([cell for cell in cells if cell.free], role.members or "")
    rooms = {value: sum(len(cell.free) for cell in own) for value, own in values.items()}

    def order(value: str) -> tuple[int, tuple[int, bool], int]:
        return -min(rooms[value], rounds), min(waste(cell, role) for cell in values[value]), rooms[value]

    chosen = sorted(values, key=order)[:need]
    return [(min(values[value], key=lambda cell: (waste(cell, role), len(cell.free))), 1) for value in chosen]


def _balanced(cells: Sequence[Cell], role: Role, need: int) -> Portion:
    """Return as even a split as there is over the fewest places at the `balance` level."""
    values = by_value([cell for cell in cells if cell.free], role.rule.balance or "")
    sizes = {value: sum(len(cell.free) for cell in own) for value, own in values.items()}
    wasted = {value: max(waste(cell, role) for cell in own) for value, own in values.items()}
    shares = even(sorted(sizes.items(), key=lambda item: (wasted[item[0]], item[1])), need)
    return [part for value, count in shares for part in broken_first(values[value], role, count)]


def even(stock: Sequence[tuple[str, int]], need: int) -> list[tuple[str, int]]:
    """Return as even a split of `need` as there is over the fewest pieces; stock order says which are taken first.

    The stock must hold `need`.
    """
    largest = sorted(stock, key=lambda item: -item[1])
    pieces = next(count for count in range(1, len(stock) + 1) if sum(size for _, size in largest[:count]) >= need)
    able = [item for item in stock if item[1] >= -(-need // pieces)]
    chosen = able[:pieces] if len(able) >= pieces else largest[:pieces]
    shares: list[tuple[str, int]] = []
    for at, (value, size) in enumerate(sorted(chosen, key=lambda item: item[1])):
        shares.append((value, min(size, need // (pieces - at))))
        need -= shares[-1][1]
    return shares
