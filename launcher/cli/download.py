"""Files of several nodes on their way here, at once, and how far they are."""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

from launcher.cli.output.console import coloured
from launcher.cli.targets import Place
from launcher.cli.untar import Arrival, Tally
from launcher.core.model.run import Run
from launcher.core.model.text import count
from launcher.errors import LaunchError
from launcher.ports import Nodes

FAN_OUT = 16
GLANCE_S = 0.2
SHOWN = 5


class Haul:
    """One path of several ranks, each to a folder of its own below `into`."""

    def __init__(self, nodes: Nodes, run: Run, places: Sequence[Place], path: str, into: Path, *, force: bool) -> None:
        self.left_out: list[tuple[str, str]] = []
        self.failed: list[tuple[str, str]] = []
        self.in_the_way = False
        self._nodes = nodes
        self._run = run
        self._path = path
        self._into = into
        self._force = force
        self._over = threading.Event()
        self._tallies = {place: Tally() for place in places}

    def run(self) -> None:
        """Take all that comes, to its end; what failed is told by `failed`. Ctrl-C leaves no half of a file."""
        pool = ThreadPoolExecutor(FAN_OUT, thread_name_prefix="haul")
        try:
            with _shown() as show:
                ends = {pool.submit(self._one, place, tally): place for place, tally in self._tallies.items()}
                while wait(ends, GLANCE_S).not_done:
                    show(self.summary())
        finally:
            self._over.set()
            pool.shutdown(wait=False, cancel_futures=True)
        for end, place in ends.items():
            self._conclude(end, place)

    def summary(self) -> str:
        """Return how much is here."""
        files = sum(tally.files for tally in self._tallies.values())
        size = sum(tally.size for tally in self._tallies.values())
        return f"{count(files, 'file')}, {_amount(size)}, in `{self._into}`"

    def _folder(self, place: Place) -> Path:
        member = place.member
        assert member is not None  # a spare has no rank to be asked for
        whose = self._into if len(self._run.task.groups) == 1 else self._into / member.group
        return whose / str(member.rank)

    def _one(self, place: Place, tally: Tally) -> tuple[str, ...]:
        """Return what a node left out. The sender has a thread of its own: it writes while we read."""
        reading, writing = os.pipe()
        arrival = Arrival(self._folder(place), tally, force=self._force)
        sent: Future[tuple[str, ...]] = Future()
        sender = threading.Thread(target=self._send, args=(place, writing, sent), daemon=True, name="fetch")
        sender.start()
        trouble: LaunchError | None = None
        with os.fdopen(reading, "rb") as stream:
            try:
                arrival.unpack(stream)
            except LaunchError as error:
                trouble = error
        try:
            left_out = sent.result()
        except _HereError:
            left_out = ()  # it was our own side that ended it
        if trouble is not None:
            raise trouble
        return left_out

    def _send(self, place: Place, writing: int, sent: "Future[tuple[str, ...]]") -> None:
        def take(part: bytes) -> None:
            if self._over.is_set():
                raise _HereError("it was interrupted")
            try:
                with memoryview(part) as view:
                    at = 0
                    while at < len(view):
                        at += os.write(writing, view[at:])
            except BrokenPipeError:
                raise _HereError("nobody takes what comes") from None

        try:
            sent.set_result(self._nodes.fetch(self._run, place.node, self._path, take))
        except BaseException as error:  # noqa: BLE001 it is raised again by whoever waits
            sent.set_exception(error)
        finally:
            os.close(writing)

    def _conclude(self, end: "Future[tuple[str, ...]]", place: Place) -> None:
        try:
            self.left_out += [(place.label, line) for line in end.result()]
        except LaunchError as error:
            self.failed.append((place.label, error.message))
        refused = self._tallies[place].refused
        self.failed += [(place.label, words) for words in refused[:SHOWN]]
        if len(refused) > SHOWN:
            self.failed.append((place.label, f"and {len(refused) - SHOWN} more that were not taken"))
        self.in_the_way = self.in_the_way or any(words.endswith("it is here already") for words in refused)


class _HereError(LaunchError):
    """Our own side has ended the transfer, and says why itself."""


@contextmanager
def _shown() -> Iterator[Callable[[str], object]]:
    """Give a way to show one changing line on a terminal; elsewhere nothing is shown before the end."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False, no_color=not coloured(sys.stderr))
    with console.status("...") as live:
        yield lambda words: live.update(Text(words))


def _amount(size: int) -> str:
    """Return a number of bytes as people read it."""
    value, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"
