"""`status`: what the runs do, from the snapshots of their controllers. Starts fast: nothing that decides is read."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from launcher.cli.console import pause, say, show, warn
from launcher.cli.options import As, OneRunOrAll, Output, home
from launcher.cli.plain import PlainCommand

if TYPE_CHECKING:
    from launcher.store.shown import Shown

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
    from launcher.store.shown import Shelf

    shelf = Shelf(home())

    def look() -> "Sequence[Shown]":
        return (shelf.find(run),) if run else shelf.all()

    def text(shown: "Sequence[Shown]") -> str:
        if output is Output.JSON:
            return json.dumps(
                [{**json.loads(one.snapshot), "driven": one.driven} for one in shown], indent=None if watch else 2
            )
        return _one(shown[0]) if run else _many(shown, every=every)

    if watch:
        _watch(look, text)
        return
    shown = look()
    if output is Output.TEXT and not shown:
        say("no run yet; `nvlaunch up FILE` starts one")
        return
    show(text(shown))
    _warn(shown)


def _one(shown: "Shown") -> str:
    from launcher.cli.render_status import run_text

    return run_text(json.loads(shown.snapshot), time.time())


def _many(shown: "Sequence[Shown]", *, every: bool) -> str:
    from launcher.cli.render_status import runs_text

    over = [one for one in shown if one.over]
    hidden = () if every else over[:-OVER]
    rows: list[Any] = [json.loads(one.snapshot) for one in shown if one not in hidden]
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
