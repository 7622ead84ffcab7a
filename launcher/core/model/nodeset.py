"""Node sets such as `r07-n[01-16]`: expand, fold, and sort names naturally."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import product
from typing import NewType

NodeName = NewType("NodeName", str)

MAX_NAMES = 100_000
"""Limit on the names of one node set: ten times the largest fleet."""

MAX_DIGITS = 18
"""Limit on the digits of a number in a range; a longer number is a typing error."""

NaturalKey = tuple[tuple[str | tuple[int, str], ...], str]
"""A name as text and numbers, then the name itself: `r1` and `r01` never tie."""

_NUMBER = re.compile(r"([0-9]+)")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+)(?:/([0-9]+))?)?")
_ITEM = re.compile(r"(?:[^\[\],\s]|\[[^\[\]]*\])+")
_COMMA = re.compile(r"\s*,\s*")
_PART = re.compile(r"\[([^\]]*)\]|([^\[]+)")


@lru_cache(maxsize=65_536)
def natural(name: str) -> NaturalKey:
    """Return a sort key that puts `r2` before `r10`. Kept for reuse: placement sorts the same names again and again."""
    parts: list[str | tuple[int, str]] = []
    for index, part in enumerate(_NUMBER.split(name)):
        digits = part.lstrip("0")
        parts.append((len(digits), digits) if index % 2 else part)
    return tuple(parts), name


def expand(text: str) -> tuple[str, ...]:
    """Return the names in a node set, each once; ValueError if it is malformed.

    The notation is ClusterShell's NodeSet without set operators and groups.
    """
    return tuple(dict.fromkeys(_written(text)))


def repeated(text: str) -> tuple[str, ...]:
    """Return the names that a node set has more than once: `n2` of `n[1-2],n2`; ValueError if it is malformed."""
    return tuple(name for name, times in Counter(_written(text)).items() if times > 1)


def _written(text: str) -> list[str]:
    """Return the names in a node set as often as they are written."""
    names: list[str] = []
    count = 0
    for item in _items(text.strip()):
        axes = [[literal] if literal else _bracket(ranges) for ranges, literal in _PART.findall(item)]
        count += product_within(
            (sum(1 if isinstance(piece, str) else len(piece[0]) for piece in axis) for axis in axes), MAX_NAMES
        )
        if count > MAX_NAMES:
            raise ValueError(f"`{_short(text)}` expands to more than {MAX_NAMES} names")
        names.extend("".join(chosen) for chosen in product(*map(_spell, axes)))
    return names


def product_within(factors: Iterable[int], limit: int) -> int:
    """Return the product of counts of at least 1, or any number above the limit."""
    total = 1
    for factor in factors:
        total *= factor
        if total > limit:
            break
    return total


def fold(names: Iterable[str]) -> str:
    """Return the node set of names in natural order: `r07-n[01-15,17]`."""
    rows = [_NUMBER.split(name) for name in sorted(set(names), key=natural)]
    for axis in range(max(map(len, rows), default=0) - 2, 0, -2):
        groups: dict[tuple[str, ...], list[list[str]]] = {}
        for row in rows:
            key = (*row[:axis], "", *row[axis + 1 :]) if axis < len(row) else tuple(row)
            groups.setdefault(key, []).append(row)
        rows = [_merge(group, axis) for group in groups.values()]
    return ",".join(map("".join, rows))


OWN_NAME = "NODE"
"""Placeholder for a node's own name in a message about several nodes."""


def fold_messages(messages: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return each message once, with its folded names: `(r07-n[01-15], ok)`.

    The input is pairs of a name and its message; the order is that of the first name of each message. Messages that
    differ only in the node's own name are equal: with several names they show `NODE` in its place.
    """
    same: dict[str, list[tuple[str, str]]] = {}
    for name, message in messages:
        same.setdefault(without_own_name(name, message), []).append((name, message))
    return tuple(
        (fold(name for name, _ in equal), message if len(equal) > 1 else equal[0][1]) for message, equal in same.items()
    )


def without_own_name(name: str, message: str) -> str:
    """Return a message with `NODE` in place of the name of the node it is about."""
    return re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", OWN_NAME, message) if name else message


_Piece = str | tuple[range, int]
"""Literal text, or the numbers of a range and the width to pad them to."""


def _items(text: str) -> list[str]:
    """Return the parts of a node set, split at commas outside brackets."""
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
        raise ValueError(f"`{_short(text)}` has an unbalanced bracket")
    raise ValueError(f"`{_short(text)}` has an empty name or a space inside a name")


def _bracket(ranges: str) -> list[_Piece]:
    """Return the ranges of one bracket."""
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
        raise ValueError(f"`[{text}]` begins and ends with numbers of different length")
    if int(low) > int(high):
        raise ValueError(f"`[{text}]` ends before it begins")
    if int(step) < 1:
        raise ValueError(f"`[{text}]` has a step of zero")
    return range(int(low), int(high) + 1, int(step)), len(low) if padded else 0


def _spell(axis: Sequence[_Piece]) -> list[str]:
    """Return all texts that one part of a name expands to."""
    texts: list[str] = []
    for piece in axis:
        if isinstance(piece, str):
            texts.append(piece)
        else:
            numbers, width = piece
            texts.extend(f"{number:0{width}d}" for number in numbers)
    return texts


def _merge(rows: Sequence[list[str]], axis: int) -> list[str]:
    """Return one row for rows that differ only in the number at `axis`."""
    first = rows[0]
    if len(rows) == 1 or axis >= len(first):
        return first
    return [*first[:axis], f"[{_ranges([row[axis] for row in rows])}]", *first[axis + 1 :]]


def _ranges(numbers: Sequence[str]) -> str:
    """Return `01-03,5` for numbers in natural order.

    A range never mixes padded and unpadded numbers.
    """
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
    """Return the beginning of a long text, for an error message."""
    return text if len(text) <= 60 else f"{text[:57]}..."
