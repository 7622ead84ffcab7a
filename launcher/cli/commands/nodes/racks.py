"""`racks`: a map of the machines, by rack and tray."""

import json
import os
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import As, FleetFile, Output
from launcher.cli.output.console import clean, say, show, warn
from launcher.cli.plain import PlainCommand
from launcher.store.home import home

if TYPE_CHECKING:
    from launcher.admission.moves.slice_room import RoomListing
    from launcher.core.model.inventory import Inventory
    from launcher.store.store import Store


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(racks)


def racks(
    inventory: FleetFile = None,
    sizes: Annotated[
        bool, typer.Option("--sizes", help="Also show how many slices of common sizes have room, now and after moves.")
    ] = False,
    output: As = Output.TEXT,
) -> None:
    """Show racks and trays, and which runs use them.

    \b
    Example:
      nvlaunch racks -i examples/fleet-9xnvl72.yaml
      nvlaunch racks --sizes
    """
    from dataclasses import replace

    from launcher.admission.kept_nodes import kept_nodes, with_failed
    from launcher.cli.output.racks import fleet_text, racks_json, racks_text, room_json, room_text
    from launcher.config.inventory.read import find_inventory
    from launcher.store.store import Store

    fleet = find_inventory(inventory, os.environ, home())
    store = Store(home())
    unavailable = dict(with_failed(store, fleet.name, store.unavailable(fleet)))
    for name in kept_nodes(store, fleet.name):
        unavailable[name] = replace(unavailable[name], used_by=None)
    listing = _room(store, fleet) if sizes else None
    if output is Output.JSON:
        room = {} if listing is None else room_json(listing)
        show(json.dumps({**racks_json(fleet, unavailable), **room}, indent=2))
        return
    say(fleet_text(fleet))
    show(racks_text(fleet, unavailable))
    if listing is not None:
        show(f"\n{room_text(listing)}")


def _room(store: "Store", fleet: "Inventory") -> "RoomListing":
    from launcher.admission.moves.slice_room import slice_room

    listing = slice_room(store, fleet)
    for error in listing.unreadable:
        warn(clean(error.message))
    return listing
