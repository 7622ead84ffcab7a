"""`down`: end runs and release their nodes."""

from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import RunWords, Yes
from launcher.cli.output.console import agree, say, warn
from launcher.cli.plain import PlainCommand
from launcher.errors import refuse
from launcher.store.home import home

if TYPE_CHECKING:
    from launcher.store.rows import RunRow
    from launcher.store.store import Store


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(down)


def down(
    runs: RunWords = None,
    every: Annotated[bool, typer.Option("--all", help="All runs that have not ended.")] = False,
    yes: Yes = False,
) -> None:
    """End runs and release their nodes.

    Ranks get the task's stop signal first, and its grace period to write
    a checkpoint. Returns once all nodes are released.

    \b
    Example:
      nvlaunch down vla-pretrain
      nvlaunch down --all --yes
    """
    from launcher.store.store import Store

    if bool(runs) == every:
        refuse("name the runs to end, or use `--all`", hint="`nvlaunch status` lists the runs")
    store = Store(home())
    rows = _chosen(store, runs or [])
    for row in rows.values():
        if row.ended is not None:
            say(f"run `{row.name}` has already ended: {row.state.value}")
    active = [row for row in rows.values() if row.ended is None]
    if not active:
        if every:
            say("no active runs")
        return
    agree(f"end {', '.join(f'`{row.name}`' for row in active)}?", yes=yes)
    _end(store, active)


def _chosen(store: "Store", words: list[str]) -> "dict[str, RunRow]":
    """Return the named runs, each once; without names all that have not ended."""
    if words:
        found = tuple(store.find(word) for word in words)
    else:
        found, unreadable = store.live()
        for error in unreadable:
            warn(error.advice)
    return {row.id: row for row in found}


def _end(store: "Store", rows: "list[RunRow]") -> None:
    """Ask all runs to end, then wait for each."""
    from launcher.cli.drivers import SHUTDOWN_CONTINUES, detachable
    from launcher.cli.output.follow import RunProgress
    from launcher.drive.follow import follow
    from launcher.drive.spawn import ensure_controller
    from launcher.errors import ProvisionError

    seen = {row.id: store.journal.last(row.id) for row in rows}
    for row in rows:
        store.want_nothing(row.id)
    pending: list[RunRow] = []
    with detachable(*(row.name for row in rows), message=SHUTDOWN_CONTINUES):
        for row in rows:
            ensure_controller(store.home, store.find(row.id))
        for row in rows:
            with RunProgress() as progress:
                after = follow(store, row.id, progress, after=seen[row.id])
            if after.ended is None:
                pending.append(after)
            else:
                say(_conclusion(store, after))
    if pending:
        names = ", ".join(f"`{row.name}`" for row in pending)
        hint = f"the controllers keep trying; `nvlaunch status {pending[0].name}` shows the unreachable nodes"
        outcomes = tuple((row.name, row.status_message) for row in pending)
        raise ProvisionError(f"not all nodes are released: {names}", outcomes=outcomes, hints=(hint,))


def _conclusion(store: "Store", row: "RunRow") -> str:
    """Return how a run ended; one that only waited had no nodes."""
    if not store.load(row.id)[0].placement.slices:
        return f"{row.name} removed from the queue."
    return f"{row.name} {row.state.value}. All nodes released."
