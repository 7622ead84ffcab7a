"""The shape of a real inventory, for models of equal racks: which nodes count, and which are left out.

Nodes of one kind count: one accelerator, and one number of GPUs. The most common size of NVLink domain counts as the
size of all: larger ones count as that size, smaller ones are left out.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from launcher.core.model.inventory import Inventory, Node
from launcher.core.model.nodeset import fold
from launcher.core.model.text import count
from launcher.core.planner.sizing import FleetShape

Kind = tuple[str, int]
"""Accelerator (empty: not known) and GPUs of a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedFleet:
    """The shape of the nodes that count, their accelerator, and what does not count, for users."""

    shape: FleetShape
    accelerator: str | None = None
    notes: tuple[str, ...] = ()


def counted_fleet(inventory: Inventory, accelerator: str | None = None) -> CountedFleet | None:
    """Return the shape of the nodes of an accelerator, by default the one with the most GPUs; None without any.

    Drained nodes count: nodes in repair are part of the models. Unknown NVLink domains count as one a rack.
    """
    kinds: dict[Kind, list[Node]] = defaultdict(list)
    for node in inventory.nodes:
        if node.gpus > 0:
            kinds[node.accelerator or "", node.gpus].append(node)
    able = [kind for kind in kinds if accelerator is None or kind[0] == accelerator]
    if not able:
        return None
    chosen = min(able, key=lambda kind: (-kind[1] * len(kinds[kind]), kind))
    domains = _domains(kinds[chosen])
    nodes = _common(domains)
    racks = [name for name, size in domains.items() if size >= nodes]
    shape = FleetShape(racks=len(racks), nodes_per_rack=nodes, gpus_per_node=chosen[1])
    notes = (*_other_kinds(kinds, chosen), *_other_sizes(domains, nodes), *_split(kinds[chosen], domains))
    return CountedFleet(shape=shape, accelerator=chosen[0] or None, notes=notes)


def _domains(nodes: Sequence[Node]) -> Mapping[str, int]:
    """Return the number of nodes of each NVLink domain."""
    return Counter(_domain(node) for node in nodes)


def _domain(node: Node) -> str:
    return node.rack if node.domain in (None, node.rack) else f"{node.rack}/{node.domain}"


def _common(domains: Mapping[str, int]) -> int:
    """Return the most common size; of two the one with more nodes in all racks that are at least as large."""
    sizes = Counter(domains.values())
    return max(sizes, key=lambda size: (sizes[size], size * sum(1 for one in domains.values() if one >= size)))


def _other_kinds(kinds: Mapping[Kind, Sequence[Node]], chosen: Kind) -> Iterator[str]:
    for kind in sorted(kinds.keys() - {chosen}):
        yield f"{count(len(kinds[kind]), 'node')} of {_named(kind)} left out: only {_named(chosen)} counts"


def _named(kind: Kind) -> str:
    name, gpus = kind
    return f"{name}:{gpus}" if name else f"{count(gpus, 'GPU')} of no known kind"


def _other_sizes(domains: Mapping[str, int], nodes: int) -> Iterator[str]:
    smaller = [name for name, size in domains.items() if size < nodes]
    larger = [name for name, size in domains.items() if size > nodes]
    if smaller:
        yield f"{fold(smaller)} left out: fewer than {count(nodes, 'node')}"
    if larger:
        yield f"{fold(larger)} counted as {count(nodes, 'node')}, as most racks have"


def _split(nodes: Sequence[Node], domains: Mapping[str, int]) -> Iterator[str]:
    racks = {node.rack for node in nodes}
    if len(domains) > len(racks):
        yield f"{count(len(domains), 'NVLink domain')} in {count(len(racks), 'rack')}: each domain counts as a rack"
