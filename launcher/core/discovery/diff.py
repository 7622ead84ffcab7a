"""An inventory held against what its nodes told: what differs, what it leaves out, what nobody told."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from launcher.core.discovery.location import Whereabouts, amend, is_unsorted
from launcher.core.model.inventory import GpuDriver, Inventory, Node
from launcher.core.model.nodeset import NodeName, fold


class Verdict(Enum):
    """How a thing that an inventory says, or does not, stands to what nodes told."""

    DIFFERS = "differs"
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing, of which nodes (folded, or a rack's name), and in words."""

    verdict: Verdict
    whose: str
    message: str


def compare(fleet: Inventory, told: Mapping[NodeName, Whereabouts]) -> tuple[Difference, ...]:
    """Return where a file and its nodes part, alike things of several nodes together; nothing where they agree.

    What the file leaves out is no difference: `domain` then is what the drivers report.
    """
    same: dict[tuple[Verdict, str], list[str]] = {}
    for node in fleet.nodes:
        if node.name in told and node.gpu_driver is not GpuDriver.NONE:
            for verdict, message in _of_node(node, told[node.name]):
                same.setdefault((verdict, message), []).append(node.name)
    found = [
        Difference(verdict=verdict, whose=fold(names), message=message) for (verdict, message), names in same.items()
    ]
    amendment = amend(fleet, told)
    trays = [name for name in amendment.trays if name not in amendment.racks]
    if trays:
        message = "the trays are others than those written, or counted from 0 in the order of the list"
        found.append(Difference(verdict=Verdict.DIFFERS, whose=fold(trays), message=message))
    found += [Difference(verdict=Verdict.DIFFERS, whose="racks", message=message) for message in amendment.conflicts]
    found += [
        Difference(verdict=Verdict.DIFFERS, whose=fold(names), message="are one machine") for names in _twice(told)
    ]
    return tuple(sorted(found, key=lambda one: one.verdict is not Verdict.DIFFERS))


def _of_node(node: Node, told: Whereabouts) -> Iterator[tuple[Verdict, str]]:
    if told.domain and node.domain is None:
        yield Verdict.LEFT_OUT, f"the domain is `{told.domain}`"
    elif told.domain and node.domain and told.domain.casefold() != node.domain.casefold():
        yield Verdict.DIFFERS, f"the inventory says domain `{node.domain}`, the drivers `{told.domain}`"
    if is_unsorted(node.rack) and told.rack:
        yield Verdict.LEFT_OUT, f"the rack is `{told.rack}`"
    if told.gpus != node.gpus:
        yield Verdict.DIFFERS, f"the inventory says {node.gpus} GPUs, the drivers show {told.gpus}"
    if told.accelerator and node.accelerator is None:
        yield Verdict.LEFT_OUT, f"the accelerator is `{told.accelerator}`"
    elif told.accelerator and node.accelerator and told.accelerator.casefold() not in node.accelerator.casefold():
        yield Verdict.DIFFERS, f"the inventory says `{node.accelerator}`, the drivers `{told.accelerator}`"


def _twice(told: Mapping[NodeName, Whereabouts]) -> Iterator[list[str]]:
    """Return names that lead to one machine: no two have a GPU in common."""
    machines: dict[str, list[str]] = {}
    for name, one in told.items():
        if one.machine:
            machines.setdefault(one.machine, []).append(name)
    yield from (names for names in machines.values() if len(names) > 1)
