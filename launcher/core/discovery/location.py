"""Locations that nodes report, and what to write of them into an inventory.

A rack is identified by the serial number of its chassis, or else by its ClusterUUID: all partitions of a rack have the
same one, though after a restart of the fabric one rack may show two. A node's name never identifies its rack.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from launcher.core.model.inventory import Inventory, Node
from launcher.core.model.nodeset import NodeName, fold, natural

UNSORTED = "unsorted"
"""The rack name in an inventory for nodes whose rack is not known."""


def is_unsorted(rack: str) -> bool:
    """Whether a rack of an inventory is the one for nodes whose rack is not known."""
    return rack == UNSORTED or rack.startswith(f"{UNSORTED}-")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLocation:
    """The location of a node by its GPU drivers; None where they disagree.

    `chassis` is the serial number of the rack's chassis, `domain` the NVLink domain, `tray` counts from 0, `machine`
    identifies the machine: no two machines share it.
    """

    chassis: str | None = None
    tray: int | None = None
    domain: str | None = None
    gpus: int = 0
    machine: str | None = None
    accelerator: str | None = None

    @property
    def rack(self) -> str | None:
        """Return the most reliable identifier of the rack."""
        return self.chassis or (self.domain.rpartition(".")[0] if self.domain else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendment:
    """Values to write into an inventory; `conflicts` are not written."""

    racks: Mapping[NodeName, str] = field(default_factory=dict)
    domains: Mapping[NodeName, str] = field(default_factory=dict)
    trays: Mapping[NodeName, int] = field(default_factory=dict)
    accelerator: str | None = None
    conflicts: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.racks or self.domains or self.trays or self.accelerator)


def amend(inventory: Inventory, reported: Mapping[NodeName, NodeLocation]) -> Amendment:
    """Return the reported values to write into an inventory.

    A named rack keeps its nodes; reports of another rack are conflicts.
    """
    racks, ambiguous = _racks(inventory, reported)
    trays, duplicates = _trays(inventory, reported, racks)
    return Amendment(
        racks=racks,
        domains={
            node.name: domain
            for node in inventory.nodes
            if (domain := _location(reported, node).domain) and domain.casefold() != (node.domain or "").casefold()
        },
        trays=trays,
        accelerator=_accelerator(inventory, reported),
        conflicts=(*conflicts(inventory, reported), *ambiguous, *duplicates),
    )


def conflicts(inventory: Inventory, reported: Mapping[NodeName, NodeLocation]) -> tuple[str, ...]:
    """Return messages about racks with nodes of two chassis, and the reverse."""
    found: list[str] = []
    racks_of: dict[str, dict[str, list[str]]] = {}
    for rack, nodes in _by_rack(inventory.nodes, {}).items():
        chassis: dict[str, list[str]] = {}
        for node in nodes:
            if serial := _location(reported, node).chassis:
                chassis.setdefault(serial, []).append(node.name)
        for serial, names in chassis.items():
            racks_of.setdefault(serial, {})[rack] = names
        if len(chassis) > 1 and not is_unsorted(rack):
            parts = "; ".join(f"{fold(names)} in `{serial}`" for serial, names in chassis.items())
            found.append(f"rack `{rack}` has nodes of {len(chassis)} chassis: {parts}")
    for serial, racks in racks_of.items():
        named = [rack for rack in racks if not is_unsorted(rack)]
        if len(named) > 1:
            parts = ", ".join(f"`{rack}` ({fold(racks[rack])})" for rack in named)
            found.append(f"chassis `{serial}` has nodes in {len(named)} racks: {parts}")
    return tuple(found)


def _location(reported: Mapping[NodeName, NodeLocation], node: Node) -> NodeLocation:
    return reported.get(node.name, NodeLocation())


def _by_rack(nodes: Iterable[Node], moved: Mapping[NodeName, str]) -> dict[str, list[Node]]:
    """Return the nodes of each rack, once the moved nodes are in their new racks."""
    racks: dict[str, list[Node]] = {}
    for node in nodes:
        racks.setdefault(moved.get(node.name, node.rack), []).append(node)
    return racks


def _racks(
    inventory: Inventory, reported: Mapping[NodeName, NodeLocation]
) -> tuple[dict[NodeName, str], tuple[str, ...]]:
    """Return the racks of unsorted nodes, and messages about ambiguous ones."""
    named: dict[str, set[str]] = {}
    for node in inventory.nodes:
        if (rack := _location(reported, node).rack) and not is_unsorted(node.rack):
            named.setdefault(rack, set()).add(node.rack)
    in_use = {str(node.rack) for node in inventory.nodes}
    found: dict[NodeName, str] = {}
    ambiguous: dict[str, list[str]] = {}
    for node in inventory.nodes:
        rack = _location(reported, node).rack if is_unsorted(node.rack) else None
        if rack is None:
            continue
        known = named.get(rack, set())
        if len(known) > 1 or (not known and rack in in_use):
            ambiguous.setdefault(rack, []).append(node.name)
        else:
            found[node.name] = next(iter(known), rack)
    messages = (f"{fold(names)} could be in any rack that reports `{rack}`" for rack, names in ambiguous.items())
    return found, (*messages, *_split_racks(inventory, found))


def _split_racks(inventory: Inventory, found: Mapping[NodeName, str]) -> Iterator[str]:
    """Return messages about new racks with nodes in several domains of a level."""
    for level in inventory.levels[:-1]:
        places: dict[str, set[str | None]] = {}
        for node in inventory.nodes:
            if node.name in found:
                places.setdefault(found[node.name], set()).add(node.at(level))
        for rack, several in places.items():
            if len(several) > 1:
                yield f"rack `{rack}` has nodes in several places of level `{level}`; `{level}` is left unset"


def _trays(
    inventory: Inventory, reported: Mapping[NodeName, NodeLocation], moved: Mapping[NodeName, str]
) -> tuple[dict[NodeName, int], tuple[str, ...]]:
    """Return the trays of each rack with a new tray, and messages about conflicts."""
    found: dict[NodeName, int] = {}
    messages: list[str] = []
    for rack, nodes in _by_rack(inventory.nodes, moved).items():
        trays = {node.name: tray for node in nodes if (tray := _location(reported, node).tray) is not None}
        twice = sorted({tray for tray in trays.values() if list(trays.values()).count(tray) > 1})
        if is_unsorted(rack) or not trays:
            continue
        if twice:
            names = fold(name for name, tray in trays.items() if tray in twice)
            messages.append(f"{names} in rack `{rack}` report the same tray, {twice[0]}; its trays are not written")
        elif any(node.name in moved or node.tray != trays.get(node.name, node.tray) for node in nodes):
            found |= _trays_of_rack(nodes, trays, moved)
    return found, tuple(messages)


def _trays_of_rack(
    nodes: Sequence[Node], trays: Mapping[NodeName, int], moved: Mapping[NodeName, str]
) -> Mapping[NodeName, int]:
    """Return the trays of a rack; none if the order of the names implies them."""
    ordered = sorted((node.name for node in nodes), key=natural)
    implied = [trays.get(name) for name in ordered] == list(range(len(ordered)))
    return {} if implied and all(node.name in moved for node in nodes) else trays


def _accelerator(inventory: Inventory, reported: Mapping[NodeName, NodeLocation]) -> str | None:
    """Return the kind of GPU that all nodes report, if the inventory names none."""
    kinds = {one.accelerator for one in reported.values()}
    stated = any(node.accelerator for node in inventory.nodes)
    return next(iter(kinds)) if len(kinds) == 1 and not stated else None
