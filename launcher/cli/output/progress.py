"""Progress: one changing line on a terminal; elsewhere a plain line now and then."""

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from typing_extensions import Self

from launcher.admission.listener import learnt_text
from launcher.cli.output.console import clean, coloured, say
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.text import count
from launcher.ports import LearntKey

if TYPE_CHECKING:
    from rich.status import Status

PLAIN_S = 5.0
"""How often a line is written where there is no terminal (s)."""
MAX_NAMED = 40
"""How many nodes are named that have not answered yet."""


class LiveLine:
    """A line at the bottom of a terminal that changes in place.

    Nothing where stderr is no terminal.
    """

    def __init__(self) -> None:
        self._status: Status | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.hide()

    @property
    def possible(self) -> bool:
        """Whether there is a terminal to show it on."""
        return sys.stderr.isatty()

    def show(self, text: str) -> None:
        """Show a text in place of the one before."""
        if not self.possible:
            return
        from rich.console import Console
        from rich.text import Text

        if self._status is None:
            console = Console(stderr=True, highlight=False, no_color=not coloured(sys.stderr))
            self._status = console.status("")
            self._status.start()
        self._status.update(Text(clean(text)))

    def hide(self) -> None:
        """Remove the line."""
        if self._status is not None:
            self._status.stop()
            self._status = None


class ChangingLine:
    """Shows one text that changes: in place on a terminal, elsewhere as a line each `PLAIN_S`."""

    def __init__(self) -> None:
        self._line = LiveLine()
        self._written = 0.0

    def show(self, text: str) -> None:
        """Show a text in place of the one before; the first line comes after `PLAIN_S`, too."""
        self._written = self._written or time.monotonic()
        if self._line.possible:
            self._line.show(text)
        elif time.monotonic() - self._written >= PLAIN_S:
            self._written = time.monotonic()
            say(clean(text))

    def hide(self) -> None:
        """Remove it."""
        self._line.hide()


class ProbeProgress:
    """Shows how many nodes have answered.

    `quiet` for nodes that answer at once, as they are not machines.
    """

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self._line = LiveLine()
        self._waiting: dict[NodeName, None] = {}
        self._asked = self._answered = 0
        self._begun = self._written = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._line.hide()

    def asking(self, nodes: Sequence[NodeName]) -> None:
        """Start to wait for nodes."""
        self._waiting = dict.fromkeys(nodes)
        self._asked, self._answered = len(nodes), 0
        self._begun = self._written = time.monotonic()
        self._show()

    def heard(self, node: NodeName, *, answered: bool) -> None:
        """Count a node that has answered, or will not.

        After the last one, write how long it took.
        """
        self._waiting.pop(node, None)
        self._answered += answered
        if self._waiting:
            self._show()
            return
        self._line.hide()
        if not self.quiet:
            took = f"{time.monotonic() - self._begun:.1f} s"
            slowest = f"; slowest: {node}" if self._asked > 1 else ""
            say(f"{self._answered} of {count(self._asked, 'node')} answered in {took}{slowest}")

    def learnt(self, keys: Sequence[LearntKey]) -> None:
        """Write which host keys were learnt."""
        self._line.hide()
        for line in learnt_text(keys):
            say(clean(line))

    def _show(self) -> None:
        now = time.monotonic()
        if self.quiet or (not self._line.possible and now - self._written < PLAIN_S):
            return
        named = list(self._waiting)[:MAX_NAMED]
        more = " and others" if len(self._waiting) > MAX_NAMED else ""
        text = f"{self._answered} of {count(self._asked, 'node')} answered, waiting for {fold(named)}{more}"
        if self._line.possible:
            self._line.show(text)
        else:
            say(text)
            self._written = now
