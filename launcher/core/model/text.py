"""Numbers with their nouns, for messages and tables."""


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 node`, `2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def span(seconds: float) -> str:
    """Return a span of time in its two largest units: `3m12s`, `1h30m`, `2h`."""
    left = max(0, int(seconds))
    for size, unit, small, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if left >= size:
            rest = left % size // small
            return f"{left // size}{unit}" + (f"{rest}{smaller}" if rest else "")
    return f"{left}s"
