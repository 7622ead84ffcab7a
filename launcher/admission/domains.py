"""NVLink domains that an inventory leaves out: as nodes reported them, or guessed from the rack."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from launcher.admission.node_checks import Examined
from launcher.core.model.inventory import GpuDriver, Inventory, Node
from launcher.core.model.nodeset import NodeName, fold
from launcher.errors import Mistake, SpecError
from launcher.probe.check_gpu import domain_of
from launcher.probe.results import Unknown


def guessed(fleet: Inventory, remembered: Mapping[NodeName, str]) -> Inventory:
    """Return the inventory with known domains, and guesses for all other nodes.

    A rack is assumed to be one domain.

    Nodes that are placed by a guess are asked before a start.
    """
    return with_domains(fleet, _guesses(fleet, remembered, unknown_domains(fleet)))


def _guesses(fleet: Inventory, known: Mapping[NodeName, str], missing: Iterable[NodeName]) -> Mapping[NodeName, str]:
    of_rack = {node.rack: domain for node in fleet.nodes if (domain := known.get(node.name, node.domain))}
    racks = {node.name: node.rack for node in fleet.nodes}
    return {name: known.get(name) or of_rack.get(racks[name]) or racks[name] for name in missing}


def with_domains(fleet: Inventory, domains: Mapping[NodeName, str]) -> Inventory:
    """Return the inventory with these domains for nodes that have none in it."""
    nodes = tuple(
        replace(node, domain=domains[node.name]) if _left_out(node) and node.name in domains else node
        for node in fleet.nodes
    )
    return replace(fleet, nodes=nodes)


def unknown_domains(fleet: Inventory) -> tuple[NodeName, ...]:
    """Return the nodes whose NVLink domain only their drivers know."""
    return tuple(node.name for node in fleet.nodes if _left_out(node))


def _left_out(node: Node) -> bool:
    return node.domain is None and node.gpu_driver is GpuDriver.NVIDIA


def check_domains(fleet: Inventory, found: Iterable[Examined]) -> None:
    """Raise SpecError where the inventory names other domains than the drivers.

    Slices would be torn apart.
    """
    sides: dict[tuple[str, str], list[NodeName]] = {}
    for one in found:
        reported = None if isinstance(one.facts, Unknown) else domain_of(one.facts)
        written = one.node.domain
        if reported is not None and written is not None and reported.casefold() != written.casefold():
            sides.setdefault((written, reported), []).append(one.node.name)
    if sides:
        hint = "correct `domain:`, or remove it so that the drivers are asked"
        raise SpecError(
            tuple(
                Mistake(
                    what=f"{fold(names)}: the inventory says domain `{written}`, the drivers report `{reported}`",
                    where=fleet.source,
                    hint=hint,
                )
                for (written, reported), names in sides.items()
            )
        )
