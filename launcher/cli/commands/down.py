"""`down`: end runs, until nothing of them is left on any node."""

from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import RunWords, Yes, home
from launcher.cli.output.console import agree, refuse, say, warn
from launcher.cli.plain import PlainCommand

if TYPE_CHECKING:
    from launcher.store.rows import RunRow
    from launcher.store.store import Store


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(down)


def down(
    runs: RunWords = None,
    every: Annotated[bool, typer.Option("--all", help="Every run that is not over.")] = False,
    yes: Yes = False,
) -> None:
    """End runs and free their nodes.

    Returns when nothing of them is left on any node. Ranks get the task's
    stop signal first, and its grace to write a checkpoint.

    \b
    Example:
      nvlaunch down vla-pretrain
      nvlaunch down --all --yes
    """
    from launcher.store.store import Store

    if bool(runs) == every:
        refuse("name the runs to end, or say `--all`", hint="`nvlaunch status` lists the runs")
    store = Store(home())
    rows = _chosen(store, runs or [])
    live = [row for row in rows.values() if row.ended is None]
    for row in rows.values():
        if row.ended is not None:
            say(f"`{row.name}` is over already: {row.state.value}")
    if not live:
        if every:
            say("no run is going on")
        return
    agree(f"end {', '.join(f'`{row.name}`' for row in live)}?", yes=yes)
    _end(store, live)


def _chosen(store: "Store", words: list[str]) -> "dict[str, RunRow]":
    """Return the runs that were named, each once; those that are not over where none was."""
    if words:
        found = tuple(store.find(word) for word in words)
    else:
        found, unreadable = store.live()
        for error in unreadable:
            warn(error.advice)
    return {row.id: row for row in found}


def _end(store: "Store", rows: "list[RunRow]") -> None:
    """All are told before the first is waited for."""
    from launcher.cli.follow import GOES_DOWN, follow, leaving, start_driving
    from launcher.errors import ProvisionError

    news = {row.id: store.last_event(row.id) for row in rows}
    for row in rows:
        store.want_nothing(row.id)
    with leaving(*(row.name for row in rows), words=GOES_DOWN):
        for row in rows:
            start_driving(home(), store.find(row.id))
        left = [row for row in (follow(store, home(), row.id, after=news[row.id]) for row in rows) if not _told(row)]
    if left:
        names = ", ".join(f"`{row.name}`" for row in left)
        hint = f"their controllers go on trying; `nvlaunch status {left[0].name}` shows which nodes are out of reach"
        outcomes = tuple((row.name, row.status_message) for row in left)
        raise ProvisionError(f"not all nodes are released: {names}", outcomes=outcomes, hints=(hint,))


def _told(row: "RunRow") -> bool:
    if row.ended is None:
        return False
    say(f"`{row.name}` is down ({row.state.value}): nothing of it is left on any node")
    return True
