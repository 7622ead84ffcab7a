"""Numbers with their nouns, amounts of data and spans of time, as people write and read them."""

import re

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 node`, `2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def data_size(size: int) -> str:
    """Return a number of bytes with its unit: `13 B`, `1.2 kB`, `4.0 GB`."""
    value, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{size} B" if units[0] == "B" else f"{value:.1f} {units[0]}"


def span(seconds: float) -> str:
    """Return a span of time in its two largest units: `3m12s`, `1h30m`, `2h`."""
    left = max(0, int(seconds))
    for size, unit, small, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if left >= size:
            rest = left % size // small
            return f"{left // size}{unit}" + (f"{rest}{smaller}" if rest else "")
    return f"{left}s"


def seconds_of(text: str) -> float | None:
    """Return the seconds of a span of time: `90`, `90s`, `30m`, `72h`, `2d`, `H:MM:SS` or `D-H:MM:SS`; else None."""
    if match := re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smhd]?)", text, re.ASCII):
        return float(match[1]) * _UNITS[match[2]]
    if match := re.fullmatch(r"(?:(\d{1,5})-)?(\d{1,5}):([0-5]\d):([0-5]\d)", text, re.ASCII):
        return float(int(match[1] or 0) * 86400 + int(match[2]) * 3600 + int(match[3]) * 60 + int(match[4]))
    return None
