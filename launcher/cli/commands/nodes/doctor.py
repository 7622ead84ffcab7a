"""`doctor`: check the health of nodes."""

import json
import os
import time
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli.options import As, FleetFile, Output
from launcher.cli.output.console import say, show
from launcher.cli.plain import PlainCommand
from launcher.errors import ExitCode
from launcher.store.home import home

NodeWords = Annotated[
    list[str] | None,
    typer.Argument(metavar="NODES", help="Nodes, ranges such as `r07-n[01-16]`, racks, or `head` (default: all)."),
]
TaskFor = Annotated[
    Path | None,
    typer.Option(
        "--task", metavar="FILE", help="Also check what this task needs: containers, folders, mounts of buckets."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(doctor)


def doctor(
    nodes: NodeWords = None, inventory: FleetFile = None, task: TaskFor = None, output: As = Output.TEXT
) -> None:
    """Check the health of nodes.

    Changes nothing on them. Exits with 4 if a check fails; checks that
    give no answer are counted separately.

    \b
    Example:
      nvlaunch doctor -i fleet.yaml r07 'r08-n[01-04]'
      nvlaunch doctor --task train.yaml
    """
    from launcher.admission.doctor import check_up, name_leftovers
    from launcher.cli.node_arguments import select_nodes
    from launcher.cli.output.doctor import doctor_json, doctor_text
    from launcher.cli.output.progress import ProbeProgress
    from launcher.cli.output.racks import fleet_text
    from launcher.config.inventory.read import find_inventory
    from launcher.config.task.envs import Overrides
    from launcher.config.task.read import read_task
    from launcher.drive.adapters import open_prober
    from launcher.store.store import Store

    fleet = find_inventory(inventory, os.environ, home())
    say(fleet_text(fleet))
    selected = select_nodes(fleet, nodes or ())
    wanted = read_task(task, overrides=Overrides(values_later=True)).task if task else None
    prober = open_prober(home(), fleet)
    try:
        with ProbeProgress(quiet=not fleet.capabilities.own_machines) as progress:
            found = check_up(fleet, selected, prober, progress, wanted)
    finally:
        prober.close()
    store = Store(home())
    found = name_leftovers(found, [(row.id, row.name) for row in store.runs() if row.ended is not None])
    store.domains.keep(fleet.name, found.reported, time.time())
    show(json.dumps(doctor_json(fleet.name, found), indent=2) if output is Output.JSON else doctor_text(found))
    if found.bad:
        raise typer.Exit(ExitCode.REMOTE)
