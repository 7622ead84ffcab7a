"""Ranges of Ansible's inventories: `w[01:03].example.com`, `n[1:9:2]`.

See Ansible's inventory guide.
"""

import re
import string
from collections.abc import Iterator
from itertools import product

from launcher.config.importers.collector import HostCollector, short
from launcher.core.model.nodeset import MAX_DIGITS, MAX_NAMES, product_within

RANGE = re.compile(r"\[([0-9]+|[A-Za-z]):([0-9]+|[A-Za-z])(?::([0-9]+))?\]")


def expand(pattern: str, line: int, collector: HostCollector) -> tuple[str, ...]:
    """Return the hosts of a pattern; a wrong range is reported, and gives no hosts."""
    axes = list(_axes(pattern, line, collector))
    if any(axis is None for axis in axes):
        return ()
    good = [axis for axis in axes if axis is not None]
    count = product_within(map(len, good), MAX_NAMES)
    if count > MAX_NAMES:
        collector.mistake(line, f"`{short(pattern)}` expands to more than {MAX_NAMES} names")
        return ()
    collector.count_names(count, line)
    return tuple("".join(chosen) for chosen in product(*good))


class _Numbers:
    """The numbers of a range as text, created when they are needed."""

    def __init__(self, numbers: range, width: int) -> None:
        self._numbers = numbers
        self._width = width

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[str]:
        return (f"{one:0{self._width}d}" for one in self._numbers)


def _axes(pattern: str, line: int, collector: HostCollector) -> "Iterator[tuple[str, ...] | _Numbers | None]":
    at = 0
    for found in RANGE.finditer(pattern):
        yield (pattern[at : found.start()],)
        at = found.end()
        axis = _axis(found[1], found[2], found[3] or "1")
        if isinstance(axis, str):
            collector.mistake(line, f"`{short(found[0])}` {axis}", "write a range as `n[01:18]`")
        yield None if isinstance(axis, str) else axis
    yield (pattern[at:],)


def _axis(low: str, high: str, step: str) -> "tuple[str, ...] | _Numbers | str":
    """Return the values of a range, or the mistake in it."""
    if max(len(low), len(high), len(step)) > MAX_DIGITS:
        return f"has a number of more than {MAX_DIGITS} digits"
    if int(step) < 1:
        return "has a step of zero"
    if low.isdecimal() != high.isdecimal():
        return "mixes a number and a letter"
    if not low.isdecimal():
        letters = string.ascii_letters
        first, last = letters.index(low), letters.index(high)
        return tuple(letters[first : last + 1 : int(step)]) if first <= last else "ends before it begins"
    padded = low[0] == "0" and len(low) > 1
    if padded and len(low) != len(high):
        return "has ends of different widths"
    if int(low) > int(high):
        return "ends before it begins"
    return _Numbers(range(int(low), int(high) + 1, int(step)), len(low) if padded else 0)
