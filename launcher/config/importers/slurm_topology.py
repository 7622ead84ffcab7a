"""The topology of Slurm: blocks are racks, switches the levels above them.

A block has the nodes of one NVLink rack (Slurm's topology guide). A leaf switch does not: its nodes may be in any rack.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from launcher.config.importers.collector import HostCollector
from launcher.config.importers.imported import ImportedHost

MAX_TIERS = 8
"""The most tiers of switches; real fabrics have three or four."""

UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_ITEM = re.compile(r"(?:[^\[\],]|\[[^\[\]]*\])+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block and its nodes.

    `domain` is from a comment of the program that wrote the file.
    """

    name: str
    line: int
    nodes: tuple[str, ...]
    domain: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A switch with its nodes, or with the switches below it."""

    name: str
    line: int
    nodes: tuple[str, ...] = ()
    children: tuple[str, ...] = ()


def nodes_of(text: str, line: int, collector: HostCollector) -> tuple[str, ...]:
    """Return the nodes of a list.

    Warn if a part of it seems to rely on the prefix of the part before.
    """
    if text.upper() == "ALL":
        collector.mistake(line, "`ALL` does not name the nodes", "list them with `sinfo -N -h -o %N`")
        return ()
    before = ""
    for item in _ITEM.findall(text):
        prefix = re.split(r"[\[0-9]", item.strip(), maxsplit=1)[0]
        if prefix and before != prefix and before.endswith(prefix):
            lost = before.removesuffix(prefix)
            what = f"names in `{item.strip()[:40]}` begin with `{prefix}`, not with `{before}`"
            collector.warn(line, what, f"if this is not meant, write `{lost}` in each part of the list")
        before = prefix
    return collector.expand(text, line)


def block_sizes(sizes: Sequence[int], line: int, collector: HostCollector) -> None:
    """Warn of block sizes that Slurm refuses.

    Each must be the first times a power of two (topology.conf(5)).
    """
    if sizes and any(size % sizes[0] or (size // sizes[0]) & (size // sizes[0] - 1) for size in sizes):
        written = ",".join(map(str, sizes))
        collector.warn(line, f"Slurm refuses block sizes `{written}`: each must be the first times a power of two")


def add_topology(blocks: Sequence[Block], switches: Sequence[Switch], collector: HostCollector) -> None:
    """Add the nodes of a topology: racks by block, levels by switch."""
    tree = _Tree(switches, collector)
    collector.levels = tree.levels
    places = tree.places()
    _check_once("block", blocks, collector)
    for block in blocks:
        for node in block.nodes:
            place = places.pop(node, (block.line, {}))[1]
            collector.add(ImportedHost(name=node, line=block.line, rack=block.name, domain=block.domain, places=place))
    for node, (line, place) in places.items():
        collector.add(ImportedHost(name=node, line=line, places=place))


def _check_once(kind: str, named: Sequence[Block] | Sequence[Switch], collector: HostCollector) -> None:
    first: dict[str, int] = {}
    for one in named:
        if one.name in first:
            what = f"{kind} `{one.name}` is also on line {first[one.name]}"
            collector.mistake(one.line, what, "remove one of the two")
        first.setdefault(one.name, one.line)


class _Tree:
    """The switches by name, each with its tier (1 for the lowest) and its parent."""

    def __init__(self, switches: Sequence[Switch], collector: HostCollector) -> None:
        self._collector = collector
        _check_once("switch", switches, collector)
        self._switches = {switch.name: switch for switch in switches}
        self._parents = self._find_parents()
        self._tiers = self._find_tiers()
        counted = Counter(self._tiers.values())
        top = min(max(counted, default=0), MAX_TIERS)
        # A single switch above all others distinguishes nothing.
        while top > 1 and counted[top] == 1:
            top -= 1
        self._top = top
        self.levels = tuple(map(_level, range(top, 0, -1)))

    def places(self) -> dict[str, tuple[int, Mapping[str, str]]]:
        """Return the line of each node, and the switches above it by level."""
        leaves: dict[str, list[Switch]] = {}
        for switch in self._switches.values():
            for node in switch.nodes:
                leaves.setdefault(node, []).append(switch)
        found: dict[str, tuple[int, Mapping[str, str]]] = {}
        for node, (first, *more) in leaves.items():
            if more:
                where = " and ".join(f"`{one.name}` (line {one.line})" for one in (first, *more)[:3])
                self._collector.warn(more[-1].line, f"`{node}` has several switches, {where}: its switch is unknown")
            found[node] = first.line, {} if more else dict(self._above(first.name))
        return found

    def _above(self, name: str) -> Iterator[tuple[str, str]]:
        at: str | None = name
        while at is not None and self._tiers.get(at, MAX_TIERS + 1) <= self._top:
            yield _level(self._tiers[at]), at
            at = self._parents.get(at)

    def _find_parents(self) -> dict[str, str | None]:
        parents: dict[str, str | None] = {}
        for switch in self._switches.values():
            for child in dict.fromkeys(switch.children):
                if child not in self._switches:
                    self._collector.warn(switch.line, f"switch `{child}` is used here but not defined")
                elif parents.setdefault(child, switch.name) != switch.name:
                    what = f"switch `{child}` has several parents, one of them `{switch.name}`: levels above it ignored"
                    self._collector.warn(switch.line, what)
                    parents[child] = None
        return parents

    def _find_tiers(self) -> dict[str, int]:
        """Return the tier of each switch: 1 with nodes, else one above the highest below.

        A cycle has no tiers.
        """
        below = {
            name: [child for child in dict.fromkeys(one.children) if child in self._switches]
            for name, one in self._switches.items()
        }
        above: dict[str, list[str]] = {}
        for name, children in below.items():
            for child in children:
                above.setdefault(child, []).append(name)
        waiting = {name: len(children) for name, children in below.items()}
        ready = [name for name, count in waiting.items() if not count]
        tiers: dict[str, int] = {}
        for name in ready:
            tiers[name] = 1 + max((tiers[child] for child in below[name]), default=0)
            for parent in above.get(name, ()):
                waiting[parent] -= 1
                if not waiting[parent]:
                    ready.append(parent)
        self._check(tiers)
        return tiers

    def _check(self, tiers: Mapping[str, int]) -> None:
        for name, switch in self._switches.items():
            if name not in tiers:
                self._collector.mistake(switch.line, f"switch `{name}` is in a cycle, or above one")
            elif tiers[name] == MAX_TIERS + 1:
                self._collector.mistake(
                    switch.line, f"switch `{name}` is above more than {MAX_TIERS} tiers of switches"
                )


def _level(tier: int) -> str:
    return "switch" if tier == 1 else f"switch-{tier}"
