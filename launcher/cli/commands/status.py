"""`status`: what the runs do, from the snapshots of their controllers. Starts fast: nothing that decides is read."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import As, OneRunOrAll, Output, home
from launcher.cli.output.console import pause, say, show, warn
from launcher.cli.plain import PlainCommand
from launcher.errors import OtherVersionError

if TYPE_CHECKING:
    from launcher.cli.output.status import Snapshot
    from launcher.store.status_reads import Shown

# How many runs that are over the table shows.
OVER = 10
# A run that was launched a moment ago may not have its controller yet (s).
BEGIN = 30.0
REFRESH = 1.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(status)


def status(
    run: OneRunOrAll = None,
    output: As = Output.TEXT,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Show it again whenever it changes.")] = False,
    every: Annotated[
        bool, typer.Option("-a", "--all", help=f"All runs that are over, not only the last {OVER}.")
    ] = False,
) -> None:
    """Show runs, or the ranks of one run.

    What is shown is what the controller of each run saw last.

    \b
    Example:
      nvlaunch status
      nvlaunch status vla-pretrain -o json
    """
    from launcher.store.status_reads import Shelf

    shelf = Shelf(home())
    reader = _Reader()

    def look() -> "Sequence[Shown]":
        return (shelf.find(run),) if run else shelf.all()

    def text(shown: "Sequence[Shown]") -> str:
        if output is Output.JSON:
            plain = [{**snapshot, "driven": one.driven} for one, snapshot in reader.read(shown, alone=bool(run))]
            return json.dumps(plain, indent=None if watch else 2)
        if run:
            return _one(reader, shown)
        return _many(reader, shown, every=every)

    if watch:
        _watch(look, text)
        return
    shown = look()
    if output is Output.TEXT and not shown:
        say("no run yet; `nvlaunch up FILE` starts one")
        return
    show(text(shown))
    _warn(shown)


class _Reader:
    """Reads snapshots; one that another version wrote is named once, and hides no other."""

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def read(self, shown: "Sequence[Shown]", *, alone: bool = False) -> "Iterator[tuple[Shown, Snapshot]]":
        """Return each run that can be read, with its snapshot; OtherVersionError for one that is asked for `alone`."""
        from launcher.cli.output.status import read_snapshot

        for one in shown:
            try:
                yield one, read_snapshot(one.snapshot)
            except (ValueError, TypeError) as error:
                unreadable = OtherVersionError(one.id)
                if alone:
                    raise unreadable from error
                if one.id not in self._warned:
                    self._warned.add(one.id)
                    warn(unreadable.advice)


def _one(reader: _Reader, shown: "Sequence[Shown]") -> str:
    from launcher.cli.output.status import run_text

    ((_, snapshot),) = reader.read(shown, alone=True)
    return run_text(snapshot, time.time())


def _many(reader: _Reader, shown: "Sequence[Shown]", *, every: bool) -> str:
    from launcher.cli.output.status import runs_text

    over = [one for one in shown if one.over]
    hidden = () if every else over[:-OVER]
    rows = [snapshot for _, snapshot in reader.read([one for one in shown if one not in hidden])]
    if hidden:
        say(f"{len(hidden)} more are over; `--all` shows them")
    return runs_text(rows, time.time())


def _warn(shown: "Sequence[Shown]") -> None:
    """A snapshot that nobody renews is told as such."""
    for one in shown:
        if not one.over and not one.driven and time.time() - one.created > BEGIN:
            warn(f"no controller looks after `{one.name}`; `nvlaunch watch {one.name}` starts one")


def _watch(look: "Callable[[], Sequence[Shown]]", text: "Callable[[Sequence[Shown]], str]") -> None:
    """Show again on each change until Ctrl-C, or until the only run asked for is over."""
    before = None
    while True:
        shown = look()
        if shown != before:
            if sys.stdout.isatty():
                show("\x1b[H\x1b[2J" + text(shown))
            else:
                show(text(shown))
            before = shown
        if shown and all(one.over for one in shown):
            return
        pause(REFRESH)
