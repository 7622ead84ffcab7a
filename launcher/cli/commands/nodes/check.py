"""`check`: run a check of the inventory under load, and find what is slow."""

import json
import os
import time
from typing import Annotated

import typer

from launcher.cli.options import As, FleetFile, Output
from launcher.cli.output.console import say, show
from launcher.cli.plain import PlainCommand
from launcher.core.model.checks import CheckStage
from launcher.errors import ExitCode
from launcher.store.home import home

NodeWords = Annotated[
    list[str] | None,
    typer.Argument(metavar="NODES", help="Nodes, ranges such as `r07-n[01-16]`, or racks (default: all)."),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(check)


def check(
    nodes: NodeWords = None,
    slice_size: Annotated[
        int | None,
        typer.Option("--slice-size", metavar="N", min=2, max=1024, help="Check slices of N nodes at once."),
    ] = None,
    stage: Annotated[
        CheckStage | None,
        typer.Option("--check", metavar="NAME", help="before_return, before_start or periodic_idle."),
    ] = None,
    inventory: FleetFile = None,
    output: As = Output.TEXT,
) -> None:
    """Run a check on nodes, and find what is slow.

    Runs a command of `checks` of the inventory on nodes that no run
    uses. Where a whole slice is slow, halves are checked until the node
    or link is known. Exits with 4 unless all nodes that were checked are
    good.

    \b
    Example:
      nvlaunch check r07 r08 --slice-size 16
      nvlaunch check r07-n03 --check before_return
    """
    from launcher.admission.checks.by_hand import plan_check, run_check
    from launcher.admission.node_checks import HEAD
    from launcher.cli.node_arguments import select_nodes
    from launcher.cli.output.check import check_json, check_text, news_text, planned_text
    from launcher.cli.output.racks import fleet_text
    from launcher.config.inventory.read import find_inventory
    from launcher.drive.adapters import open_checker
    from launcher.drive.control import stoppable
    from launcher.store.store import Store
    from launcher.store.user import User

    store, fleet = Store(home()), find_inventory(inventory, os.environ, home())
    say(fleet_text(fleet))
    names = [node.name for node in select_nodes(fleet, nodes or ()) if node.name != HEAD]
    planned = plan_check(store, fleet, names, stage=stage, slice_size=slice_size)
    say(planned_text(planned))
    checker = open_checker(home(), fleet)
    begun = time.monotonic()

    def tell(news: object) -> None:
        if text := news_text(news):
            say(text)

    try:
        with stoppable() as stopped:
            found = run_check(store, fleet, planned, checker, by=str(User.current()), stopped=stopped, tell=tell)
            interrupted = stopped()
    finally:
        checker.close()
    seconds = time.monotonic() - begun
    if output is Output.JSON:
        show(json.dumps(check_json(fleet.name, planned, found), indent=2))
    else:
        show(check_text(planned, found, seconds))
    if interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)
    if not found.all_good:
        raise typer.Exit(ExitCode.REMOTE)
