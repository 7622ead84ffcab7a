"""Where nodes say that they are, held against an inventory: what agrees, what contradicts, what could be written down.

A rack is known best by the serial number of its chassis, and next by its ClusterUUID: the partitions of a rack have one
in common, though a fabric that was started anew may show two in one rack. A name is never a reason.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from launcher.core.model.inventory import Inventory, Node
from launcher.core.model.nodeset import NodeName, fold, natural

UNSORTED = "unsorted"
"""The name of a rack that is none: a place for nodes until somebody says in which rack they are."""


def is_unsorted(rack: str) -> bool:
    """Whether a rack of an inventory is a place for nodes whose rack is not known."""
    return rack == UNSORTED or rack.startswith(f"{UNSORTED}-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """What the drivers of one node say of its place; None where they do not, or do not agree.

    `chassis` is the serial number of the rack's chassis, `domain` the NVLink domain, `tray` counts from 0; `machine` is
    what no two machines have in common.
    """

    chassis: str | None = None
    tray: int | None = None
    domain: str | None = None
    gpus: int = 0
    machine: str | None = None
    accelerator: str | None = None

    @property
    def rack(self) -> str | None:
        """Return the surest name of the rack that is told."""
        return self.chassis or (self.domain.rpartition(".")[0] if self.domain else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendment:
    """What could be written into an inventory: new racks of nodes, domains and trays; and what contradicts it."""

    racks: Mapping[NodeName, str] = field(default_factory=dict)
    domains: Mapping[NodeName, str] = field(default_factory=dict)
    trays: Mapping[NodeName, int] = field(default_factory=dict)
    accelerator: str | None = None
    conflicts: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.racks or self.domains or self.trays or self.accelerator)


def amend(fleet: Inventory, told: Mapping[NodeName, Whereabouts]) -> Amendment:
    """Return what to write of what nodes told. Racks with a name keep their nodes: what differs is a conflict."""
    racks, unclear = _sorted(fleet, told)
    trays, doubled = _trays(fleet, told, racks)
    return Amendment(
        racks=racks,
        domains={
            node.name: domain
            for node in fleet.nodes
            if (domain := _told(told, node).domain) and domain.casefold() != (node.domain or "").casefold()
        },
        trays=trays,
        accelerator=_accelerator(fleet, told),
        conflicts=(*conflicts(fleet, told), *unclear, *doubled),
    )


def conflicts(fleet: Inventory, told: Mapping[NodeName, Whereabouts]) -> tuple[str, ...]:
    """Return what of the racks in an inventory cannot be: nodes of two chassis in one, or one chassis in two."""
    said: list[str] = []
    at: dict[str, dict[str, list[str]]] = {}
    for rack, nodes in _by_rack(fleet.nodes).items():
        chassis: dict[str, list[str]] = {}
        for node in nodes:
            if serial := _told(told, node).chassis:
                chassis.setdefault(serial, []).append(node.name)
        for serial, names in chassis.items():
            at.setdefault(serial, {})[rack] = names
        if len(chassis) > 1 and not is_unsorted(rack):
            parts = "; ".join(f"{fold(names)} in `{serial}`" for serial, names in chassis.items())
            said.append(f"rack `{rack}` stands in {len(chassis)} chassis: {parts}")
    for serial, racks in at.items():
        named = [rack for rack in racks if not is_unsorted(rack)]
        if len(named) > 1:
            parts = ", ".join(f"`{rack}` ({fold(racks[rack])})" for rack in named)
            said.append(f"chassis `{serial}` is in {len(named)} racks of the inventory: {parts}")
    return tuple(said)


def _told(told: Mapping[NodeName, Whereabouts], node: Node) -> Whereabouts:
    return told.get(node.name, Whereabouts())


def _by_rack(nodes: Iterable[Node]) -> dict[str, list[Node]]:
    racks: dict[str, list[Node]] = {}
    for node in nodes:
        racks.setdefault(node.rack, []).append(node)
    return racks


def _sorted(fleet: Inventory, told: Mapping[NodeName, Whereabouts]) -> tuple[dict[NodeName, str], tuple[str, ...]]:
    """Return the racks of nodes that stand in none, and which of them cannot be told."""
    homes: dict[str, set[str]] = {}
    for node in fleet.nodes:
        if (rack := _told(told, node).rack) and not is_unsorted(node.rack):
            homes.setdefault(rack, set()).add(node.rack)
    taken = {str(node.rack) for node in fleet.nodes}
    found: dict[NodeName, str] = {}
    unclear: dict[str, list[str]] = {}
    for node in fleet.nodes:
        rack = _told(told, node).rack if is_unsorted(node.rack) else None
        if rack is None:
            continue
        known = homes.get(rack, set())
        if len(known) > 1 or (not known and rack in taken):
            unclear.setdefault(rack, []).append(node.name)
        else:
            found[node.name] = next(iter(known), rack)
    said = (f"{fold(names)} may be in any rack that tells `{rack}`" for rack, names in unclear.items())
    return found, (*said, *_torn(fleet, found))


def _torn(fleet: Inventory, found: Mapping[NodeName, str]) -> Iterator[str]:
    """Return the racks to be whose nodes stand in several places of a level, as rail-wired racks do."""
    for level in fleet.levels[:-1]:
        places: dict[str, set[str | None]] = {}
        for node in fleet.nodes:
            if node.name in found:
                places.setdefault(found[node.name], set()).add(node.at(level))
        for rack, several in places.items():
            if len(several) > 1:
                yield f"rack `{rack}` is in several places of level `{level}`, which is left out there"


def _trays(
    fleet: Inventory, told: Mapping[NodeName, Whereabouts], moved: Mapping[NodeName, str]
) -> tuple[dict[NodeName, int], tuple[str, ...]]:
    """Return the trays to write: for a whole rack, where one at least differs; none where two nodes tell the same."""
    racks: dict[str, list[Node]] = {}
    for node in fleet.nodes:
        racks.setdefault(moved.get(node.name, node.rack), []).append(node)
    found: dict[NodeName, int] = {}
    said: list[str] = []
    for rack, nodes in racks.items():
        trays = {node.name: tray for node in nodes if (tray := _told(told, node).tray) is not None}
        twice = sorted({tray for tray in trays.values() if list(trays.values()).count(tray) > 1})
        if is_unsorted(rack) or not trays:
            continue
        if twice:
            names = fold(name for name, tray in trays.items() if tray in twice)
            said.append(f"{names} in rack `{rack}` tell one tray, {twice[0]}: no tray is written there")
        elif any(node.name in moved or node.tray != trays.get(node.name, node.tray) for node in nodes):
            found |= _of_rack(nodes, trays, moved)
    return found, tuple(said)


def _of_rack(
    nodes: Sequence[Node], trays: Mapping[NodeName, int], moved: Mapping[NodeName, str]
) -> Mapping[NodeName, int]:
    """Return nothing where the order of names tells the same: a list without trays counts them from 0."""
    ordered = sorted((node.name for node in nodes), key=natural)
    counted = [trays.get(name) for name in ordered] == list(range(len(ordered)))
    return {} if counted and all(node.name in moved for node in nodes) else trays


def _accelerator(fleet: Inventory, told: Mapping[NodeName, Whereabouts]) -> str | None:
    """Return the one kind of GPU that all nodes tell, where the inventory names none."""
    kinds = {one.accelerator for one in told.values()}
    stated = any(node.accelerator for node in fleet.nodes)
    return next(iter(kinds)) if len(kinds) == 1 and not stated else None
