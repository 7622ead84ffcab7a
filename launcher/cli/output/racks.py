"""The machines as a map: one line a rack, one letter a tray."""

import string
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from launcher.cli.output.console import clean
from launcher.cli.output.table import table
from launcher.core.model.inventory import Inventory, Node
from launcher.core.model.nodeset import NodeName, natural
from launcher.core.model.placement import Taken

_LETTERS = string.ascii_uppercase + string.ascii_lowercase
# What stands for a run once the letters are used up.
_MORE = "#"


class TrayState(Enum):
    """What a node can be given to."""

    FREE = "free"
    USED = "used"
    DRAINED = "drained"
    SICK = "sick"


_SIGNS = {TrayState.FREE: ".", TrayState.DRAINED: "x", TrayState.SICK: "!"}

Users = Mapping[NodeName, Taken]


def racks_text(fleet: Inventory, taken: Users) -> str:
    """Return the map, then what its signs stand for."""
    runs = sorted({use.by_run for use in taken.values() if use.by_run})
    letters = dict(zip(runs, _LETTERS, strict=False))
    rows = [_row(fleet, rack, nodes, taken, letters) for rack, nodes in _by_rack(fleet).items()]
    header = ("RACK", *(level.upper() for level in fleet.levels[:-1]), "TRAYS", "FREE", "DOMAIN")
    return "\n".join((table(header, rows), "", *_legend(fleet, taken, letters, runs)))


def racks_json(fleet: Inventory, taken: Users) -> dict[str, object]:
    """Return the map as `racks -o json` writes it."""
    return {
        "inventory": fleet.name,
        "racks": [
            {
                "rack": rack,
                "places": dict(nodes[0].places),
                "free": sum(_state(node, taken) is TrayState.FREE for node in nodes),
                "nodes": [_node(node, taken) for node in nodes],
            }
            for rack, nodes in _by_rack(fleet).items()
        ],
    }


def _node(node: Node, taken: Users) -> dict[str, object]:
    use = taken.get(node.name, Taken())
    return {
        "node": node.name,
        "tray": node.tray,
        "domain": node.domain,
        "gpus": node.gpus,
        "accelerator": node.accelerator,
        "state": _state(node, taken).value,
        "run": use.by_run,
        "reason": node.drained or use.drained or use.sick,
    }


def _state(node: Node, taken: Users) -> TrayState:
    """What is wrong with a node does not hide the run that still has it."""
    use = taken.get(node.name, Taken())
    if use.by_run:
        return TrayState.USED
    if node.drained is not None or use.drained is not None:
        return TrayState.DRAINED
    return TrayState.SICK if use.sick else TrayState.FREE


def _by_rack(fleet: Inventory) -> dict[str, list[Node]]:
    racks: dict[str, list[Node]] = {}
    for node in sorted(fleet.nodes, key=lambda node: (natural(node.rack), _tray(node), natural(node.name))):
        racks.setdefault(node.rack, []).append(node)
    return racks


def _tray(node: Node) -> int:
    return -1 if node.tray is None else node.tray


def _row(
    fleet: Inventory, rack: str, nodes: Sequence[Node], taken: Users, letters: Mapping[str, str]
) -> tuple[str, ...]:
    signs = "".join(_sign(node, taken, letters) for node in nodes)
    free = sum(_state(node, taken) is TrayState.FREE for node in nodes)
    places = (nodes[0].places.get(level, "") for level in fleet.levels[:-1])
    domains = sorted({node.domain or "unknown" for node in nodes})
    return rack, *places, signs, f"{free}/{len(nodes)}", ", ".join(name for name in domains if name != rack)


def _sign(node: Node, taken: Users, letters: Mapping[str, str]) -> str:
    state = _state(node, taken)
    return letters.get(taken[node.name].by_run or "", _MORE) if state is TrayState.USED else _SIGNS[state]


def _legend(fleet: Inventory, taken: Users, letters: Mapping[str, str], runs: Sequence[str]) -> Iterator[str]:
    yield "  ".join(f"{sign} {state.value}" for state, sign in _SIGNS.items())
    for run in runs:
        yield clean(f"{letters.get(run, _MORE)} {run}")
    for node in fleet.nodes:
        use = taken.get(node.name, Taken())
        reason = node.drained or use.drained or use.sick
        if reason:
            yield clean(f"{node.name}: {reason}")
