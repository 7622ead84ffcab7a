"""What a command may write that is kept in memory, and what is shown of it."""

import os
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import IO, NoReturn, TypeAlias

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


class OutputEnd:
    """The end of a stream, which a thread of its own reads: a program that writes without end fills no memory."""

    def __init__(self, stream: IO[bytes], limit: int) -> None:
        self._stream = stream
        self._limit = limit
        self._data = bytearray()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError, ValueError):  # closed by whoever gives up
            while part := os.read(self._stream.fileno(), 1 << 16):
                self._data += part
                del self._data[: -self._limit]

    def text(self) -> bytes:
        """Return the last bytes, at most `limit`, once the stream has ended or a second has passed."""
        self._reader.join(1.0)
        return bytes(self._data)


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
