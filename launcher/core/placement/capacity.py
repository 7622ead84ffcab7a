"""The free nodes of an inventory while the slices of a task are put on them: what is alike, and in which place."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from launcher.core.model.inventory import NODE_LEVEL, RACK_LEVEL, GpuDriver, Inventory, Node, RackName
from launcher.core.model.nodeset import NaturalKey, NodeName, natural
from launcher.core.model.placement import Slice, Taken
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.constraints import Ledger, ground
from launcher.core.placement.filters import Sieve, free_of_marks, named_levels


def rank_order(node: Node) -> tuple[NaturalKey, bool, int, NaturalKey]:
    """Return the sort key of ranks: rack by rack, tray by tray; a node without a tray comes last in its rack."""
    return natural(node.rack), node.tray is None, node.tray or 0, natural(node.name)


@dataclass(slots=True)
class Home:
    """An NVLink domain of a rack: how many nodes it has, and how many that nobody has and nothing is wrong with.

    `cells` are those by what their nodes look like.
    """

    size: int = 0
    free: int = 0
    cells: dict[tuple[object, ...], "Cell"] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True, eq=False)
class Cell:
    """Free nodes that are alike: in one rack and one NVLink domain, of the same use to every group of the task.

    `node` is one of them; `uses` has a bit for each way of asking that they satisfy.
    """

    node: Node
    uses: int
    home: Home
    free: list[Node] = field(default_factory=list)
    views: list["Place"] = field(default_factory=list)
    ordered: bool = False

    @property
    def rack(self) -> RackName:
        """Return the rack of all these nodes."""
        return self.node.rack

    @property
    def domain(self) -> str | None:
        """Return the NVLink domain of all these nodes."""
        return self.node.domain

    @property
    def whole(self) -> bool:
        """Whether every node of the domain is free, so that placing here breaks a domain."""
        return self.home.free == self.home.size

    def at(self, level: str) -> str | None:
        """Return the name of the place of these nodes at a level; None where the inventory does not say."""
        if level == RACK_LEVEL:
            return self.node.rack
        return None if level == NODE_LEVEL else self.node.places.get(level)

    def take(self, count: int) -> list[Node]:
        """Give away nodes in rank order."""
        if not self.ordered:
            self.free.sort(key=rank_order)
            self.ordered = True
        taken = self.free[:count]
        del self.free[:count]
        self.home.free -= count
        for place in self.views:
            place.room -= count
        return taken


@dataclass(slots=True, kw_only=True, eq=False)
class Place:
    """Somewhere a slice may be: for `rack` and `node` one NVLink domain of a rack, else all nodes of one value.

    `at` names it at the levels where all of it is in one place; `gpus` is the most that one of its nodes has.
    """

    name: str
    cells: list[Cell]
    at: Mapping[str, str]
    gpus: int
    room: int

    @property
    def whole(self) -> bool:
        """Whether all domains of the place are."""
        for cell in self.cells:  # noqa: SIM110 - asked of every place in each choice: a generator takes twice as long
            if cell.home.free != cell.home.size:
                return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A group as the board sees it: `need` nodes for each slice, `shared` spares once a place, `missing` slices."""

    group: Group
    use: int
    missing: int
    places: Sequence[Place]
    spread: str | None
    members: str | None

    @property
    def name(self) -> str:
        """Return the name of the group."""
        return self.group.name

    @property
    def rule(self) -> TopologyRule:
        """Return what the group asks of its place."""
        return self.group.topology

    @property
    def need(self) -> int:
        """Return how many nodes each slice takes, its own spares counted."""
        return self.group.topology.nodes_per_slice + self.group.topology.spares

    @property
    def local(self) -> bool:
        """Whether each slice has one rack and one NVLink domain."""
        return self.group.topology.within in (RACK_LEVEL, NODE_LEVEL)


class Board:
    """All roles of a task, their places, and the ledger of what is placed. Slices in `kept` stay where they are."""

    def __init__(
        self, task: Task, inventory: Inventory, taken: Mapping[NodeName, Taken], kept: Sequence[Slice] = ()
    ) -> None:
        self.inventory = inventory
        self.levels = inventory.levels
        self.promised: set[NodeName] = {name for part in kept for name in (*part.nodes, *part.spares)}
        self.ledger = Ledger(task, inventory, taken)
        self.stations: dict[tuple[str, int], tuple[Node, ...]] = {}
        uses = _uses(task)
        sieves = [Sieve(group, taken, self.promised) for group in uses.values()]
        self.cells = _cells(inventory, taken, self.promised, sieves)
        self._views: dict[tuple[int, str], list[Place]] = {}
        bits = {use: 1 << at for at, use in enumerate(uses)}
        self.roles = {group.name: self._role(group, bits[_use(group)], kept) for group in task.groups}
        self._keep(kept)

    def _role(self, group: Group, use: int, kept: Sequence[Slice]) -> Role:
        rule = group.topology
        fits = rule.within != NODE_LEVEL or rule.nodes_per_slice + rule.spares + rule.spares_per_rack == 1
        key = (use, RACK_LEVEL if rule.within == NODE_LEVEL else rule.within)
        if key not in self._views:
            self._views[key] = _places([cell for cell in self.cells if cell.uses & use], key[1], self.levels)
        return Role(
            group=group,
            use=use,
            missing=rule.slices - sum(1 for part in kept if part.group == group.name),
            places=self._views[key] if fits else (),
            spread=ground(rule.spread),
            members=ground(rule.spread_members) if rule.nodes_per_slice + rule.spares > 1 else None,
        )

    def _keep(self, kept: Sequence[Slice]) -> None:
        nodes = {node.name: node for node in self.inventory.nodes} if kept else {}
        for part in kept:
            own = [nodes[name] for name in (*part.nodes, *part.spares) if name in nodes]
            self.ledger.keep(part.group, own)
            role = self.roles.get(part.group)
            if role is None or not role.rule.spares_per_rack:
                continue
            shared = tuple(nodes[name] for name in part.spares if name in nodes)[role.rule.spares :]
            for place in role.places:
                if (place.cells[0].rack, place.cells[0].domain) == (part.rack, part.domain):
                    self.stations[role.name, id(place)] = shared

    def give(self, role: Role, portion: Iterable[tuple[Cell, int]]) -> list[Node]:
        """Take the nodes of a portion for a slice, and note which places it touches."""
        portion = tuple(portion)
        nodes = [node for cell, count in portion for node in cell.take(count)]
        self.ledger.touch(role.name, [cell for cell, _ in portion])
        self.promised.update(node.name for node in nodes)
        return nodes


def _use(group: Group) -> tuple[object, ...]:
    """Return what a group asks of single nodes: groups that ask the same share all places."""
    rule = group.topology
    names = (rule.racks, rule.exclude_racks, rule.only_nodes, rule.exclude_nodes)
    local = rule.within == RACK_LEVEL
    return group.gpus, (group.accelerator or "").casefold(), local, named_levels(rule), names


def _uses(task: Task) -> dict[tuple[object, ...], Group]:
    uses: dict[tuple[object, ...], Group] = {}
    for group in sorted(task.groups, key=lambda group: group.name):
        uses.setdefault(_use(group), group)
    return uses


def _cells(
    inventory: Inventory, taken: Mapping[NodeName, Taken], promised: AbstractSet[NodeName], sieves: Sequence[Sieve]
) -> list[Cell]:
    """Return the cells of all nodes that are of use to somebody; those that look the same are asked about once."""
    upper = inventory.levels[:-1]
    named = any(sieve.names_nodes for sieve in sieves)
    homes: dict[tuple[RackName, str | None], Home] = {}
    merged: dict[tuple[object, ...], Cell] = {}
    home, rack, domain = Home(), None, None
    for node in inventory.nodes:
        if node.rack is not rack or node.domain is not domain:  # files name a rack's nodes together: one look for all
            rack, domain = node.rack, node.domain
            home = homes.get((rack, domain)) or homes.setdefault((rack, domain), Home())
        home.size += 1
        name = node.name
        if name in promised or not free_of_marks(node, taken.get(name)):
            continue
        home.free += 1
        look = (node.gpus, node.accelerator, node.gpu_driver is GpuDriver.NONE, *map(node.places.get, upper))
        key = (*look, name) if named else look
        cell = home.cells.get(key)
        if cell is None:
            uses = _uses_of(node, sieves)
            cell = merged.setdefault((id(home), uses, *look), Cell(node=node, uses=uses, home=home))
            home.cells[key] = cell
        cell.free.append(node)
    return [cell for cell in merged.values() if cell.uses]


def _uses_of(node: Node, sieves: Sequence[Sieve]) -> int:
    return sum(1 << at for at, sieve in enumerate(sieves) if sieve.reason(node) is None)


def _places(cells: Sequence[Cell], within: str, levels: Sequence[str]) -> list[Place]:
    grouped: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        key = (cell.rack, cell.domain or "") if within == RACK_LEVEL else (cell.at(within) or within, "")
        grouped.setdefault(key, []).append(cell)
    named = sorted(grouped.items(), key=lambda item: (natural(item[0][0]), natural(item[0][1])))
    return [_place(name, own, levels) for (name, _), own in named]


def _place(name: str, cells: list[Cell], levels: Sequence[str]) -> Place:
    if len(cells) > 1:
        cells.sort(key=cell_order)
    first, *others = cells
    values = {level: value for level in levels if (value := first.at(level)) is not None}
    place = Place(
        name=name,
        cells=cells,
        at={level: value for level, value in values.items() if all(cell.at(level) == value for cell in others)},
        gpus=max(cell.node.gpus for cell in cells),
        room=sum(len(cell.free) for cell in cells),
    )
    for cell in cells:
        cell.views.append(place)
    return place


def cell_order(cell: Cell) -> tuple[object, ...]:
    """Return the sort key of cells: by name, so that the order of a file does not matter."""
    node = cell.node
    places = tuple(natural(value) for _, value in sorted(node.places.items()))
    kind = (node.gpus, node.accelerator or "", node.gpu_driver.value)
    return natural(node.rack), natural(node.domain or ""), places, kind, cell.uses
