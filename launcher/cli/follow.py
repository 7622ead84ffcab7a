"""Show a run while it goes: its headlines as they come, until it is over. Following never harms a run."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import typer
from typing_extensions import Self

from launcher.cli.output.console import clean, coloured, pause, say, warn
from launcher.cli.output.status import clock
from launcher.core.model.run import RunId, RunState
from launcher.errors import ExitCode, LaunchError
from launcher.store.journal import Event, EventKind
from launcher.store.rows import RunRow
from launcher.store.store import Store

if TYPE_CHECKING:
    from rich.status import Status

# How often the journal is read (s): a person sees no delay, and a read costs a millisecond.
GLANCE = 0.1
# How long nodes may be out of reach at the end of a run before its follower leaves that to the controller (s).
PATIENCE = 20.0
# Controllers that may die under a follower before it gives up; one that was killed is replaced, a bug is not.
LIVES = 3


class Progress:
    """Headlines on stderr: one line for each where there is no terminal, else a live line and one for each state."""

    def __init__(self) -> None:
        self._live: Status | None = None
        self._state = ""

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console

            console = Console(stderr=True, highlight=False, no_color=not coloured(sys.stderr))
            self._live = console.status("...")
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live:
            self._live.stop()

    def tell(self, event: Event) -> None:
        """Show one status_message."""
        words = clean(event.message)
        if self._live:
            from rich.text import Text

            self._live.update(Text(words))
        if not self._live or event.subject != self._state:
            say(f"{clock(event.at)} {event.subject.replace('_', ' ')}: {words}")
        self._state = event.subject


class Follower:
    """Reads the journal of one run, and tells what is new; also that of the run that goes on for it."""

    def __init__(self, store: Store, run: RunId, progress: Progress, after: int = 0) -> None:
        self._store = store
        self._run = run
        self._progress = progress
        self._seen = after
        self._warned: set[str] = set()

    def look(self) -> RunRow:
        """Tell the news; return the run as it stood before they were read, so that an end never hides its words."""
        row = self._store.find(self._run)
        for event in self._store.events(self._run, after=self._seen):
            self._seen = event.seq
            if event.kind is EventKind.STATUS:
                self._progress.tell(event)
            elif event.kind is EventKind.WARNING and event.message not in self._warned:
                self._warned.add(event.message)
                warn(clean(f"{event.subject}: {event.message}"))
        after = self._store.queue.after(row.id) if row.ended is not None else None
        if after is None:
            return row
        say(clean(f"`{row.name}` waits for another turn: {row.status_message}"))
        self._run, self._seen = after, 0
        return self.look()


GOES_ON = "`{name}` goes on; `nvlaunch watch {name}` follows it again, `nvlaunch down {name}` takes it down"
GOES_DOWN = "`{name}` is taken down all the same; `nvlaunch down {name}` follows that again"


@contextmanager
def leaving(*names: str, words: str = GOES_ON) -> Iterator[None]:
    """Follow in this block: Ctrl-C ends the following alone, says what becomes of each run, and exits with 130."""
    try:
        yield
    except KeyboardInterrupt:
        say()
        for name in names:
            say(words.format(name=name))
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def follow(store: Store, home: Path, run: RunId, *, after: int = 0) -> RunRow:
    """Return a run when it is over, or when all that is left of it has been out of reach for a while.

    Tells what the journal says from behind entry `after` on. A controller that died is replaced.
    """
    lives = LIVES
    pending_since: float | None = None
    with Progress() as progress:
        follower = Follower(store, run, progress, after)
        while True:
            row = follower.look()
            if row.ended is not None:
                return row
            now = time.monotonic()
            pending_since = (pending_since or now) if row.state is RunState.RELEASE_PENDING else None
            if pending_since and now - pending_since > PATIENCE:
                return row
            lives -= drive_again(home, row)
            if not lives:
                raise LaunchError(
                    f"the controller of `{row.name}` died {LIVES} times",
                    hints=(f"its log is {_log(home, run)}",),
                )
            pause(GLANCE)


def drive_again(home: Path, row: RunRow) -> bool:
    """Whether a run had lost its controller, and has a new one now. One that was told to stop is not replaced:
    LaunchError says how to go on."""
    if row.owner is None:
        hints = (f"`nvlaunch watch {row.name}` drives it again", f"why: {_log(home, row.id)}")
        raise LaunchError(f"the controller of `{row.name}` ended before its run, which goes on undriven", hints=hints)
    if row.owner.alive():
        return False
    say(f"the controller of `{row.name}` is gone; starting another")
    start_driving(home, row)
    return True


def start_driving(home: Path, row: RunRow) -> None:
    """Make sure that a run that is not over has a live controller."""
    from launcher.drive.control import spawn

    if row.ended is None and not (row.owner and row.owner.alive()):
        spawn(home, row.id)


def _log(home: Path, run: RunId) -> Path:
    return home / "runs" / run / "controller.log"
