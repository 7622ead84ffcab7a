"""`queue`: the queued runs, why they wait, and when they start."""

import json
import time
from typing import TYPE_CHECKING

import typer

from launcher.cli.options import As, Output
from launcher.cli.output.console import clean, say, show, warn
from launcher.cli.plain import PlainCommand
from launcher.store.home import home

if TYPE_CHECKING:
    from collections.abc import Sequence

    from launcher.admission.queue.listing import QueueEntry


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(queue)


def queue(output: As = Output.TEXT) -> None:
    """Show queued runs, in order.

    STARTS BY is the latest start, if all runs before it use all of
    their `time_limit`; it is unknown where one of them has none.

    \b
    Example:
      nvlaunch queue
      nvlaunch queue -o json
    """
    from launcher.admission.queue.listing import list_queue
    from launcher.drive.successors import start_due
    from launcher.store.plain import plain
    from launcher.store.store import Store

    store = Store(home())
    for name in start_due(store, warn):
        say(f"started the controller of `{name}`: the run before it has ended")
    listing = list_queue(store)
    for error in listing.unreadable:
        warn(error.advice)
    if output is Output.JSON:
        show(json.dumps(plain(listing.runs), indent=2))
    elif listing.runs:
        show(_text(listing.runs))
    else:
        say("no queued runs; `nvlaunch up --queue FILE` queues a task that does not fit now")


def _text(runs: "Sequence[QueueEntry]") -> str:
    from launcher.cli.output.status import age
    from launcher.cli.output.table import table

    now = time.time()
    rows = [
        (
            str(run.position or "-"),
            run.name,
            f"{run.user}@{run.submit_host}",
            run.inventory,
            str(run.priority),
            age(now - run.since),
            _starts_by(run, now),
            clean(run.reason),
        )
        for run in runs
    ]
    return table(("NUMBER", "NAME", "USER", "INVENTORY", "PRIORITY", "QUEUED", "STARTS BY", "REASON"), rows)


def _starts_by(run: "QueueEntry", now: float) -> str:
    """Return a time today without its date."""
    if run.starts_by is None:
        return "unknown"
    at, today = time.localtime(run.starts_by), time.localtime(now)
    return time.strftime("%H:%M" if at[:3] == today[:3] else "%Y-%m-%d %H:%M", at)
