"""Reads what a run that is followed prints, in a thread of its own: nobody who follows waits for a node."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, Queue

from launcher.core.model.nodeset import NodeName
from launcher.core.model.record import Record
from launcher.core.model.run import Run, RunId
from launcher.drive.adapters import open_nodes
from launcher.drive.log_reader import LogChunk, LogReader, LogSource, log_sources
from launcher.errors import LaunchError
from launcher.ports import Nodes
from launcher.store.store import Store
from launcher.transport.clock import pause

READ_S = 1.0
"""How often logs are read (s)."""

AGAIN_S = 5.0
"""When a log that could not be read is tried again (s)."""

BEHIND_BYTES = 1 << 20
"""After a read of so much, all but the end of the rest is left out: whoever follows would fall behind."""

END_BYTES = 64 * 1024
"""How much of the end is shown then."""

WAITING = 16
"""How many chunks may wait to be shown; then reading waits."""


class OutputReader:
    """Reads the logs of some ranks of a run while it runs: from their begin, or with `from_end` their end and on.

    `rank` is a number, `GROUP/N`, or None for all. SpecError for one that the run does not have.
    """

    def __init__(self, home: Path, run: RunId, rank: str | None, *, from_end: bool = False) -> None:
        self._home = home
        self._id = run
        self._rank = rank
        self._from_end = from_end
        self._chunks: Queue[LogChunk] = Queue(WAITING)
        self._ended = threading.Event()
        self._stopped = threading.Event()
        self._sources: dict[tuple[str, NodeName], LogSource] = {}
        self._thread = threading.Thread(target=self._read, name="output", daemon=True)
        self._thread.start()

    def take(self) -> Iterator[LogChunk]:
        """Return what was read since the last time; waits for nothing."""
        while True:
            try:
                yield self._chunks.get_nowait()
            except Empty:
                return

    def rest(self, limit: float) -> Iterator[LogChunk]:
        """Return what is left of the output of a run that has ended, within so many seconds."""
        self._ended.set()
        waited = 0.0
        while self._thread.is_alive() and waited < limit:
            yield from self.take()
            self._thread.join(0.1)
            waited += 0.1
        yield from self.take()

    def close(self) -> None:
        """Stop reading; does not wait for a read that is under way."""
        self._stopped.set()

    def _read(self) -> None:
        store, nodes, retry = Store(self._home), None, 0.0
        try:
            while not self._stopped.is_set():
                last = self._ended.is_set()
                try:
                    run, record = store.load(store.chains.last(self._id))
                    begun = any(gang.attempt > 0 for gang in record.gangs.values())
                    nodes = nodes or (open_nodes(self._home, run.fleet) if begun else None)
                    new = nodes is not None and self._pass_on(nodes, run, record)
                except LaunchError:
                    new = False  # the store or the nodes cannot be read now; the run says why where that matters
                if last and not new:
                    return
                retry += READ_S
                if retry >= AGAIN_S:
                    retry = 0.0
                    for source in self._sources.values():
                        source.failed = None
                if not new:
                    self._stopped.wait(0.1 if last else READ_S)
        finally:
            if nodes is not None:
                nodes.close()
            store.close()

    def _pass_on(self, nodes: Nodes, run: Run, record: Record) -> bool:
        """Pass on what is new in the logs, and return whether there was anything."""
        wanted = log_sources(run, record, rank=self._rank)
        known = {(one.label, one.node): self._sources.get((one.label, one.node), one) for one in wanted}
        if self._from_end and not self._sources:
            for one in known.values():
                one.offset, one.read = -END_BYTES, sys.maxsize
        self._sources = known
        reader, new = LogReader(nodes, run, tuple(known.values())), False
        try:
            for chunk in reader.new():
                new = True
                if len(chunk.data) >= BEHIND_BYTES:
                    chunk.source.offset = -END_BYTES
                self._put(chunk)
        finally:
            reader.close()
        return new

    def _put(self, chunk: LogChunk) -> None:
        while self._chunks.full() and not self._stopped.is_set():
            pause(0.1)
        if not self._stopped.is_set():
            self._chunks.put(chunk)
