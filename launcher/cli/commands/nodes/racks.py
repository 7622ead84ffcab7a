"""`racks`: a map of the machines, by rack and tray."""

import json
import os

import typer

from launcher.cli.options import As, FleetFile, Output
from launcher.cli.output.console import say, show
from launcher.cli.plain import PlainCommand
from launcher.store.home import home


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(racks)


def racks(inventory: FleetFile = None, output: As = Output.TEXT) -> None:
    """Show racks and trays, and which runs use them.

    \b
    Example:
      nvlaunch racks -i examples/fleet-9xnvl72.yaml
    """
    from launcher.cli.output.plan import fleet_text
    from launcher.cli.output.racks import racks_json, racks_text
    from launcher.config.inventory.read import find_inventory
    from launcher.store.store import Store

    fleet = find_inventory(inventory, os.environ, home())
    unavailable = Store(home()).unavailable(fleet)
    if output is Output.JSON:
        show(json.dumps(racks_json(fleet, unavailable), indent=2))
        return
    say(fleet_text(fleet))
    show(racks_text(fleet, unavailable))
