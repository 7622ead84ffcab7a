"""A run that is followed.

A line for each new status, or on a terminal a live line, and a line for each new state and for what else is new.
"""

import re
from collections.abc import Callable, Iterable
from types import TracebackType

from typing_extensions import Self

from launcher.cli.output.console import clean, say, warn
from launcher.cli.output.logs import LogPrinter
from launcher.cli.output.progress import LiveLine
from launcher.cli.output.status import clock
from launcher.core.model.run import RunState
from launcher.drive.log_reader import LogChunk
from launcher.drive.output import OutputReader
from launcher.store.journal import Event
from launcher.store.rows import RunRow

# How far a run is, which the live line shows: `2 nodes in setup, 5 running`, `7 of 8 ranks running`.
_PROGRESS = re.compile(r"\d+ (?:nodes? |of \d+ ranks? running)")
_SPAN = re.compile(r"\b(?:\d+(?:\.\d+)? ?[smhd])+\b")


def news(message: str) -> frozenset[str]:
    """Return what a status message says besides how far the run is, and for how long: reasons, replacements, notes."""
    return frozenset(_SPAN.sub("", part) for part in message.split("; ") if not _PROGRESS.match(part))


class RunProgress:
    """Shows on stderr what happens in a run."""

    def __init__(self, dashboard: Callable[[], Iterable[str]] = tuple) -> None:
        """`dashboard` returns the lines about Ray's dashboard, as they are now."""
        self._dashboard = dashboard
        self._reached: tuple[str, ...] = ()
        self._line = LiveLine()
        self._state = ""
        self._message = ""
        self._told: frozenset[str] = frozenset()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._line.hide()

    def status(self, event: Event) -> None:
        """Show a new status."""
        self._message = event.message
        self._line.show(event.message)
        new = event.subject != self._state
        told = frozenset() if new else self._told
        self._told = told | news(event.message)
        if new or not self._line.possible or self._told != told:
            say(clean(f"{clock(event.at)} {event.subject}: {event.message}"))
        if new and event.subject == RunState.RUNNING.value:
            self._show_dashboard()
        self._state = event.subject

    def _show_dashboard(self) -> None:
        """Say how the dashboard is reached: at first, and after the head has moved."""
        lines = tuple(self._dashboard())
        if lines != self._reached:
            for line in lines:
                say(clean(line))
        self._reached = lines

    def output(self, printer: LogPrinter, chunks: Iterable[LogChunk]) -> None:
        """Print what ranks have written, above the live line."""
        shown = False
        for chunk in chunks:
            if not shown:
                self._line.hide()
            shown = True
            printer.show(chunk)
        if shown and self._message:
            self._line.show(self._message)

    def warning(self, event: Event) -> None:
        """Show a warning."""
        warn(clean(f"{event.subject}: {event.message}"))

    def node_failed(self, event: Event) -> None:
        """Show a node that a launch does not get; once ranks have run, the status says so."""
        if self._state in ("", RunState.STARTING.value):
            say(clean(f"{clock(event.at)} {event.subject}: {event.message}"))

    def queued_again(self, row: RunRow) -> None:
        """Show that the run was preempted."""
        say(clean(f"{row.name} is queued again: {row.status_message}"))

    def controller_died(self, row: RunRow) -> None:
        """Show that the controller is replaced."""
        say(f"the controller of `{row.name}` died; starting another")


REST_S = 5.0
"""How long the last output of a run that has ended is read (s)."""


class ProgramOutput:
    """Shows on stdout what ranks write while their run is followed. Use it as a context."""

    def __init__(self, reader: OutputReader, printer: LogPrinter, progress: RunProgress, hint: str) -> None:
        self._reader = reader
        self._printer = printer
        self._progress = progress
        self._hint = hint

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self._show(self._reader.rest(REST_S))
            self._printer.finish()
        self._reader.close()

    def show(self) -> None:
        """Print what is new; waits for nothing."""
        self._show(self._reader.take())

    def _show(self, chunks: Iterable[LogChunk]) -> None:
        for chunk in chunks:
            if self._hint:
                say(self._hint)
                self._hint = ""
            self._progress.output(self._printer, (chunk,))
