"""Which nodes a group can use, gathered into cells; and for each node it cannot use, the one reason that counts."""

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fnmatch import translate

from launcher.core.bounds import Bounds
from launcher.core.fleet import ANY_LEVEL, NODE_LEVEL, RACK_LEVEL, GpuDriver, Inventory, Node, NodeName, RackName
from launcher.core.nodeset import expand
from launcher.core.placement import Exclusion, Taken
from launcher.core.task import Group

_RANGE_IN_BRACKETS = re.compile(r"\[[^\]]*([0-9]{2,}-|-[0-9]{2,}|,|/)[^\]]*\]")


@dataclass(slots=True, kw_only=True)
class Cell:
    """The nodes of one rack and one NVLink domain that a group can use and that are still free.

    `place` is the value of the group's `within` level (the rack for `node`), `ground` that of its `spread` level;
    `size` counts all nodes of the domain, usable or not; `at` names the cell at the inventory's levels.
    """

    place: str
    rack: RackName
    domain: str | None
    ground: str | None
    size: int
    free: list[Node]
    at: Mapping[str, str | None]

    @property
    def whole(self) -> bool:
        """Answer whether every node of the domain is free, so that placing here breaks a domain."""
        return len(self.free) == self.size


class Pattern:
    """Names that a task speaks of: globs, and ranges of numbers as in `r07-n[01-16]`.

    Read as a glob, `[01-16]` would stand for one character, and so never match what its writer meant.
    """

    __slots__ = ("_globs", "_names")

    def __init__(self, texts: Iterable[str]) -> None:
        spelled = [name for text in texts for name in _spell(text)]
        self._names = frozenset(name for name in spelled if not re.search(r"[*?\[]", name))
        globs = [translate(name) for name in spelled if name not in self._names]
        self._globs = re.compile("|".join(globs)) if globs else None

    def matches(self, name: str) -> bool:
        """Answer whether the pattern speaks of this name."""
        return name in self._names or (self._globs is not None and self._globs.match(name) is not None)


class Sieve:
    """What a group asks of a node, held against the inventory as it is now.

    `promised` are the nodes that other slices of the same task have got, `bounds` where those allow another.
    """

    def __init__(
        self,
        group: Group,
        taken: Mapping[NodeName, Taken],
        promised: AbstractSet[NodeName],
        bounds: Bounds | None = None,
    ) -> None:
        rule = group.topology
        self.group = group
        self.taken = taken
        self.promised = promised
        self.bounds = bounds
        self.spread = None if rule.spread in (None, NODE_LEVEL, ANY_LEVEL) else rule.spread
        self._kind = None if group.accelerator is None else group.accelerator.casefold()
        self._local = rule.within == RACK_LEVEL
        self._levels = [level for level in (rule.within, self.spread) if level not in _ALWAYS]
        self._racks = Pattern(rule.racks) if rule.racks else None
        self._no_racks = Pattern(rule.exclude_racks)
        self._no_nodes = Pattern(rule.exclude_nodes) if rule.exclude_nodes else None
        self._barred: dict[RackName, bool] = {}

    def reason(self, node: Node) -> Exclusion | None:
        """Answer the first reason, in the order of `Exclusion`, why the group cannot use a node; None where it can."""
        taken = self.taken.get(node.name)
        if self._bars(node.rack) or (self._no_nodes is not None and self._no_nodes.matches(node.name)):
            return Exclusion.EXCLUDED
        if node.drained is not None:
            return Exclusion.DRAINED
        if taken is not None and taken.sick is not None:
            return Exclusion.SICK
        if self._local and node.domain is None:
            return Exclusion.NO_DOMAIN
        if self._levels and None in [node.at(level) for level in self._levels]:
            return Exclusion.UNNAMED
        if self._kind is not None and not self._of_kind(node):
            return Exclusion.KIND
        if node.gpus < self.group.gpus:
            return Exclusion.TOO_FEW_GPUS
        if taken is not None and taken.by_run is not None:
            return Exclusion.IN_USE
        if node.name in self.promised:
            return Exclusion.PROMISED
        return None if self.bounds is None else self.bounds.reason(node)

    def _of_kind(self, node: Node) -> bool:
        # Pretended GPUs of no stated kind are of any; real ones are of none until somebody says which.
        if node.accelerator is None:
            return node.gpu_driver is GpuDriver.NONE
        return node.accelerator.casefold() == self._kind

    def place(self, node: Node) -> str:
        """Answer the name of the place that a slice on this node would have to stay in; `any` where it need not."""
        if self._local:
            return node.rack
        within = self.group.topology.within
        if within == ANY_LEVEL:
            return ANY_LEVEL
        return (None if within == NODE_LEVEL else node.at(within)) or node.rack

    def _bars(self, rack: RackName) -> bool:
        barred = self._barred.get(rack)
        if barred is None:
            barred = self._no_racks.matches(rack) or (self._racks is not None and not self._racks.matches(rack))
            self._barred[rack] = barred
        return barred


def gather(inventory: Inventory, sieve: Sieve) -> tuple[Cell, ...]:
    """Answer the cells of all nodes that the sieve lets through, in no particular order."""
    domains: dict[tuple[RackName, str | None], list[Node]] = {}
    for node in inventory.nodes:
        domains.setdefault((node.rack, node.domain), []).append(node)
    spread = sieve.spread
    cells: list[Cell] = []
    for (rack, domain), nodes in domains.items():
        free = [node for node in nodes if sieve.reason(node) is None]
        parts: dict[tuple[str, str | None], list[Node]] = {}
        for node in free:
            parts.setdefault((sieve.place(node), node.at(spread) if spread else None), []).append(node)
        for (place, ground), part in parts.items():
            at = _levels(inventory, part)
            cells.append(Cell(place=place, rack=rack, domain=domain, ground=ground, size=len(nodes), free=part, at=at))
    return tuple(cells)


_ALWAYS = (None, NODE_LEVEL, RACK_LEVEL, ANY_LEVEL)
"""The levels at which every node has a place."""


def _levels(inventory: Inventory, nodes: Iterable[Node]) -> Mapping[str, str | None]:
    """Answer where a cell is, by its first node: an inventory in which a rack straddles blocks is not refused here."""
    first = min(nodes, key=lambda node: node.name)
    return {level: first.at(level) for level in inventory.levels}


def _spell(text: str) -> tuple[str, ...]:
    """Answer the globs that a pattern with ranges stands for; a pattern without is one glob."""
    if not _RANGE_IN_BRACKETS.search(text):
        return (text,)
    try:
        return expand(text)
    except ValueError:  # a comma in a character class: a glob after all
        return (text,)
