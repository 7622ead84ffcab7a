"""Sizes into portions: fill the largest first and end with the tightest, or search for a split where that fails."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

_T = TypeVar("_T")

MAX_WORK = 1_000_000
"""How many cells a search looks at before it gives up (well under a second): exact answers may take for ever."""

MAX_PORTIONS = 200
"""The most portions that are searched for, so that the search stays far from Python's recursion limit."""


def fill(stock: Sequence[tuple[_T, int]], need: int) -> list[tuple[_T, int]]:
    """Answer how much to take of which to get `need`: few pieces, the tightest last; stock order breaks ties.

    The stock must hold `need`. It is the rule of Kueue's BestFit: largest first, and only the last one optimised.
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


def bound(stock: Sequence[Sequence[tuple[str, int]]], need: int) -> int:
    """Answer a number of portions that no split can exceed, when a ground serves one portion and a place many."""
    by_place = 0
    for place in stock:
        big = sum(1 for _, size in place if size >= need)
        by_place += big + sum(size for _, size in place if size < need) // need
    return min(by_place, len({ground for place in stock for ground, _ in place}))


def cover(stock: Sequence[Sequence[tuple[str, int]]], need: int, want: int) -> list[tuple[int, frozenset[str]]] | None:
    """Answer `want` portions of at least `need`, each from one place, no two of them sharing a ground.

    `stock` has for each place the size it has on each ground. A portion is the index of its place with its grounds.
    None says that there is no such split, or that none was found within MAX_WORK.
    """
    if not 0 < want <= MAX_PORTIONS or bound(stock, need) < want:
        return None
    cells = [(place, ground, size) for place, sizes in enumerate(stock) for ground, size in _largest_first(sizes)]
    steps = iter(range(MAX_WORK // len(cells)))
    return _search(cells, 0, frozenset(), need, want, steps)


_Cells = list[tuple[int, str, int]]


def _largest_first(sizes: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    return sorted(sizes, key=lambda item: -item[1])


def _search(
    cells: _Cells, start: int, used: frozenset[str], need: int, want: int, steps: Iterator[int]
) -> list[tuple[int, frozenset[str]]] | None:
    """Answer portions whose first cells stand at `start` or later; each cell is the first of a portion, or unused."""
    if want == 0:
        return []
    for first in range(start, len(cells)):
        if next(steps, None) is None or _at_most(cells[first:], used, need) < want:
            return None
        for grounds in _portions(cells, first, used, need):
            rest = _search(cells, first + 1, used | grounds, need, want - 1, steps)
            if rest is not None:
                return [(cells[first][0], grounds), *rest]
    return None


def _at_most(cells: _Cells, used: frozenset[str], need: int) -> int:
    places: dict[int, list[tuple[str, int]]] = {}
    for place, ground, size in cells:
        if ground not in used:
            places.setdefault(place, []).append((ground, size))
    return bound(list(places.values()), need)


def _portions(cells: _Cells, first: int, used: frozenset[str], need: int) -> Iterator[frozenset[str]]:
    """Answer every portion that begins with a cell and needs each of its cells."""
    place, ground, size = cells[first]
    if ground in used:
        return
    if size >= need:
        yield frozenset((ground,))
        return
    for after in range(first + 1, len(cells)):
        if cells[after][0] != place:
            return
        for rest in _portions(cells, after, used, need - size):
            yield rest | {ground}
