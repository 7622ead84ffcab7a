"""The whole inventory of a run as its file is now, with nodes that were added since the run was cut down to its own."""

from dataclasses import replace
from pathlib import Path

from launcher.admission.preflight import with_domains
from launcher.config.inventory.read import read_inventory
from launcher.core.model.inventory import Inventory, Transport
from launcher.errors import SpecError
from launcher.store.store import Store


def whole(store: Store, fleet: Inventory) -> Inventory:
    """Return all machines of the inventory that a run was placed on: the file as it stands, or, where that cannot be
    read or is another inventory by now, as it stood when a run was last placed on it."""
    kept = store.inventories.of(fleet)
    if kept is None:
        return fleet  # a run of a version that kept nothing more
    written = _read(kept.path) if kept.path else None
    if written is None or (written.name, written.transport) != (fleet.name, fleet.transport):
        return kept.inventory
    reported = {node.name: node.domain for node in kept.inventory.nodes if node.domain is not None}
    fresh = with_domains(written, {**reported, **store.domains.of(fleet.name)})
    # What a run of an imaginary fleet began with stays its world.
    return replace(fresh, source=fleet.source, sim=fleet.sim if fleet.transport is Transport.SIM else None)


def _read(path: Path) -> Inventory | None:
    try:
        return read_inventory(path)
    except SpecError:  # somebody is editing it: what is known is better than nothing
        return None
