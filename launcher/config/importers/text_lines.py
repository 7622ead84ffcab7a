"""Split a text file into numbered lines without comments.

Line ends of all systems are accepted, and continued lines are joined.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One line, and its comment; `number` counts from 1."""

    number: int
    text: str
    comment: str = ""


def lines(text: str, *, comments: str = "#", continued: bool = False) -> Iterator[Line]:
    r"""Yield the lines of a text, including empty ones.

    With `continued`, a `\` at the end joins the next line.
    """
    first, parts = 0, ""
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        first = first or number
        if continued and raw.endswith("\\") and not raw.lstrip().startswith("#"):
            parts += raw[:-1]
            continue
        yield _split(first, parts + raw, comments)
        first, parts = 0, ""
    if parts:
        yield _split(first, parts, comments)


def _split(number: int, raw: str, comments: str) -> Line:
    found = re.search(rf"(^|\s)[{comments}]", raw)
    if found is None:
        return Line(number, raw.strip())
    return Line(number, raw[: found.start()].strip(), raw[found.end() :].strip())
