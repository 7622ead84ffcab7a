"""`watch`: follow a run again, and drive it again where its controller is gone."""

import typer

from launcher.cli.console import clean, say
from launcher.cli.options import RunWord, home
from launcher.cli.plain import PlainCommand


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(watch)


def watch(run: RunWord) -> None:
    """Follow a run to its end.

    Starts another controller where its own is gone. The exit code is that of the outcome.

    \b
    Example:
      nvlaunch watch vla-pretrain
    """
    from launcher.cli.conclude import conclude
    from launcher.cli.follow import drive_again, follow, leaving, start_driving
    from launcher.store.store import Store

    store = Store(home())
    row = store.find(run)
    if row.ended is None:
        with leaving(row.name):
            if row.owner is None:  # not yet, or told to stop
                start_driving(home(), row)
            else:
                drive_again(home(), row)
            say(f"{row.state.value.replace('_', ' ')}: {clean(row.headline)}")
            row = follow(store, home(), row.id, after=store.last_event(row.id))
    conclude(row)
