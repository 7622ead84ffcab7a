"""How far a question to many nodes has come: a live line on a terminal, elsewhere a line now and then."""

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from typing_extensions import Self

from launcher.cli.output.console import coloured, say
from launcher.core.model.inventory import Inventory, Transport
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.text import count

if TYPE_CHECKING:
    from rich.status import Status

# How often a line is written where there is no terminal (s).
EVERY = 5.0
# How many nodes that are waited for are named.
NAMED = 40


class Asking:
    """Tells people; nodes that are no machines of their own answer at once, and nothing is told of them."""

    def __init__(self, fleet: Inventory) -> None:
        self._quiet = fleet.transport is not Transport.SSH
        self._live: Status | None = None
        self._waiting: dict[NodeName, None] = {}
        self._asked = self._answered = 0
        self._slowest: NodeName | None = None
        self._began = self._told = time.monotonic()

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and not self._quiet:
            from rich.console import Console

            console = Console(stderr=True, highlight=False, no_color=not coloured(sys.stderr))
            self._live = console.status("asking the nodes")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live:
            self._live.stop()

    def asking(self, nodes: Sequence[NodeName]) -> None:
        """Begin to wait for nodes."""
        self._waiting = dict.fromkeys(nodes)
        self._asked, self._answered = len(nodes), 0
        self._began = self._told = time.monotonic()
        if self._live:
            self._live.start()
        self._show()

    def heard(self, node: NodeName, *, answered: bool) -> None:
        """Show one more node that has answered, or will not; the last one is the slowest."""
        self._waiting.pop(node, None)
        self._answered += answered
        self._slowest = node
        if self._waiting:
            self._show()
            return
        if self._live:
            self._live.stop()
        if not self._quiet:
            took = f"{time.monotonic() - self._began:.1f} s"
            last = f", the slowest was `{self._slowest}`" if self._asked > 1 else ""
            say(f"{self._answered} of {count(self._asked, 'node')} answered in {took}{last}")

    def _show(self) -> None:
        now = time.monotonic()
        if self._quiet or (not self._live and now - self._told < EVERY):
            return
        few = list(self._waiting)[:NAMED]
        more = " and others" if len(self._waiting) > NAMED else ""
        words = f"{self._answered} of {count(self._asked, 'node')} answered, waiting for {fold(few)}{more}"
        if self._live:
            from rich.text import Text

            self._live.update(Text(words))
        else:
            say(words)
            self._told = now
