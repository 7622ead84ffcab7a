"""`down`: end runs and release their nodes."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import RunWords, Yes
from launcher.cli.output.console import agree, clean, say, warn
from launcher.cli.plain import PlainCommand
from launcher.errors import SpecError, refuse
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
    a checkpoint. Returns once all nodes are released. Of a run that has
    ended, the nodes are released that could not be reached then. Room
    that `defrag` keeps for the name of a run that has not started is
    released too.

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
        if row.ended is not None and not _release_left(store, row) and not _release(store, row.name):
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
        found = tuple(row for word in words if (row := _named(store, word)) is not None)
    else:
        found, unreadable = store.live()
        for error in unreadable:
            warn(error.advice)
    return {row.id: row for row in found}


def _named(store: "Store", word: str) -> "RunRow | None":
    """Return a run; None where there is none, and room kept for that name was released."""
    try:
        return store.find(word)
    except SpecError:
        if not _release(store, word):
            raise
        return None


def _release(store: "Store", name: str) -> bool:
    """Release the room that is kept for a name, and say so; return whether there was any."""
    released = store.move_plans.release(name, time.time())
    if released:
        say(clean(f"released the room kept for `{name}`"))
    return released


def _release_left(store: "Store", row: "RunRow") -> bool:
    """Release what an ended run has left on nodes, and say so; return whether there was anything.

    ProvisionError for nodes that still cannot be reached.
    """
    from launcher.core.model.nodeset import fold
    from launcher.drive.leftovers import left_of, release_left
    from launcher.errors import ProvisionError

    if not left_of(store, row):
        return False
    released, failed = release_left(store, row)
    if released:
        say(clean(f"released what `{row.name}` had left on {fold(released)}"))
    if failed:
        hint = f"agents there end by themselves; `nvlaunch down {row.id}` tries again"
        outcomes = tuple((str(node), why) for node, why in failed.items())
        raise ProvisionError(f"not released: {fold(failed)}", outcomes=outcomes, hints=(hint,))
    return bool(released)


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
                _release(store, after.name)
    if pending:
        names = ", ".join(f"`{row.name}`" for row in pending)
        hint = f"the controllers keep trying; `nvlaunch status {pending[0].name}` shows the nodes, and how to go on"
        outcomes = tuple((row.name, row.status_message) for row in pending)
        raise ProvisionError(f"not all nodes are released: {names}", outcomes=outcomes, hints=(hint,))


def _conclusion(store: "Store", row: "RunRow") -> str:
    """Return how a run ended; one that only waited had no nodes."""
    from launcher.core.control.teardown import left_behind
    from launcher.core.model.nodeset import fold

    if not store.load(row.id)[0].placement.slices:
        return f"{row.name} removed from the queue."
    if left := left_behind(store.load(row.id)[1]):
        hint = f"its agents there have stopped the ranks; `nvlaunch down {row.id}` releases them once reachable"
        return clean(f"{row.name} {row.state.value}. Not released: {fold(left)}, unreachable; {hint}")
    return f"{row.name} {row.state.value}. All nodes released."
