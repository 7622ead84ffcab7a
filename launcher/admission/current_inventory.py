"""The whole inventory of a run as its file is now."""

from dataclasses import replace
from pathlib import Path

from launcher.admission.domains import with_domains
from launcher.config.inventory.read import read_inventory
from launcher.core.model.inventory import Inventory
from launcher.errors import SpecError
from launcher.store.store import Store


def whole(store: Store, fleet: Inventory) -> Inventory:
    """Return the whole inventory that a run was placed on, from its file.

    Where the file cannot be read, or is another inventory by now: as of the last placement on it.
    """
    kept = store.inventories.of(fleet)
    if kept is None:
        return fleet  # written by a version that stored nothing more
    written = _read(kept.path) if kept.path else None
    if written is None or (written.name, written.transport) != (fleet.name, fleet.transport):
        return kept.inventory
    reported = {node.name: node.domain for node in kept.inventory.nodes if node.domain is not None}
    fresh = with_domains(written, {**reported, **store.domains.of(fleet.name)})
    # A run on an imaginary fleet keeps the settings that it started with.
    return replace(fresh, source=fleet.source, sim=fleet.sim if fleet.capabilities.imaginary else None)


def _read(path: Path) -> Inventory | None:
    try:
        return read_inventory(path)
    except SpecError:  # perhaps it is being edited
        return None
