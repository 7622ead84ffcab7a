"""Names of many nodes in one short text, `r07-n[01-16]`: expand it, fold it, and order names as people do."""

import re
from collections.abc import Iterable, Sequence
from itertools import product
from typing import NewType

NodeName = NewType("NodeName", str)

MAX_NAMES = 100_000
"""The most names that one text may stand for: ten times the largest fleet, few enough to hold."""

MAX_DIGITS = 18
"""The longest number in a range, in digits; a longer one is a slip of the keyboard."""

NaturalKey = tuple[tuple[str | tuple[int, str], ...], str]
"""A name as text and numbers in turn, then the name itself, so that `r1` and `r01` never tie."""

_NUMBER = re.compile(r"([0-9]+)")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+)(?:/([0-9]+))?)?")
_ITEM = re.compile(r"(?:[^\[\],\s]|\[[^\[\]]*\])+")
_COMMA = re.compile(r"\s*,\s*")
_PART = re.compile(r"\[([^\]]*)\]|([^\[]+)")


def natural(name: str) -> NaturalKey:
    """Return a sort key that puts `r2` before `r10`."""
    parts: list[str | tuple[int, str]] = []
    for index, part in enumerate(_NUMBER.split(name)):
        digits = part.lstrip("0")
        parts.append((len(digits), digits) if index % 2 else part)
    return tuple(parts), name


def expand(text: str) -> tuple[str, ...]:
    """Return the names a text stands for, in its order, each once; a ValueError says what is wrong with the text.

    The notation is that of ClusterShell's NodeSet, without its set operators and groups.
    """
    names: dict[str, None] = {}
    count = 0
    for item in _items(text.strip()):
        axes = [[literal] if literal else _bracket(ranges) for ranges, literal in _PART.findall(item)]
        count += product_within(
            (sum(1 if isinstance(piece, str) else len(piece[0]) for piece in axis) for axis in axes), MAX_NAMES
        )
        if count > MAX_NAMES:
            raise ValueError(f"`{_short(text)}` stands for more than {MAX_NAMES} names")
        names.update(("".join(chosen), None) for chosen in product(*map(_spell, axes)))
    return tuple(names)


def product_within(factors: Iterable[int], limit: int) -> int:
    """Return the product of counts of at least 1, or just something above a limit: the whole may have any size."""
    total = 1
    for factor in factors:
        total *= factor
        if total > limit:
            break
    return total


def fold(names: Iterable[str]) -> str:
    """Return the short text that stands for these names, each once and in natural order: `r07-n[01-15,17]`."""
    rows = [_NUMBER.split(name) for name in sorted(set(names), key=natural)]
    for axis in range(max(map(len, rows), default=0) - 2, 0, -2):
        groups: dict[tuple[str, ...], list[list[str]]] = {}
        for row in rows:
            key = (*row[:axis], "", *row[axis + 1 :]) if axis < len(row) else tuple(row)
            groups.setdefault(key, []).append(row)
        rows = [_merge(group, axis) for group in groups.values()]
    return ",".join(map("".join, rows))


ITSELF = "NODE"
"""What stands for a node's own name in words that are said of several."""


def alike(said: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return names that were given the same words together, in the order of the first of each: `(r07-n[01-15], ok)`.

    Words that differ in the own name of each alone are the same; of several names they say `NODE`.
    """
    same: dict[str, list[tuple[str, str]]] = {}
    for name, message in said:
        same.setdefault(anonymous(name, message), []).append((name, message))
    return tuple(
        (fold(name for name, _ in given), message if len(given) > 1 else given[0][1]) for message, given in same.items()
    )


def anonymous(name: str, message: str) -> str:
    """Return words without the name of the one that they are said of."""
    return re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", ITSELF, message) if name else message


_Piece = str | tuple[range, int]
"""A literal, or the numbers of a range with the width they are padded to."""


def _items(text: str) -> list[str]:
    """Return the parts between those commas that stand outside brackets."""
    items: list[str] = []
    at = 0
    if not text:
        return items
    while found := _ITEM.match(text, at):
        items.append(found[0])
        gap = _COMMA.match(text, found.end())
        if gap is None:
            if found.end() == len(text):
                return items
            break
        at = gap.end()
    if text.count("[") != text.count("]") or re.search(r"\[[^\]]*\[|^[^\[]*\]", text):
        raise ValueError(f"`{_short(text)}` has a bracket without its partner")
    raise ValueError(f"`{_short(text)}` has an empty name or a space inside a name")


def _bracket(ranges: str) -> list[_Piece]:
    """Return the ranges between two brackets."""
    return [_piece(text.strip()) for text in ranges.split(",")]


def _piece(text: str) -> _Piece:
    """Return the numbers that `01-16` or `1-9/2` stands for."""
    found = _RANGE.fullmatch(text)
    if found is None:
        raise ValueError(f"`[{_short(text)}]` is not a number or a range of numbers")
    low, high, step = found[1], found[2] or found[1], found[3] or "1"
    if max(len(low), len(high), len(step)) > MAX_DIGITS:
        raise ValueError(f"`[{_short(text)}]` has a number of more than {MAX_DIGITS} digits")
    padded = any(len(number) > 1 and number[0] == "0" for number in (low, high))
    if padded and len(low) != len(high):
        raise ValueError(f"`[{text}]` pads its ends to different widths")
    if int(low) > int(high):
        raise ValueError(f"`[{text}]` ends before it begins")
    if int(step) < 1:
        raise ValueError(f"`[{text}]` has a step of zero")
    return range(int(low), int(high) + 1, int(step)), len(low) if padded else 0


def _spell(axis: Sequence[_Piece]) -> list[str]:
    """Return every text that one part of a name may be."""
    texts: list[str] = []
    for piece in axis:
        if isinstance(piece, str):
            texts.append(piece)
        else:
            numbers, width = piece
            texts.extend(f"{number:0{width}d}" for number in numbers)
    return texts


def _merge(rows: Sequence[list[str]], axis: int) -> list[str]:
    """Return one row for rows that differ in the number at `axis` alone."""
    first = rows[0]
    if len(rows) == 1 or axis >= len(first):
        return first
    return [*first[:axis], f"[{_ranges([row[axis] for row in rows])}]", *first[axis + 1 :]]


def _ranges(numbers: Sequence[str]) -> str:
    """Return `01-03,5` for numbers in natural order; a range never mixes padded and unpadded numbers."""
    padded = {len(text) for text in numbers if len(text) > 1 and text[0] == "0"}
    classes: dict[int, list[list[str]]] = {}
    for text in numbers:
        runs = classes.setdefault(len(text) if len(text) in padded else 0, [])
        if runs and int(text) == int(runs[-1][-1]) + 1:
            runs[-1].append(text)
        else:
            runs.append([text])
    ordered = sorted((run for runs in classes.values() for run in runs), key=lambda run: natural(run[0]))
    return ",".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in ordered)


def _short(text: str) -> str:
    """Return enough of a text to know it again."""
    return text if len(text) <= 60 else f"{text[:57]}..."
