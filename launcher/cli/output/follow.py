"""A run that is followed.

A line for each new status, or on a terminal a live line and one for each new state.
"""

from types import TracebackType

from typing_extensions import Self

from launcher.cli.output.console import clean, say, warn
from launcher.cli.output.progress import LiveLine
from launcher.cli.output.status import clock
from launcher.core.model.run import RunState
from launcher.store.journal import Event
from launcher.store.rows import RunRow


class RunProgress:
    """Shows on stderr what happens in a run."""

    def __init__(self) -> None:
        self._line = LiveLine()
        self._state = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._line.hide()

    def status(self, event: Event) -> None:
        """Show a new status."""
        self._line.show(event.message)
        if not self._line.possible or event.subject != self._state:
            say(clean(f"{clock(event.at)} {event.subject}: {event.message}"))
        self._state = event.subject

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
