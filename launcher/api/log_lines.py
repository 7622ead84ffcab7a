"""Lines of logs."""

from collections.abc import Iterator
from dataclasses import dataclass

from launcher.drive.log_reader import LogChunk


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line of a log, without its end.

    `source` is the rank, such as `main/3`, or the node of a provisioning log.
    """

    source: str
    text: str

    def __str__(self) -> str:
        return f"[{self.source}] {self.text}"


def log_lines(chunks: Iterator[LogChunk]) -> Iterator[LogLine]:
    """Return the whole lines in chunks of logs, then those without an end."""
    rest: dict[str, bytes] = {}
    for chunk in chunks:
        label = chunk.source.label
        *lines, rest[label] = (rest.get(label, b"") + chunk.data).split(b"\n")
        for line in lines:
            yield _line(label, line)
    for label, left in rest.items():
        if left:
            yield _line(label, left)


def _line(label: str, line: bytes) -> LogLine:
    return LogLine(source=label, text=line.decode("utf-8", "replace"))
