"""`inventory check`: compare an inventory with what its nodes report."""

import json
import time

import typer

from launcher.cli.commands.inventory.machines import ask, find_machines
from launcher.cli.options import As, FleetFile, Output
from launcher.cli.output.console import show
from launcher.errors import ExitCode
from launcher.store.home import home


def check(inventory: FleetFile = None, output: As = Output.TEXT) -> None:
    """Compare an inventory with its nodes.

    Changes nothing. Exits with 4 if a value differs. Values that are
    missing in the file, or that nodes do not report, do not count.

    \b
    Example:
      nvlaunch inventory check -i inventory.yaml
    """
    from launcher.cli.output.inventory import check_json, check_text
    from launcher.core.discovery.diff import DifferenceKind, compare
    from launcher.store.store import Store

    fleet = find_machines(inventory)
    found = ask(fleet)
    differences = compare(fleet, found.told)
    left_out = {node.name for node in fleet.nodes if node.domain is None}
    reported = {name: one.domain for name, one in found.told.items() if one.domain and name in left_out}
    Store(home()).domains.keep(fleet.name, reported, time.time())
    if output is Output.JSON:
        show(json.dumps(check_json(fleet, found, differences), indent=2))
    else:
        show(check_text(fleet, found, differences))
    if any(one.kind is DifferenceKind.DIFFERS for one in differences):
        raise typer.Exit(ExitCode.REMOTE)
