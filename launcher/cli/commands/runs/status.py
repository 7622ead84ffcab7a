"""`status`: what runs do, from the snapshots of their controllers.

Imports little, so that it starts fast.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import As, OneRunOrAll, Output
from launcher.cli.output.console import say, show, warn
from launcher.cli.plain import PlainCommand
from launcher.errors import LaunchError, OtherVersionError
from launcher.store.home import home

if TYPE_CHECKING:
    from launcher.cli.output.status import Snapshot
    from launcher.store.status_reads import StatusReader, StoredStatus

MAX_ENDED = 10
"""How many ended runs the table shows."""
STARTUP_S = 30.0
"""How long a new run may have no controller before that is reported (s)."""
STALE_S = 15.0
"""From which age on of a status it is asked whether its controller can store anything (s)."""
REFRESH_S = 1.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(status)


def status(
    run: OneRunOrAll = None,
    output: As = Output.TEXT,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Show it again after every change.")] = False,
    every: Annotated[
        bool, typer.Option("-a", "--all", help=f"All ended runs (default: the last {MAX_ENDED}).")
    ] = False,
) -> None:
    """Show runs, or the ranks of one run.

    The state is the one that the run's controller saw last.

    \b
    Example:
      nvlaunch status
      nvlaunch status vla-pretrain -o json
    """
    from launcher.store.status_reads import StatusReader

    reader = StatusReader(home())
    snapshots = _Snapshots()

    def read() -> "Sequence[StoredStatus]":
        return (reader.find(run),) if run else reader.all()

    def text(found: "Sequence[StoredStatus]") -> str:
        if output is Output.JSON:
            return json.dumps(list(snapshots.of(found, alone=bool(run))), indent=None if watch else 2)
        return _one(snapshots, found) if run else _many(snapshots, found, every=every)

    if watch:
        _watch(read, text)
        return
    found = read()
    early: frozenset[str] = frozenset()
    if any(not one.ended and not one.driven for one in found):
        early = _start_due()
        found = read()
    if output is Output.TEXT and not found:
        say("no runs; `nvlaunch up FILE` starts one")
        return
    show(text(found))
    _warn(found, early)
    _warn_stale(reader, found)


def _start_due() -> frozenset[str]:
    """Start the controllers of runs whose turn has come: the controller that should have done it may have died.

    Return the runs whose turn has not come, which need none.
    """
    from launcher.drive.successors import start_due
    from launcher.store.store import Store

    try:
        store = Store(home())
        for name in start_due(store, warn):
            say(f"started the controller of `{name}`: the run before it has ended")
        return store.chains.early()
    except LaunchError as error:  # what is stored can be shown all the same
        warn(error.advice)
        return frozenset()


class _Snapshots:
    """Reads snapshots. A run of another version is reported once, and hides no other."""

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def of(self, found: "Sequence[StoredStatus]", *, alone: bool = False) -> "Iterator[Snapshot]":
        """Return the snapshots of readable runs.

        OtherVersionError for an unreadable one that is asked for `alone`.
        """
        from launcher.cli.output.status import checked_snapshot

        for one in found:
            try:
                yield checked_snapshot(one.plain())
            except (ValueError, TypeError) as error:
                unreadable = OtherVersionError(one.id)
                if alone:
                    raise unreadable from error
                if one.id not in self._warned:
                    self._warned.add(one.id)
                    warn(unreadable.advice)


def _one(snapshots: _Snapshots, found: "Sequence[StoredStatus]") -> str:
    from launcher.cli.output.status import run_text

    (snapshot,) = snapshots.of(found, alone=True)
    return run_text(snapshot, time.time())


def _many(snapshots: _Snapshots, found: "Sequence[StoredStatus]", *, every: bool) -> str:
    from launcher.cli.output.status import runs_text

    ended = [one for one in found if one.ended]
    hidden = () if every else ended[:-MAX_ENDED]
    rows = list(snapshots.of([one for one in found if one not in hidden]))
    if hidden:
        say(f"{len(hidden)} more runs have ended; `--all` shows them")
    return runs_text(rows, time.time())


def _warn(found: "Sequence[StoredStatus]", early: frozenset[str]) -> None:
    for one in found:
        if not one.ended and not one.driven and one.id not in early and time.time() - one.created > STARTUP_S:
            warn(f"run `{one.name}` has no controller; `nvlaunch watch {one.name}` starts one")


def _warn_stale(reader: "StatusReader", found: "Sequence[StoredStatus]") -> None:
    """Say why what is shown is old, where controllers cannot store anything."""
    driven = [one for one in found if one.driven and not one.ended]
    old = next((one for one in driven if _age(one) > STALE_S), None)
    if old is not None and (trouble := reader.trouble(old.id)) is not None:
        warn(f"{trouble}; until then nothing is decided for the runs, and the status is old")


def _age(one: "StoredStatus") -> float:
    try:
        return time.time() - float(one.plain()["observed_at"])
    except (ValueError, TypeError, KeyError):
        return 0.0


def _watch(read: "Callable[[], Sequence[StoredStatus]]", text: "Callable[[Sequence[StoredStatus]], str]") -> None:
    """Show again after each change, until Ctrl-C or until all runs have ended."""
    from launcher.transport.clock import pause

    before = None
    while True:
        found = read()
        if found != before:
            if sys.stdout.isatty():
                show("\x1b[H\x1b[2J" + text(found))
            else:
                show(text(found))
            before = found
        if found and all(one.ended for one in found):
            return
        pause(REFRESH_S)
