"""Whether a slice of a run fits elsewhere, looked up before the run is asked to move it."""

from dataclasses import replace

from launcher.admission.current_inventory import whole
from launcher.core.model.inventory import Inventory
from launcher.core.model.placement import Shortfall, Slice, Unavailable, UnavailableNodes
from launcher.core.model.record import Record
from launcher.core.model.run import Run
from launcher.core.placement.replacement import replace_slice
from launcher.errors import NoCapacityError
from launcher.store.store import Store


def check_relocation(store: Store, run: Run, part: Slice) -> None:
    """Raise NoCapacityError where no other rack has room for a slice now.

    No node is asked and nothing is claimed, so the run itself may still find that it cannot move the slice.
    """
    fleet = whole(store, run.fleet)
    found: list[Slice | Shortfall] = []

    def look(now: Run, record: Record, unavailable: UnavailableNodes) -> None:
        found.append(_elsewhere(now, record, unavailable, fleet, part))

    store.allot(run.id, look)
    for one in found:
        if isinstance(one, Shortfall):
            error = NoCapacityError(replace(one, suggestions=()))
            error.message = f"slice `{part.key}` of `{run.name}` fits nowhere else"
            error.hints = ("end a run, or add nodes to the inventory; `nvlaunch racks` shows what is free",)
            raise error


def _elsewhere(
    now: Run, record: Record, unavailable: UnavailableNodes, fleet: Inventory, part: Slice
) -> Slice | Shortfall:
    """Place a slice without its own racks and without the nodes that failed under the run."""
    own = {*part.nodes, *part.spares}
    racks = {node.rack for node in fleet.nodes if node.name in part.nodes}
    left = own | {node.name for node in fleet.nodes if node.rack in racks}
    excluded = {name: replace(unavailable.get(name, Unavailable()), used_by=now.name) for name in left}
    failed = {name: Unavailable(unhealthy=evidence.message) for name, evidence in record.failed_nodes.items()}
    return replace_slice(now.task, fleet, {**unavailable, **failed, **excluded}, now.placement, part)
