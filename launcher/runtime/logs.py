"""The ends and pieces of log files, with bounded reads."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .protocol_files import LogHeader

TAIL_LINES = 20
TAIL_BYTES = 16 * 1024
LINE_CHARS = 1000
PART_BYTES = 1 << 20


def tail(path: Path) -> list[str]:
    """Return the last 20 lines of a file, 16 KiB at most.

    Invalid UTF-8 is replaced. Of a progress bar, its last state is a line. None without a file.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            text = file.read(TAIL_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return []
    lines = [_last_state(line)[:LINE_CHARS] for line in text.split("\n") if line.strip()]
    return lines[-TAIL_LINES:]


def _last_state(line: str) -> str:
    return next(state for state in reversed(line.split("\r")) if state.strip())


def part(path: Path, offset: int) -> tuple[bytes, int]:
    """Return up to 1 MiB of a file from an offset, and the offset after it.

    A negative offset counts from the end.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size + offset) if offset < 0 else min(offset, size))
            data = file.read(PART_BYTES)
            return data, file.tell()
    except FileNotFoundError:
        return b"", max(0, offset)


def newest(folder: Path) -> int:
    """Return the highest attempt in a member's folder; 0 where there is none."""
    try:
        return max((int(name) for name in os.listdir(folder) if name.isdecimal()), default=0)
    except FileNotFoundError:
        return 0


def main(argv: list[str]) -> int:
    """Print a header line and a piece of a log.

    `logs FOLDER MEMBER ATTEMPT OFFSET`; member `-` is the provisioning.
    """
    folder, member, attempt, offset = Path(argv[0]), argv[1], int(argv[2]), int(argv[3])
    if member == "-":
        path = folder / "log" / "provision.log"
    else:
        attempt = attempt or newest(folder / "ranks" / member)
        path = folder / "ranks" / member / str(attempt) / "log"
    data, after = part(path, offset)
    header: LogHeader = {"attempt": attempt, "next": after, "exists": path.exists()}
    sys.stdout.buffer.write(json.dumps(header).encode() + b"\n" + data)
    return 0
