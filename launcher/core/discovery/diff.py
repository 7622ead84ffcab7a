"""Differences between an inventory and what its nodes report."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from launcher.core.discovery.location import NodeLocation, amend, is_unsorted
from launcher.core.model.inventory import GpuDriver, Inventory, Node
from launcher.core.model.nodeset import NodeName, fold


class DifferenceKind(Enum):
    """How a reported value differs from the inventory."""

    DIFFERS = "differs"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryDifference:
    """One difference; `nodes` are folded node names, or the word `racks`."""

    kind: DifferenceKind
    nodes: str
    message: str


def compare(inventory: Inventory, reported: Mapping[NodeName, NodeLocation]) -> tuple[InventoryDifference, ...]:
    """Return the differences between an inventory and its nodes, equal ones folded.

    Contradictions come first. A value that the inventory leaves out is missing, not different: the reported value then
    applies.
    """
    same: dict[tuple[DifferenceKind, str], list[str]] = {}
    for node in inventory.nodes:
        if node.name in reported and node.gpu_driver is not GpuDriver.NONE:
            for kind, message in _of_node(node, reported[node.name]):
                same.setdefault((kind, message), []).append(node.name)
    found = [
        InventoryDifference(kind=kind, nodes=fold(names), message=message) for (kind, message), names in same.items()
    ]
    amendment = amend(inventory, reported)
    trays = [name for name in amendment.trays if name not in amendment.racks]
    if trays:
        found.append(_differs(fold(trays), "tray numbers differ (unset ones count from 0 in the order of the file)"))
    found += (_differs("racks", message) for message in amendment.conflicts)
    found += (_differs(fold(names), "same machine") for names in _same_machines(reported))
    return tuple(sorted(found, key=lambda one: one.kind is not DifferenceKind.DIFFERS))


def _differs(nodes: str, message: str) -> InventoryDifference:
    return InventoryDifference(kind=DifferenceKind.DIFFERS, nodes=nodes, message=message)


def _of_node(node: Node, reported: NodeLocation) -> Iterator[tuple[DifferenceKind, str]]:
    if reported.domain and node.domain is None:
        yield DifferenceKind.MISSING, f"domain `{reported.domain}`"
    elif reported.domain and node.domain and reported.domain.casefold() != node.domain.casefold():
        yield DifferenceKind.DIFFERS, f"domain: inventory `{node.domain}`, driver `{reported.domain}`"
    if is_unsorted(node.rack) and reported.rack:
        yield DifferenceKind.MISSING, f"rack `{reported.rack}`"
    if reported.gpus != node.gpus:
        yield DifferenceKind.DIFFERS, f"GPUs: inventory {node.gpus}, driver {reported.gpus}"
    if reported.accelerator and node.accelerator is None:
        yield DifferenceKind.MISSING, f"accelerator `{reported.accelerator}`"
    elif (
        reported.accelerator and node.accelerator and reported.accelerator.casefold() not in node.accelerator.casefold()
    ):
        yield DifferenceKind.DIFFERS, f"accelerator: inventory `{node.accelerator}`, driver `{reported.accelerator}`"


def _same_machines(reported: Mapping[NodeName, NodeLocation]) -> Iterator[list[str]]:
    """Return the names that lead to one machine."""
    machines: dict[str, list[str]] = {}
    for name, one in reported.items():
        if one.machine:
            machines.setdefault(one.machine, []).append(name)
    yield from (names for names in machines.values() if len(names) > 1)
