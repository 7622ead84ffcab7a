"""One command on many nodes at once: its output line by line, how it ended on each, and its end before its time."""

import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace

from launcher.cli.output.console import say, show_bytes
from launcher.cli.targets import Place
from launcher.core.model.nodeset import fold
from launcher.core.model.run import Run
from launcher.errors import JobFailedError, LaunchError
from launcher.ports import Command, Nodes, Stream

FAN_OUT = 64


class Commanding:
    """A command that was asked for at some places of a run."""

    def __init__(self, nodes: Nodes, run: Run, places: Sequence[Place], command: Command) -> None:
        self._nodes = nodes
        self._run = run
        self._places = places
        self._command = command
        self._lock = threading.Lock()
        self._rest: dict[tuple[Place, Stream], bytes] = {}
        self._failed: dict[Place, str] = {}
        self._begun: set[Place] = set()
        self._pool = ThreadPoolExecutor(min(FAN_OUT, len(places)), thread_name_prefix="exec")
        self._stopping = False

    def run(self) -> None:
        """Run it everywhere, to its end; JobFailedError names where it failed, and how."""
        done = [self._pool.submit(self._one, place) for place in self._places]
        wait(done)
        self._pool.shutdown()
        for future in done:
            future.result()  # a reader that went away, or a bug of ours
        if self._failed:
            raise JobFailedError(f"`{self._command.argv[0]}` failed on {self._count()}: {self._words()}")

    def stop(self) -> Iterator[str]:
        """End it wherever it runs; return the words for places where that may have failed."""
        self._stopping = True
        with self._lock:
            running = sorted(self._begun, key=lambda place: place.label)
        if not running:
            return
        say(f"ending `{self._command.argv[0]}` on {fold(place.label for place in running)}")
        with ThreadPoolExecutor(min(FAN_OUT, len(running)), thread_name_prefix="stop") as pool:
            ends = [(place, pool.submit(self._end, place)) for place in running]
            for place, end in ends:
                if words := end.result():
                    yield f"{place.label}: {words}"
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _end(self, place: Place) -> str | None:
        try:
            self._nodes.stop_command(self._run, place.node, self._at(place))
        except LaunchError as error:
            return error.message
        return None

    def _one(self, place: Place) -> None:
        with self._lock:
            if self._stopping:
                return
            self._begun.add(place)
        try:
            status = self._nodes.exec_command(
                self._run, place.node, self._at(place), lambda stream, part: self._hear(place, stream, part)
            )
            if status:
                self._failed[place] = f"it exited with {status}"
        except LaunchError as error:
            self._failed[place] = error.message
        finally:
            with self._lock:
                self._begun.discard(place)
            for stream in Stream:
                if self._rest.get((place, stream)):
                    self._hear(place, stream, b"\n")

    def _at(self, place: Place) -> Command:
        return replace(self._command, member=place.member.name if place.member else None)

    def _hear(self, place: Place, stream: Stream, part: bytes) -> None:
        """The only output passes as it is; of several each whole line gets its label."""
        if len(self._places) == 1:
            self._write(stream, part)
            return
        whole, line_end, rest = (self._rest.get((place, stream), b"") + part).rpartition(b"\n")
        self._rest[place, stream] = rest
        if line_end:
            label = f"[{place.label}] ".encode()
            self._write(stream, b"".join(label + line + b"\n" for line in whole.split(b"\n")))

    def _write(self, stream: Stream, data: bytes) -> None:
        with self._lock:
            if stream is Stream.OUT:
                show_bytes(data)
            else:
                sys.stderr.buffer.write(data)
                sys.stderr.buffer.flush()

    def _count(self) -> str:
        if len(self._places) == 1:
            return f"`{self._places[0].label}`"
        return f"{len(self._failed)} of {len(self._places)}"

    def _words(self) -> str:
        """Places that failed alike are named together."""
        said: dict[str, list[str]] = {}
        for place in self._places:
            if place in self._failed:
                said.setdefault(self._failed[place], []).append(place.label)
        if len(self._places) == 1:
            return next(iter(said))
        return "; ".join(f"{fold(labels)}: {words}" for words, labels in said.items())
