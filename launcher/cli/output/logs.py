"""Logs on stdout: one byte for byte into a file or pipe, else line by line; several have a label."""

import re
import sys
import time

from launcher.cli.output.console import clean, say, show, show_bytes
from launcher.cli.output.log_text import LogText
from launcher.core.model.text import count
from launcher.drive.log_reader import LogChunk, LogSource


class LogPrinter:
    """Prints chunks of logs.

    With `labelled`, each line is whole and begins with the label of its log. With `lines`, one log is printed by lines
    too: always so on a terminal, which a program must not control. `secrets` matches what is blanked in lines,
    `longest` characters at most.
    """

    def __init__(
        self, *, labelled: bool, lines: bool = False, secrets: re.Pattern[str] | None = None, longest: int = 0
    ) -> None:
        self._labelled = labelled
        self._raw = not (labelled or lines or sys.stdout.isatty())
        self._secrets, self._longest = secrets, longest
        self._texts: dict[str, tuple[LogSource, LogText]] = {}

    def show(self, chunk: LogChunk) -> None:
        """Print a chunk; by lines, the part up to the last line end."""
        source = chunk.source
        if chunk.restarted:
            self._finish(source.label)
            say(clean(f"{source.label}: restarted (attempt {chunk.restarted})"))
        elif self._raw:
            show_bytes(chunk.data)
        else:
            text = self._texts.setdefault(source.label, (source, LogText(self._secrets, self._longest)))[1]
            if chunk.skipped:
                self._lines(source, [f"... {count(chunk.skipped, 'byte')} left out"])
            self._lines(source, text.feed(chunk.data, time.monotonic()))

    def finish(self) -> None:
        """Print the last lines that have no line end."""
        for label in tuple(self._texts):
            self._finish(label)

    def _finish(self, label: str) -> None:
        if label in self._texts:
            source, text = self._texts.pop(label)
            self._lines(source, text.finish())

    def _lines(self, source: LogSource, lines: list[str]) -> None:
        label = f"[{source.label}] " if self._labelled else ""
        for line in lines:
            show(f"{label}{line}")
