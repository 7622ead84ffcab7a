"""Logs of ranks and nodes, read from many nodes at once."""

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from launcher.core.model.nodeset import NodeName
from launcher.core.model.record import Record
from launcher.core.model.run import Run
from launcher.drive.targets import check_node, holder, members
from launcher.errors import LaunchError, ProvisionError, refuse
from launcher.ports import LogName, LogPart, Nodes
from launcher.transport.clock import pause

FAN_OUT = 32
TAIL_BYTES = 1 << 20
FOLLOW_S = 0.5
_ELSEWHERE = "where `nvlaunch events` shows that the rank was on another node, add `--rank N --node NODE`"


@dataclass(slots=True, kw_only=True)
class LogSource:
    """One log, and from where it is read next: a negative offset counts from its end.

    `read` is how far it was read. `failed` is why it cannot be read.
    """

    label: str
    node: NodeName
    name: LogName
    offset: int = 0
    read: int = 0
    attempt: int = 0
    failed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """Bytes of a log, before which `skipped` bytes were left out.

    `restarted` is the attempt where the rank has just been started again, else 0.
    """

    source: LogSource
    data: bytes = b""
    restarted: int = 0
    skipped: int = 0


def log_sources(
    run: Run,
    record: Record,
    *,
    rank: str | None = None,
    node: str | None = None,
    provision: bool = False,
    attempt: int | None = None,
) -> tuple[LogSource, ...]:
    """Return the chosen logs, in rank order.

    With `attempt` those of that attempt, with `node` too the logs there of ranks that another node has now. SpecError
    for a rank or node that the run does not have.
    """
    if node is not None:
        check_node(run, node)
    if provision:
        if rank is not None:
            refuse("`--rank` and `--provision` exclude each other", hint="`--node` selects one node")
        if attempt is not None:
            refuse("`--attempt` and `--provision` exclude each other", hint="`nvlaunch logs RUN --provision` has all")
        names = [name for name in run.placement.nodes if node in (None, name)]
        return tuple(LogSource(label=name, node=name, name=LogName()) for name in names)
    found = [(member, holder(run, record, member)) for member in members(run, rank)]
    if attempt is not None and rank is not None and node is not None:
        found = [(member, NodeName(node)) for member, _ in found]
    return tuple(
        LogSource(label=member.name, node=held, name=LogName(member=member.name, attempt=attempt or 0))
        for member, held in found
        if node in (None, held)
    )


class LogReader:
    """Reads several logs, each from where it was left. Close it to stop its threads."""

    def __init__(self, nodes: Nodes, run: Run, sources: Sequence[LogSource]) -> None:
        self._nodes = nodes
        self._run = run
        self._sources = sources
        self._pool = ThreadPoolExecutor(FAN_OUT, thread_name_prefix="logs")

    def tail(self, lines: int) -> Iterator[LogChunk]:
        """Return the last lines of each log; all for 0."""
        if lines == 0:
            while True:
                chunks = list(self.new())
                if not chunks:
                    return
                yield from chunks
        for source, part in self._read(from_end=True):
            source.offset, source.attempt = part.next_offset, part.attempt
            yield LogChunk(source=source, data=_last_lines(part.data, lines))

    def follow(self, ended: Callable[[], bool]) -> Iterator[LogChunk]:
        """Return what is added, until the run has ended and nothing is new."""
        while True:
            last = ended()
            chunks = list(self.new())
            yield from chunks
            if not chunks and last:
                return
            pause(FOLLOW_S)

    def new(self) -> Iterator[LogChunk]:
        """Return what each log has beyond what was read.

        The log of a restarted rank is read from its start.
        """
        for source, part in self._read():
            before, source.attempt = source.attempt, part.attempt
            if before and part.attempt != before:
                yield LogChunk(source=source, restarted=part.attempt)
                if source.offset:
                    source.offset = 0
                    continue
            skipped = part.next_offset - len(part.data) - source.read if source.offset < 0 else 0
            source.offset = source.read = part.next_offset
            if part.data:
                yield LogChunk(source=source, data=part.data, skipped=max(0, skipped))

    @property
    def empty(self) -> bool:
        """Whether no log has had a byte so far."""
        return not any(source.offset for source in self._sources)

    def check(self) -> None:
        """Raise ProvisionError where a log could not be read."""
        failed = tuple((source.label, source.failed) for source in self._sources if source.failed)
        if failed:
            gone = any(source.failed and source.name.attempt for source in self._sources)
            what, hints = f"cannot read {len(failed)} of {len(self._sources)} logs", (_ELSEWHERE,) if gone else ()
            raise ProvisionError(what, outcomes=failed, hints=hints)

    def close(self) -> None:
        """Stop reading; does not wait for reads that are under way."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _read(self, *, from_end: bool = False) -> list[tuple[LogSource, LogPart]]:
        readable = [source for source in self._sources if source.failed is None]
        parts = self._pool.map(lambda source: self._part(source, -TAIL_BYTES if from_end else source.offset), readable)
        return [(source, part) for source, part in zip(readable, parts, strict=True) if part is not None]

    def _part(self, source: LogSource, offset: int) -> LogPart | None:
        try:
            part = self._nodes.read_log(self._run, source.node, source.name, offset)
        except LaunchError as error:
            source.failed = error.message
            return None
        if source.name.attempt and not part.exists:
            source.failed = f"{source.node} has no log of attempt {source.name.attempt}"
            return None
        return part


def _last_lines(data: bytes, count: int) -> bytes:
    """Return the last lines.

    A carriage return does not end one: a progress bar is one line.
    """
    return b"".join(re.findall(rb"[^\n]*\n|[^\n]+", data)[-count:])
