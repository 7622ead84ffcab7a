"""Who a process is: its number alone is given again, with the time of its birth it is not."""

from pathlib import Path


def birth(pid: int) -> int | None:
    """Return when a process was started, in clock ticks since boot; None if there is none, or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def lives(pid: int, born: int) -> bool:
    """Tell whether the very process with this pid and birth is alive."""
    return birth(pid) == born
