"""`events`: the journal of a run."""

import json

import typer

from launcher.cli.options import As, Follow, Output, RunWord
from launcher.cli.output.console import show
from launcher.cli.plain import PlainCommand
from launcher.store.home import home


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(events)


def events(run: RunWord, follow: Follow = False, output: As = Output.TEXT) -> None:
    """Show what happened in a run, and why.

    Actions appear twice: the intent with its reason, and the receipt
    with its result. `-f -o json` writes one JSON object per line.

    \b
    Example:
      nvlaunch events vla-pretrain
      nvlaunch events vla-pretrain -f -o json
    """
    from launcher.cli.output.events import event_lines
    from launcher.drive.follow import event_batches
    from launcher.store.plain import plain
    from launcher.store.store import Store

    store = Store(home())
    batches = event_batches(store, store.find(run).id, follow=follow)
    if output is Output.JSON and not follow:
        show(json.dumps([plain(event) for batch in batches for event in batch], indent=2))
        return
    for batch in batches:
        for line in (json.dumps(plain(event)) for event in batch) if output is Output.JSON else event_lines(batch):
            show(line)
