"""Free capacity for one task: classes of equal nodes by topology domain."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from launcher.core.model.inventory import NODE_LEVEL, RACK_LEVEL, GpuDriver, Inventory, Node, RackName
from launcher.core.model.nodeset import NaturalKey, NodeName, natural
from launcher.core.model.placement import Slice, UnavailableNodes
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.constraints import DomainUsage, spread_level
from launcher.core.placement.filters import NodeFilter, is_free, required_levels


@dataclass(slots=True)
class NvlinkDomain:
    """An NVLink domain of a rack: node counts, and node classes by properties."""

    size: int = 0
    free: int = 0
    classes: dict[tuple[object, ...], "NodeClass"] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True, eq=False)
class NodeClass:
    """Free nodes of one NVLink domain that are equal for every group of the task.

    `node` is one of them. `uses` has a bit for each set of requirements (`Demand.use`) that they meet. `returned` are
    nodes that came back from quarantine lately.
    """

    node: Node
    uses: int
    nvlink: NvlinkDomain
    free: list[Node] = field(default_factory=list)
    domains: list["TopologyDomain"] = field(default_factory=list)
    ordered: bool = False
    returned: AbstractSet[NodeName] = frozenset()

    @property
    def rack(self) -> RackName:
        """Return the rack of the nodes."""
        return self.node.rack

    @property
    def domain(self) -> str | None:
        """Return the NVLink domain of the nodes."""
        return self.node.domain

    @property
    def unused(self) -> bool:
        """Whether all nodes of the NVLink domain are free."""
        return self.nvlink.free == self.nvlink.size

    def at(self, level: str) -> str | None:
        """Return the name of the nodes' domain at a level; None if unknown."""
        if level == RACK_LEVEL:
            return self.node.rack
        return None if level == NODE_LEVEL else self.node.places.get(level)

    def take(self, count: int) -> list[Node]:
        """Remove nodes in rank order, those that came back lately last, and return them."""
        if not self.ordered:
            self.free.sort(key=rank_order)
            if self.returned:
                self.free.sort(key=lambda node: node.name in self.returned)
            self.ordered = True
        nodes = self.free[:count]
        del self.free[:count]
        self.nvlink.free -= count
        for domain in self.domains:
            domain.free -= count
        return nodes


@dataclass(slots=True, kw_only=True, eq=False)
class TopologyDomain:
    """A topology domain that can contain a slice.

    For `within: rack` and `node` it is one NVLink domain of a rack, otherwise a domain of the level. `names` has its
    name at each level at which all of it is in one domain. `free` is the number of free nodes now, `free_before` that
    before the task; `max_gpus` is the most GPUs that one of its nodes has.
    """

    name: str
    classes: list[NodeClass]
    names: Mapping[str, str]
    max_gpus: int
    free: int
    free_before: int

    @property
    def unused(self) -> bool:
        """Whether all nodes of all its NVLink domains are free."""
        for nodes in self.classes:  # noqa: SIM110 - called for every domain in each choice: a generator takes twice as long
            if nodes.nvlink.free != nodes.nvlink.size:
                return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The demand of a group: `missing` slices, each in one of `domains`.

    `use` is the bit of the group's requirements in `NodeClass.uses`.
    """

    group: Group
    use: int
    missing: int
    domains: Sequence[TopologyDomain]
    spread: str | None
    spread_members: str | None

    @property
    def name(self) -> str:
        """Return the name of the group."""
        return self.group.name

    @property
    def rule(self) -> TopologyRule:
        """Return the topology rule of the group."""
        return self.group.topology

    @property
    def need(self) -> int:
        """Return the nodes of a slice with its own spares, without shared ones."""
        return self.group.topology.nodes_per_slice + self.group.topology.spares

    @property
    def rack_local(self) -> bool:
        """Whether each slice is in one rack and one NVLink domain."""
        return self.group.topology.within in (RACK_LEVEL, NODE_LEVEL)


class Capacity:
    """The free nodes, the demands of all groups and the domains in use.

    Slices in `kept` keep their nodes. `assigned` are the nodes given to slices of the task so far; `shared_spares` are
    those given to each domain as `spares_per_rack`, by group and domain.
    """

    def __init__(
        self, task: Task, inventory: Inventory, unavailable: UnavailableNodes, kept: Sequence[Slice] = ()
    ) -> None:
        self.inventory = inventory
        self.levels = inventory.levels
        self.assigned: set[NodeName] = {name for part in kept for name in (*part.nodes, *part.spares)}
        self.usage = DomainUsage(task, inventory, unavailable)
        self.shared_spares: dict[tuple[str, int], tuple[Node, ...]] = {}
        requirements = _distinct_requirements(task)
        filters = [NodeFilter(group, unavailable, self.assigned) for group in requirements.values()]
        self.classes = _node_classes(inventory, unavailable, self.assigned, filters)
        self._domains: dict[tuple[int, str, str | None], list[TopologyDomain]] = {}
        bits = {key: 1 << at for at, key in enumerate(requirements)}
        self.demands = {group.name: self._demand(group, bits[_requirements(group)], kept) for group in task.groups}
        self._keep(kept)

    def take(self, demand: Demand, selection: Iterable[tuple[NodeClass, int]]) -> list[Node]:
        """Take the selected nodes for a slice; return them in no special order."""
        selection = tuple(selection)
        nodes = [node for node_class, count in selection for node in node_class.take(count)]
        self.usage.add(demand.name, [node_class for node_class, _ in selection])
        self.assigned.update(node.name for node in nodes)
        return nodes

    def _demand(self, group: Group, use: int, kept: Sequence[Slice]) -> Demand:
        rule = group.topology
        possible = rule.within != NODE_LEVEL or rule.nodes_per_slice + rule.spares + rule.spares_per_rack == 1
        within = RACK_LEVEL if rule.within == NODE_LEVEL else rule.within
        key = (use, within, rule.all_within)
        if key not in self._domains:
            usable = [one for one in self.classes if one.uses & use]
            self._domains[key] = _topology_domains(usable, within, rule.all_within, self.levels)
        return Demand(
            group=group,
            use=use,
            missing=rule.slices - sum(1 for part in kept if part.group == group.name),
            domains=self._domains[key] if possible else (),
            spread=spread_level(rule.spread),
            spread_members=spread_level(rule.spread_members) if rule.nodes_per_slice + rule.spares > 1 else None,
        )

    def _keep(self, kept: Sequence[Slice]) -> None:
        nodes = {node.name: node for node in self.inventory.nodes} if kept else {}
        for part in kept:
            own = [nodes[name] for name in (*part.nodes, *part.spares) if name in nodes]
            self.usage.add_fixed(part.group, own)
            demand = self.demands.get(part.group)
            if demand is None or not demand.rule.spares_per_rack:
                continue
            shared = tuple(nodes[name] for name in part.spares if name in nodes)[demand.rule.spares :]
            for domain in demand.domains:
                if (domain.classes[0].rack, domain.classes[0].domain) == (part.rack, part.domain):
                    self.shared_spares[demand.name, id(domain)] = shared


def rank_order(node: Node) -> tuple[NaturalKey, bool, int, NaturalKey]:
    """Return the sort key of ranks: by rack, then by tray.

    A node without a tray number is last in its rack.
    """
    return natural(node.rack), node.tray is None, node.tray or 0, natural(node.name)


def class_order(nodes: NodeClass) -> tuple[object, ...]:
    """Return the sort key of node classes, independent of the inventory's order."""
    node = nodes.node
    places = tuple(natural(value) for _, value in sorted(node.places.items()))
    kind = (node.gpus, node.accelerator or "", node.gpu_driver.value)
    return natural(node.rack), natural(node.domain or ""), places, kind, nodes.uses


def _requirements(group: Group) -> tuple[object, ...]:
    """Return the requirements of a group on a single node."""
    rule = group.topology
    names = (rule.racks, rule.exclude_racks, rule.only_nodes, rule.exclude_nodes)
    rack_local = rule.within == RACK_LEVEL
    return group.gpus, (group.accelerator or "").casefold(), rack_local, required_levels(rule), names


def _distinct_requirements(task: Task) -> dict[tuple[object, ...], Group]:
    """Return each distinct set of requirements with one group that has it."""
    found: dict[tuple[object, ...], Group] = {}
    for group in sorted(task.groups, key=lambda group: group.name):
        found.setdefault(_requirements(group), group)
    return found


def _node_classes(
    inventory: Inventory,
    unavailable: UnavailableNodes,
    assigned: AbstractSet[NodeName],
    filters: Sequence[NodeFilter],
) -> list[NodeClass]:
    """Return the classes of all free nodes that some group can use.

    Nodes with equal properties are filtered once.
    """
    upper = inventory.levels[:-1]
    by_name = any(one.by_node_name for one in filters)
    nvlink_domains: dict[tuple[RackName, str | None], NvlinkDomain] = {}
    merged: dict[tuple[object, ...], NodeClass] = {}
    nvlink, rack, domain = NvlinkDomain(), None, None
    returned = {name for name, use in unavailable.items() if use.returned}
    for node in inventory.nodes:
        if node.rack is not rack or node.domain is not domain:  # files list a rack's nodes together: one lookup for all
            rack, domain = node.rack, node.domain
            nvlink = nvlink_domains.get((rack, domain)) or nvlink_domains.setdefault((rack, domain), NvlinkDomain())
        nvlink.size += 1
        name = node.name
        if name in assigned or not is_free(node, unavailable.get(name)):
            continue
        nvlink.free += 1
        properties = (node.gpus, node.accelerator, node.gpu_driver is GpuDriver.NONE, *map(node.places.get, upper))
        key = (*properties, name) if by_name else properties
        found = nvlink.classes.get(key)
        if found is None:
            uses = sum(1 << at for at, one in enumerate(filters) if one.exclusion(node) is None)
            new = NodeClass(node=node, uses=uses, nvlink=nvlink, returned=returned)
            found = nvlink.classes[key] = merged.setdefault((id(nvlink), uses, *properties), new)
        found.free.append(node)
    return [one for one in merged.values() if one.uses]


def _topology_domains(
    classes: Sequence[NodeClass], within: str, all_within: str | None, levels: Sequence[str]
) -> list[TopologyDomain]:
    """Return the domains at a level by name, racks split by NVLink domain.

    A domain whose nodes are in several domains of level `all_within` is split by these: a slice has to stay in one.
    """
    grouped: dict[tuple[str, str, str], list[NodeClass]] = {}
    for one in classes:
        name, nvlink = (one.rack, one.domain or "") if within == RACK_LEVEL else (one.at(within) or within, "")
        grouped.setdefault((name, nvlink, (one.at(all_within) or "") if all_within else ""), []).append(one)
    named = sorted(grouped.items(), key=lambda item: tuple(map(natural, item[0])))
    return [_topology_domain(key[0], own, levels) for key, own in named]


def _topology_domain(name: str, classes: list[NodeClass], levels: Sequence[str]) -> TopologyDomain:
    if len(classes) > 1:
        classes.sort(key=class_order)
    first, *others = classes
    names = {level: value for level in levels if (value := first.at(level)) is not None}
    free = sum(len(one.free) for one in classes)
    domain = TopologyDomain(
        name=name,
        classes=classes,
        names={level: value for level, value in names.items() if all(one.at(level) == value for one in others)},
        max_gpus=max(one.node.gpus for one in classes),
        free=free,
        free_before=free,
    )
    for one in classes:
        one.domains.append(domain)
    return domain
