"""Logs on stdout: one byte for byte, several line by line with a label."""

from launcher.cli.output.console import clean, say, show_bytes
from launcher.drive.log_reader import LogChunk, LogSource


class LogPrinter:
    """Prints chunks of logs.

    With `labelled`, each line is whole and begins with the label of its log.
    """

    def __init__(self, *, labelled: bool) -> None:
        self._labelled = labelled
        self._rest: dict[str, tuple[LogSource, bytes]] = {}

    def show(self, chunk: LogChunk) -> None:
        """Print a chunk; of several logs the part up to the last line end."""
        source = chunk.source
        if chunk.restarted:
            say(clean(f"{source.label}: restarted (attempt {chunk.restarted})"))
        elif not self._labelled:
            show_bytes(chunk.data)
        else:
            _, before = self._rest.get(source.label, (source, b""))
            *lines, rest = (before + chunk.data).split(b"\n")
            self._rest[source.label] = source, rest
            for line in lines:
                self._line(source, line)

    def finish(self) -> None:
        """Print the last lines that have no line end."""
        for source, rest in self._rest.values():
            if rest:
                self._line(source, rest)

    def _line(self, source: LogSource, line: bytes) -> None:
        show_bytes(f"[{source.label}] ".encode() + line + b"\n")
