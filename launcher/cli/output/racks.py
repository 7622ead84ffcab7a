"""The map of an inventory: one line for each rack, one sign for each tray."""

import string
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from launcher.cli.output.console import clean
from launcher.cli.output.table import table
from launcher.core.model.inventory import Inventory, Node
from launcher.core.model.nodeset import fold_messages, natural
from launcher.core.model.placement import Unavailable, UnavailableNodes
from launcher.core.model.text import count

if TYPE_CHECKING:
    from launcher.admission.moves.slice_room import RoomListing


class TrayState(Enum):
    """Whether a node can be used, or why not."""

    FREE = "free"
    USED = "used"
    RESERVED = "reserved"
    DRAINED = "drained"
    DRAINING = "draining"
    UNHEALTHY = "unhealthy"


_SIGNS = {TrayState.FREE: ".", TrayState.DRAINED: "x", TrayState.UNHEALTHY: "!", TrayState.DRAINING: "~"}
_USUAL = (TrayState.FREE, TrayState.DRAINED, TrayState.UNHEALTHY)
"""States that the legend always explains."""
_LETTERS = string.ascii_uppercase + string.ascii_lowercase
_MORE = "#"
"""The sign of a run when all letters are used."""


def fleet_text(fleet: Inventory) -> str:
    """Return the line that names the inventory in use."""
    racks = len({node.rack for node in fleet.nodes})
    size = f"{count(racks, 'rack')}, {count(len(fleet.nodes), 'node')}"
    kind = "imaginary: no program runs" if fleet.capabilities.imaginary else fleet.transport.value
    return clean(f"inventory `{fleet.name}` ({fleet.source}, {kind}): {size}")


def racks_text(fleet: Inventory, unavailable: UnavailableNodes) -> str:
    """Return the map and its legend."""
    runs = sorted({user for use in unavailable.values() if (user := _user(use))})
    letters = dict(zip(runs, _LETTERS, strict=False))
    rows = [_row(fleet, rack, nodes, unavailable, letters) for rack, nodes in _by_rack(fleet).items()]
    header = ("RACK", *(level.upper() for level in fleet.levels[:-1]), "TRAYS", "FREE", "DOMAIN")
    return "\n".join((table(header, rows), "", *_legend(fleet, unavailable, letters, runs)))


def racks_json(fleet: Inventory, unavailable: UnavailableNodes) -> dict[str, object]:
    """Return the map as `racks -o json` writes it."""
    return {
        "inventory": fleet.name,
        "racks": [
            {
                "rack": rack,
                "places": dict(nodes[0].places),
                "free": sum(_state(node, unavailable) is TrayState.FREE for node in nodes),
                "nodes": [_node(node, unavailable) for node in nodes],
            }
            for rack, nodes in _by_rack(fleet).items()
        ],
    }


def room_text(listing: "RoomListing") -> str:
    """Return a table of how many slices have room, and how many slices may move."""
    if not listing.rooms:
        return "no node has GPUs"
    kinds = {(room.accelerator, room.gpus_per_node) for room in listing.rooms}
    rows = [
        (
            str(room.nodes * room.gpus_per_node),
            str(room.nodes),
            f"{room.accelerator or 'GPU'}:{room.gpus_per_node}" if len(kinds) > 1 else "",
            str(room.now),
            str(room.after_moves),
        )
        for room in listing.rooms
    ]
    moves = f"{count(listing.movable, 'slice')} may be moved" if listing.movable else "no slice may be moved"
    return "\n".join((table(("GPUS", "NODES", "ACCELERATOR", "FIT NOW", "AFTER MOVES"), rows), "", clean(moves)))


def room_json(listing: "RoomListing") -> dict[str, object]:
    """Return what `racks --sizes -o json` writes beside the map."""
    sizes = [
        {
            "slice_nodes": room.nodes,
            "slice_gpus": room.nodes * room.gpus_per_node,
            "accelerator": room.accelerator,
            "fit_now": room.now,
            "fit_after_moves": room.after_moves,
        }
        for room in listing.rooms
    ]
    return {"sizes": sizes, "movable_slices": listing.movable}


def _node(node: Node, unavailable: UnavailableNodes) -> dict[str, object]:
    use = _use(node, unavailable)
    return {
        "node": node.name,
        "tray": node.tray,
        "domain": node.domain,
        "gpus": node.gpus,
        "accelerator": node.accelerator,
        "state": _state(node, unavailable).value,
        "run": None if use.reserved_for else use.used_by,
        **({"reserved_for": use.reserved_for} if use.reserved_for else {}),
        "reason": _fault(node, unavailable),
    }


def _user(use: Unavailable) -> str | None:
    """Return who has a node, as the legend names it."""
    return f"reserved for `{use.reserved_for}`" if use.reserved_for else use.used_by


def _use(node: Node, unavailable: UnavailableNodes) -> Unavailable:
    return unavailable.get(node.name, Unavailable())


def _fault(node: Node, unavailable: UnavailableNodes) -> str | None:
    use = _use(node, unavailable)
    return node.drained or use.drained or use.unhealthy


def _state(node: Node, unavailable: UnavailableNodes) -> TrayState:
    """Return the state of a node, whoever uses it: a failed one is unhealthy, a drained one in use still draining."""
    use = _use(node, unavailable)
    if use.used_by and use.unhealthy and not use.reserved_for:
        return TrayState.UNHEALTHY
    if node.drained is not None or use.drained is not None:
        return TrayState.DRAINING if use.used_by and not use.reserved_for else TrayState.DRAINED
    if use.used_by:
        return TrayState.RESERVED if use.reserved_for else TrayState.USED
    return TrayState.UNHEALTHY if use.unhealthy else TrayState.FREE


def _by_rack(fleet: Inventory) -> dict[str, list[Node]]:
    racks: dict[str, list[Node]] = {}
    for node in sorted(fleet.nodes, key=lambda node: (natural(node.rack), _tray(node), natural(node.name))):
        racks.setdefault(node.rack, []).append(node)
    return racks


def _tray(node: Node) -> int:
    return -1 if node.tray is None else node.tray


def _row(
    fleet: Inventory, rack: str, nodes: Sequence[Node], unavailable: UnavailableNodes, letters: Mapping[str, str]
) -> tuple[str, ...]:
    signs = "".join(_sign(node, unavailable, letters) for node in nodes)
    free = sum(_state(node, unavailable) is TrayState.FREE for node in nodes)
    places = (nodes[0].places.get(level, "") for level in fleet.levels[:-1])
    domains = sorted({node.domain or "unknown" for node in nodes})
    return rack, *places, signs, f"{free}/{len(nodes)}", ", ".join(name for name in domains if name != rack)


def _sign(node: Node, unavailable: UnavailableNodes, letters: Mapping[str, str]) -> str:
    state = _state(node, unavailable)
    return _SIGNS[state] if state in _SIGNS else letters.get(_user(_use(node, unavailable)) or "", _MORE)


def _legend(
    fleet: Inventory, unavailable: UnavailableNodes, letters: Mapping[str, str], runs: Sequence[str]
) -> Iterator[str]:
    shown = {*_USUAL, *(_state(node, unavailable) for node in fleet.nodes)}
    yield "  ".join(f"{sign} {state.value}" for state, sign in _SIGNS.items() if state in shown)
    for run in runs:
        yield clean(f"{letters.get(run, _MORE)} {run}")
    faults = [(node.name, fault) for node in fleet.nodes if (fault := _fault(node, unavailable))]
    for names, fault in fold_messages(faults):
        yield clean(f"{names}: {fault}")
