"""Oracle: whether a task has a placement, by trying every choice of nodes under rules written again here."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from launcher.core.model.inventory import Inventory, Node
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, UnavailableNodes
from launcher.core.model.task import Group, Task, TopologyRule

Chosen = Mapping[str, Sequence[frozenset[NodeName]]]
"""For each group, the nodes of each of its slices."""


def at(node: Node, level: str) -> str | None:
    """Return where a node is; everything is in one place at `any`."""
    return "any" if level == "any" else node.at(level)


def apart_level(rule: TopologyRule) -> str:
    """Return the level at which a group keeps apart from another."""
    return rule.spread if rule.spread not in (None, "node", "any") else "rack"


def near_key(node: Node, rule: TopologyRule) -> object:
    """Return what two slices have in common that are near each other."""
    level = rule.all_within or rule.within
    if level in ("node", "any"):
        level = "rack"
    return (node.rack, node.domain) if level == rule.within == "rack" else node.at(level)


class EveryWay:
    """A task on a fleet, and every choice of nodes for it."""

    def __init__(self, task: Task, inventory: Inventory, unavailable: UnavailableNodes) -> None:
        self.task, self.unavailable = task, unavailable
        self.nodes = {node.name: node for node in inventory.nodes}

    def of(self, names: Iterable[NodeName]) -> list[Node]:
        """Return nodes by name."""
        return [self.nodes[name] for name in names]

    def usable(self, group: Group) -> frozenset[NodeName]:
        """Return the nodes that a group may have, whatever other groups have."""
        rule = group.topology
        own = (rule.within, rule.spread, rule.all_within, rule.spread_members, rule.exclusive)
        levels = [level for level in (*own, apart_level(rule) if rule.apart_from else None) if level is not None]
        users = [
            node
            for node in self.nodes.values()
            if node.name in self.unavailable and self.unavailable[node.name].used_by
        ]
        shut = {at(node, rule.exclusive) for node in users} if rule.exclusive else set()
        return frozenset(
            node.name
            for node in self.nodes.values()
            if node.drained is None
            and node.name not in self.unavailable
            and (not rule.only_nodes or node.name[-1] in "012")
            and (group.accelerator is None or (node.accelerator or "").upper() == group.accelerator)
            and node.gpus >= group.gpus
            and (rule.within != "rack" or node.domain is not None)
            and all(at(node, level) is not None for level in levels)
            and not (rule.exclusive and at(node, rule.exclusive) in shut)
        )

    def whole(self, names: Iterable[NodeName], rule: TopologyRule) -> bool:
        """Whether one slice may consist of these nodes."""
        nodes = self.of(names)
        if rule.within == "rack" and len({(node.rack, node.domain) for node in nodes}) > 1:
            return False
        if len({at(node, rule.within) for node in nodes}) > 1:
            return False
        apart = rule.spread_members
        return apart in (None, "any") or len({at(node, apart) for node in nodes}) == len(nodes)

    def agree(self, chosen: Chosen) -> bool:
        """Whether what the groups ask of each other and of their slices holds."""
        for group in self.task.groups:
            rule = group.topology
            everything = [node for part in chosen[group.name] for node in self.of(part)]
            if rule.spread not in (None, "any"):
                grounds = [{at(node, rule.spread) for node in self.of(part)} for part in chosen[group.name]]
                if any(one & other for one, other in combinations(grounds, 2)):
                    return False
            if rule.all_within and len({at(node, rule.all_within) for node in everything}) > 1:
                return False
            if rule.near:
                theirs = {near_key(node, rule) for part in chosen[rule.near] for node in self.of(part)} - {None}
                if not all(near_key(node, rule) in theirs for node in everything):
                    return False
            if rule.apart_from:
                level = apart_level(rule)
                theirs = {at(node, level) for part in chosen[rule.apart_from] for node in self.of(part)} - {None}
                if any(at(node, level) in theirs for node in everything):
                    return False
        return True

    def spared(self, chosen: Chosen) -> bool:
        """Whether each domain with slices of a group has its spares left; one group at most may ask for them."""
        used = {name for parts in chosen.values() for part in parts for name in part}
        for group in self.task.groups:
            left = [(node.rack, node.domain) for node in self.of(self.usable(group) - used)]
            homes = {(node.rack, node.domain) for part in chosen[group.name] for node in self.of(part)}
            if any(left.count(home) < group.topology.spares_per_rack for home in homes):
                return False
        return True

    def exists(self, kept: Chosen | None = None) -> bool:
        """Whether any choice of nodes is a placement, of those that leave some slices where they are."""
        kept = kept or {}
        stay = frozenset(name for parts in kept.values() for part in parts for name in part)
        choices = self._choices(list(self.task.groups), stay, kept)
        return any(self.agree(chosen) and self.spared(chosen) for chosen in choices)

    def _choices(self, groups: list[Group], used: frozenset[NodeName], kept: Chosen) -> Iterator[Chosen]:
        if not groups:
            yield {}
            return
        group, *rest = groups
        rule = group.topology
        some = combinations(sorted(self.usable(group) - used), rule.nodes_per_slice + rule.spares)
        slices = [frozenset(names) for names in some if self.whole(names, rule)]
        stay = tuple(kept.get(group.name, ()))
        for own in _disjoint(slices, rule.slices - len(stay)):
            for others in self._choices(rest, used.union(*own), kept):
                yield {group.name: (*own, *stay), **others}

    def check(self, placed: Placement) -> None:
        """Assert that every slice is whole, on nodes it may have, and that every rule between them holds."""
        chosen: dict[str, list[frozenset[NodeName]]] = {group.name: [] for group in self.task.groups}
        shared: dict[object, frozenset[NodeName]] = {}
        for part in placed.slices:
            group = self.task.group(part.group)
            rule = group.topology
            assert part.index == len(chosen[part.group])
            assert len(part.nodes) == rule.nodes_per_slice
            assert len(part.spares) == rule.spares + rule.spares_per_rack
            assert self.usable(group) >= {*part.nodes, *part.spares}
            own = frozenset((*part.nodes, *part.spares[: rule.spares]))
            assert self.whole(own, rule)
            chosen[part.group].append(own)
            more = frozenset(part.spares[rule.spares :])
            assert all((node.rack, node.domain) == (part.rack, part.domain) for node in self.of(more))
            assert shared.setdefault((part.group, part.rack, part.domain), more) == more
        everything = [name for parts in (*chosen.values(), shared.values()) for part in parts for name in part]
        assert len(everything) == len(set(everything))
        assert [len(parts) for parts in chosen.values()] == [group.topology.slices for group in self.task.groups]
        assert self.agree(chosen)


def _disjoint(slices: Sequence[frozenset[NodeName]], count: int) -> Iterator[tuple[frozenset[NodeName], ...]]:
    if count == 0:
        yield ()
        return
    for index, first in enumerate(slices):
        rest = [other for other in slices[index + 1 :] if not first & other]
        for others in _disjoint(rest, count - 1):
            yield (first, *others)
