"""The comparison of an inventory with its nodes, as text and as JSON."""

from collections.abc import Sequence

from launcher.admission.locate import Survey
from launcher.cli.output.console import clean
from launcher.cli.output.table import table
from launcher.core.discovery.diff import DifferenceKind, InventoryDifference
from launcher.core.discovery.location import NodeLocation
from launcher.core.model.inventory import GpuDriver, Inventory
from launcher.core.model.text import count


def check_text(fleet: Inventory, found: Survey, differences: Sequence[InventoryDifference]) -> str:
    """Return a table of the differences, and a summary."""
    rows = [(one.nodes, one.kind.value, one.message) for one in differences]
    rows += [(names, "cannot tell", message) for names, message in found.folded()]
    lines = [table(("NODES", "STATUS", "DETAIL"), rows), ""] if rows else []
    return clean("\n".join((*lines, _summary(fleet, found, differences))))


def check_json(fleet: Inventory, found: Survey, differences: Sequence[InventoryDifference]) -> dict[str, object]:
    """Return the comparison as `inventory check -o json` writes it."""
    return {
        "inventory": fleet.name,
        "nodes": [
            {
                "node": node.name,
                "rack": node.rack,
                "domain": node.domain,
                "tray": node.tray,
                "reported": _location(found.told.get(node.name)),
                "cannot_tell": found.silent.get(node.name),
            }
            for node in fleet.nodes
        ],
        **{
            kind.value: [{"nodes": one.nodes, "message": one.message} for one in _of(differences, kind)]
            for kind in DifferenceKind
        },
    }


def _location(one: NodeLocation | None) -> dict[str, object] | None:
    if one is None:
        return None
    return {
        "chassis": one.chassis,
        "tray": one.tray,
        "domain": one.domain,
        "gpus": one.gpus,
        "accelerator": one.accelerator,
    }


def _of(differences: Sequence[InventoryDifference], kind: DifferenceKind) -> list[InventoryDifference]:
    return [one for one in differences if one.kind is kind]


def _summary(fleet: Inventory, found: Survey, differences: Sequence[InventoryDifference]) -> str:
    differs, missing = (len(_of(differences, kind)) for kind in (DifferenceKind.DIFFERS, DifferenceKind.MISSING))
    cpu = sum(node.gpu_driver is GpuDriver.NONE for node in fleet.nodes)
    parts = [f"{count(len(found.told), 'node')} checked", count(differs, "difference")]
    parts += [f"{missing} missing in the inventory"] if missing else []
    parts += [f"{len(found.silent)} cannot tell"] if found.silent else []
    parts += [f"{cpu} skipped (no GPU driver)"] if cpu else []
    hint = "; `nvlaunch inventory discover` writes the reported values" if missing or differs else ""
    return ", ".join(parts) + hint
