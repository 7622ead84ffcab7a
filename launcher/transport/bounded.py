"""What a command may write that is kept in memory, and what is shown of it."""

from collections.abc import Callable
from typing import NoReturn, TypeAlias

TooMuch: TypeAlias = Callable[[str], NoReturn]
"""Is told in words what was too much, and raises."""

STDOUT = 32 << 20
"""Bytes of stdout: facts of a node, the largest answer, have some 100 KiB, and their own limit is as high."""

STDERR = 16 << 20
"""Bytes of stderr: lines of a program, of which the last 20 are shown."""

LINE = 1000
"""Characters of a line of a program that are shown."""

MOST_LINES = 1000


def last_lines(output: bytes, lines: int = 20) -> tuple[str, ...]:
    """Return the last lines of a program's output, each cut to what can be shown."""
    text = output[-lines * LINE * 4 :].decode(errors="replace").strip()
    return tuple(line[:LINE] for line in text.splitlines()[-lines:])


class KeptOutput:
    """The bytes of one stream, with a limit."""

    def __init__(self, name: str, limit: int, too_much: TooMuch) -> None:
        self.data = bytearray()
        self._name = name
        self._limit = limit
        self._too_much = too_much

    def add(self, part: bytes) -> None:
        """Keep a part."""
        self.data += part
        if len(self.data) > self._limit:
            self._too_much(f"wrote more than {self._limit >> 20} MiB to {self._name}, and was ended")
