"""`events`: the journal of a run, as people read it."""

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from launcher.cli.console import clean, pause, show
from launcher.cli.options import As, Follow, Output, RunWord, home

if TYPE_CHECKING:
    from launcher.store.journal import Event


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(events)


def events(run: RunWord, follow: Follow = False, output: As = Output.TEXT) -> None:
    """Show what was decided, done and answered in a run, and why.

    With `-f -o json`: one JSON object a line.

    \b
    Example:
      nvlaunch events vla-pretrain
      nvlaunch events vla-pretrain -f -o json
    """
    from launcher.store.store import Store

    store = Store(home())
    found = store.find(run)
    if not follow:
        _show(store.events(found.id), output)
        return
    seen = 0
    while True:
        over = store.find(found.id).ended is not None
        for event in store.events(found.id, after=seen):
            seen = event.seq
            show(json.dumps(_plain(event)) if output is Output.JSON else _line(event))
        if over:
            return
        pause(0.2)


def _show(found: "Sequence[Event]", output: Output) -> None:
    if output is Output.JSON:
        show(json.dumps([_plain(event) for event in found], indent=2))
    else:
        show("\n".join(map(_line, found)))


def _line(event: "Event") -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.at))
    why = f" ({event.reason})" if event.reason else ""
    return clean(f"{when}  {event.kind.value:8}  {event.subject}: {event.words}{why}").replace("\n", " ")


def _plain(event: "Event") -> dict[str, object]:
    return {
        "seq": event.seq,
        "at": event.at,
        "kind": event.kind.value,
        "subject": event.subject,
        "words": event.words,
        "reason": event.reason,
    }
