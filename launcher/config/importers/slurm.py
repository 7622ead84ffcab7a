"""What Slurm says of its topology, in whichever form: blocks are racks, switches the levels above them.

A block is what `topology/block` was made for: the nodes of one NVLink rack (Slurm's topology guide). A leaf switch says
nothing of racks: nodes that hang on one may stand anywhere.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from launcher.config.importers.found import Host
from launcher.config.importers.roster import Roster

MAX_TIERS = 8
"""Switches above each other; real fabrics have three or four."""

UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_ITEM = re.compile(r"(?:[^\[\],]|\[[^\[\]]*\])+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block and its nodes; `domain` where a comment of the program that wrote the file tells it."""

    name: str
    line: int
    nodes: tuple[str, ...]
    domain: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A switch with the nodes that hang on it, or with the switches below it."""

    name: str
    line: int
    nodes: tuple[str, ...] = ()
    children: tuple[str, ...] = ()


def nodes_of(text: str, line: int, roster: Roster) -> tuple[str, ...]:
    """Return the nodes of a list, and remark on a part of it that looks as if it went on with the prefix before."""
    if text.upper() == "ALL":
        roster.wrong(line, "`ALL` names no node", "`sinfo -N -h -o %N` lists them")
        return ()
    before = ""
    for item in _ITEM.findall(text):
        prefix = re.split(r"[\[0-9]", item.strip(), maxsplit=1)[0]
        if prefix and before != prefix and before.endswith(prefix):
            lost = before.removesuffix(prefix)
            what = f"`{item.strip()[:40]}` stands for hosts whose names begin with `{prefix}`, not with `{before}`"
            roster.remark(line, what, f"each part of a list has its whole name: `{lost}` is not repeated")
        before = prefix
    return roster.expand(text, line)


def block_sizes(sizes: Sequence[int], line: int, roster: Roster) -> None:
    """Remark on sizes that Slurm refuses: each must be the first times a power of two (topology.conf(5))."""
    if sizes and any(size % sizes[0] or (size // sizes[0]) & (size // sizes[0] - 1) for size in sizes):
        said = ",".join(map(str, sizes))
        roster.remark(line, f"block sizes `{said}` are not the smallest one times powers of two, as Slurm wants them")


def take_in(blocks: Sequence[Block], switches: Sequence[Switch], roster: Roster) -> None:
    """Add the nodes of a topology to a roster: the racks by block, and the places by switch."""
    tree = _Tree(switches, roster)
    roster.levels = tree.levels
    places = tree.places()
    _check_once("block", blocks, roster)
    for block in blocks:
        for node in block.nodes:
            place = places.pop(node, (block.line, {}))[1]
            roster.add(Host(name=node, line=block.line, rack=block.name, domain=block.domain, places=place))
    for node, (line, place) in places.items():
        roster.add(Host(name=node, line=line, places=place))


def _check_once(word: str, named: Sequence[Block] | Sequence[Switch], roster: Roster) -> None:
    first: dict[str, int] = {}
    for one in named:
        if one.name in first:
            what = f"{word} `{one.name}` stands on line {first[one.name]} as well"
            roster.wrong(one.line, what, "keep one of the two")
        first.setdefault(one.name, one.line)


class _Tree:
    """The switches by name, each with how far it is above the nodes, and its parent."""

    def __init__(self, switches: Sequence[Switch], roster: Roster) -> None:
        self._roster = roster
        _check_once("switch", switches, roster)
        self._switches = {switch.name: switch for switch in switches}
        self._parents = self._find_parents()
        self._tiers = self._find_tiers()
        counted = Counter(self._tiers.values())
        top = min(max(counted, default=0), MAX_TIERS)
        # One switch above all says nothing.
        while top > 1 and counted[top] == 1:
            top -= 1
        self._top = top
        self.levels = tuple(map(_level, range(top, 0, -1)))

    def places(self) -> dict[str, tuple[int, Mapping[str, str]]]:
        """Return for each node the line where it stands, and the switches above it by level."""
        leaves: dict[str, list[Switch]] = {}
        for switch in self._switches.values():
            for node in switch.nodes:
                leaves.setdefault(node, []).append(switch)
        found: dict[str, tuple[int, Mapping[str, str]]] = {}
        for node, (first, *more) in leaves.items():
            if more:
                where = " and ".join(f"`{one.name}` (line {one.line})" for one in (first, *more)[:3])
                self._roster.remark(more[-1].line, f"`{node}` hangs on {where}: its place is taken as unknown")
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
                    self._roster.remark(switch.line, f"switch `{child}` is named here and described nowhere")
                elif parents.setdefault(child, switch.name) != switch.name:
                    what = f"switch `{child}` is below `{switch.name}` and another: what is above it is left out"
                    self._roster.remark(switch.line, what)
                    parents[child] = None
        return parents

    def _find_tiers(self) -> dict[str, int]:
        """Return 1 for a switch with nodes, else one more than the highest below; upwards: no cycle is walked."""
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
                self._roster.wrong(switch.line, f"switch `{name}` is below itself, or above such a one")
            elif tiers[name] == MAX_TIERS + 1:
                self._roster.wrong(
                    switch.line, f"switch `{name}` is above {MAX_TIERS} others that are above each other"
                )


def _level(tier: int) -> str:
    return "switch" if tier == 1 else f"switch-{tier}"
