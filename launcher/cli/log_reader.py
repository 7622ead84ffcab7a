"""Which logs are asked for, and reading them from many nodes at once without losing or mixing a line."""

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from launcher.cli.output.console import clean, pause, refuse, say, show_bytes
from launcher.cli.targets import holder, members
from launcher.core.model.nodeset import NodeName
from launcher.core.model.record import Record
from launcher.core.model.run import Run
from launcher.errors import LaunchError, ProvisionError
from launcher.ports import LogName, LogPart, Nodes

FAN_OUT = 32
FROM_END = 1 << 20
FOLLOW_S = 0.5


@dataclass(slots=True, kw_only=True)
class Source:
    """One log and how far it was read. `rest` is a line that has no end yet."""

    label: str
    node: NodeName
    name: LogName
    offset: int = 0
    attempt: int = 0
    rest: bytes = b""
    failed: str | None = None


def sources(run: Run, record: Record, *, rank: str | None, node: str | None, provision: bool) -> tuple[Source, ...]:
    """Return the logs asked for, in rank order; SpecError for a rank or node that the run does not have."""
    if node is not None and node not in run.placement.nodes:
        refuse(f"`{run.name}` has no node `{node}`", hint=f"`nvlaunch status {run.name}` lists its nodes")
    if provision:
        if rank is not None:
            refuse("`--rank` and `--provision` exclude each other", hint="`--node` chooses one node")
        names = [name for name in run.placement.nodes if node in (None, name)]
        return tuple(Source(label=name, node=name, name=LogName()) for name in names)
    found = [(member, holder(run, record, member)) for member in members(run, rank)]
    return tuple(
        Source(label=member.name, node=held, name=LogName(member=member.name))
        for member, held in found
        if node in (None, held)
    )


class Reader:
    """Reads several logs, each from where it was left."""

    def __init__(self, nodes: Nodes, run: Run, wanted: Sequence[Source]) -> None:
        self._nodes = nodes
        self._run = run
        self._sources = wanted
        self._pool = ThreadPoolExecutor(FAN_OUT, thread_name_prefix="logs")

    def start(self, tail: int) -> None:
        """Show the last lines of each; 0: all."""
        if tail == 0:
            self._all()
            return
        for source, part in self._read(from_end=True):
            source.offset, source.attempt = part.next_offset, part.attempt
            self._show(source, _last_lines(part.data, tail))

    def follow(self, over: Callable[[], bool]) -> None:
        """Show what is added, until the run is over and nothing is new."""
        while True:
            ended = over()
            if not self._news() and ended:
                return
            pause(FOLLOW_S)

    def finish(self, nothing: str = "nothing was written yet") -> None:
        """Show lines without an end, or say that there is nothing; ProvisionError where a log could not be read."""
        for source in self._sources:
            if source.rest:
                self._write(source, source.rest + b"\n")
        failed = tuple((source.label, source.failed) for source in self._sources if source.failed)
        if failed:
            raise ProvisionError(f"{len(failed)} of {len(self._sources)} logs could not be read", outcomes=failed)
        if not any(source.offset for source in self._sources):
            say(nothing)

    def close(self) -> None:
        """Wait for no log that is still under way."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _all(self) -> None:
        while self._news():
            pass

    def _news(self) -> bool:
        """Show what each has now; a rank that was started again begins at the start of its new log."""
        news = False
        for source, part in self._read():
            if part.attempt != source.attempt:
                if source.attempt:
                    say(clean(f"{source.label}: started again (attempt {part.attempt})"))
                restarted = source.attempt != 0 and source.offset != 0
                source.attempt = part.attempt
                if restarted:
                    source.offset, news = 0, True
                    continue
            source.offset = part.next_offset
            news = news or bool(part.data)
            self._show(source, part.data)
        return news

    def _read(self, *, from_end: bool = False) -> list[tuple[Source, LogPart]]:
        sound = [source for source in self._sources if source.failed is None]
        parts = self._pool.map(lambda source: self._part(source, -FROM_END if from_end else source.offset), sound)
        return [(source, part) for source, part in zip(sound, parts, strict=True) if part is not None]

    def _part(self, source: Source, offset: int) -> LogPart | None:
        try:
            return self._nodes.read_log(self._run, source.node, source.name, offset)
        except LaunchError as error:
            source.failed = error.message
            return None

    def _show(self, source: Source, data: bytes) -> None:
        """The only log passes as it is; of several each whole line gets its label."""
        if len(self._sources) == 1:
            self._write(source, data)
            return
        *lines, source.rest = (source.rest + data).split(b"\n")
        for line in lines:
            self._write(source, line + b"\n")

    def _write(self, source: Source, data: bytes) -> None:
        label = b"" if len(self._sources) == 1 else f"[{source.label}] ".encode()
        show_bytes(label + data)


def _last_lines(data: bytes, count: int) -> bytes:
    """Return the last lines; a carriage return ends none, so that a progress bar is one line."""
    return b"".join(re.findall(rb"[^\n]*\n|[^\n]+", data)[-count:])
