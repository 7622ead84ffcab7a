"""Inventories of real machines, which can report where they are."""

import os
from typing import TYPE_CHECKING

from launcher.cli.output.console import say
from launcher.errors import ProvisionError, refuse
from launcher.store.home import home

if TYPE_CHECKING:
    from launcher.admission.locate import Survey
    from launcher.core.model.inventory import Inventory


def find_machines(given: str | None) -> "Inventory":
    """Return an inventory of real machines.

    SpecError for local racks and imaginary fleets.
    """
    from launcher.cli.output.racks import fleet_text
    from launcher.config.inventory.read import find_inventory

    fleet = find_inventory(given, os.environ, home())
    if not fleet.capabilities.own_machines:
        what = f"nodes of `transport: {fleet.transport.value}` have no GPU driver that reports their location"
        refuse(what, where=fleet.source, hint="choose an inventory of `transport: ssh` with `-i`")
    say(fleet_text(fleet))
    return fleet


def ask(fleet: "Inventory") -> "Survey":
    """Return the locations that the nodes report.

    ProvisionError if no node reports one.
    """
    from launcher.admission.locate import survey
    from launcher.cli.output.progress import ProbeProgress
    from launcher.drive.adapters import open_prober

    prober = open_prober(home(), fleet)
    try:
        with ProbeProgress(quiet=False) as progress:
            found = survey(fleet.nodes, prober, progress)
    finally:
        prober.close()
    if found.blind:
        raise ProvisionError("no node reported its location", outcomes=found.folded())
    return found
