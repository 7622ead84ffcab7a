"""Who drives a run that was accepted: a controller of its own, or this process."""

import threading
from dataclasses import dataclass

import typer

from launcher.cli.follow import GLANCE, Follower, Progress, follow, leaving, start_driving
from launcher.cli.launching import settle
from launcher.cli.options import home
from launcher.cli.output.console import say
from launcher.core.model.run import Run, RunId
from launcher.errors import ExitCode
from launcher.store.rows import RunRow
from launcher.store.store import Store

SETTLE_S = 10.0
"""Seconds that `up -d` waits for the run to get its nodes, so that it can take others where it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """How a launch goes: without a question, and who drives it."""

    yes: bool
    detach: bool
    foreground: bool


def drive(store: Store, run: Run, ways: Ways) -> RunRow:
    """Return a run when it is over; a detached one when its nodes are its own."""
    if ways.foreground:
        return drive_here(store, run.id)
    with leaving(run.name):
        spawn(store, run)
        return settle(store, run, SETTLE_S) if ways.detach else follow(store, home(), run.id)


def drive_here(store: Store, run: RunId) -> RunRow:
    """Return a run that this process drove to its end.

    The loop has the main thread, for its signals; what it decides is told from the journal beside it.
    """
    from launcher.drive.control import control

    over = threading.Event()

    def narrate() -> None:
        with Progress() as progress:
            follower = Follower(store, run, progress)
            while not over.wait(GLANCE):
                follower.look()
            follower.look()

    narrator = threading.Thread(target=narrate, daemon=True)
    narrator.start()
    try:
        control(home(), run)
    finally:
        over.set()
        narrator.join()
    row = store.find(store.queue.last(run))
    if row.ended is None:
        say(f"`{row.name}` goes on, undriven; `nvlaunch watch {row.name}` drives it again")
        raise typer.Exit(ExitCode.INTERRUPTED)
    return row


def spawn(store: Store, run: Run) -> None:
    """Start a controller; Ctrl-C meanwhile leaves no run without one."""
    try:
        start_driving(home(), store.find(run.id))
    except KeyboardInterrupt:
        start_driving(home(), store.find(run.id))
        raise
