"""The nodes of a simulated fleet: who has which, what is down, and what is free in each rack."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum

from launcher.core.model.inventory import Inventory, RackName
from launcher.core.model.nodeset import NodeName, natural
from launcher.core.model.placement import Placement, Unavailable, UnavailableNodes
from launcher.core.model.task import Task, TopologyRule
from launcher.core.placement.interchangeable import NvlinkDomains
from launcher.core.queue.timeline import fit


class NodeStatus(Enum):
    """What a node counts as: broken, in or before planned maintenance, held by a run, or free."""

    DOWN = "down"
    MAINTENANCE = "maintenance"
    HELD = "held"
    FREE = "free"


class Trouble(Enum):
    """What keeps a node from work: a fault, work on its rack, or a drain before that."""

    FAULT = "fault"
    WORK = "work"
    DRAIN = "drain"


_OUT_OF_SERVICE = {
    Trouble.FAULT: Unavailable(unhealthy="fault"),
    Trouble.WORK: Unavailable(drained="maintenance"),
    Trouble.DRAIN: Unavailable(drained="maintenance"),
}


class FleetState:
    """The nodes of a fleet at one time. `counts` has how many nodes are in each status."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = replace(inventory, nodes=tuple(node for node in inventory.nodes if node.drained is None))
        self.users: dict[NodeName, str] = {}
        self._troubles: dict[NodeName, Counter[Trouble]] = {}
        self.unavailable: dict[NodeName, Unavailable] = {}
        racks: dict[RackName, list[NodeName]] = {}
        for node in self.inventory.nodes:
            racks.setdefault(node.rack, []).append(node.name)
        self.racks: Mapping[RackName, tuple[NodeName, ...]] = {
            rack: tuple(racks[rack]) for rack in sorted(racks, key=natural)
        }
        self._nodes = {node.name: node for node in self.inventory.nodes}
        self._order = {rack: at for at, rack in enumerate(self.racks)}
        self._names = tuple(self.racks)
        self.rack_of = {node.name: node.rack for node in self.inventory.nodes}
        self.free = {rack: len(names) for rack, names in self.racks.items()}
        self._status = dict.fromkeys(self._nodes, NodeStatus.FREE)
        self.counts = Counter({NodeStatus.FREE: len(self._nodes)})
        domains = NvlinkDomains(self.inventory)
        self._domain_of = {rack: domain for domain in domains.nodes for rack in (domain[0],)}
        self._domains = domains if len(domains.nodes) == len(racks) else None
        self._by_free: dict[int, list[int]] = {}
        for rack, free in self.free.items():
            self._by_free.setdefault(free, []).append(self._order[rack])

    @property
    def size(self) -> int:
        """Return the number of nodes."""
        return len(self._nodes)

    @property
    def whole_racks(self) -> int:
        """Return how many racks are free and healthy as a whole."""
        return sum(self.free[rack] == len(names) for rack, names in self.racks.items())

    def status(self, name: NodeName) -> NodeStatus:
        """Return what a node counts as."""
        return self._status[name]

    def up(self, name: NodeName) -> bool:
        """Whether a node is neither broken nor worked on."""
        troubles = self._troubles.get(name)
        return troubles is None or not (troubles[Trouble.FAULT] or troubles[Trouble.WORK])

    def take(self, names: Iterable[NodeName], run: str) -> None:
        """Give nodes to a run."""
        for name in names:
            self.users[name] = run
            self._refresh(name)

    def release(self, names: Iterable[NodeName]) -> None:
        """Take nodes from the run that has them."""
        for name in names:
            del self.users[name]
            self._refresh(name)

    def begin(self, trouble: Trouble, names: Iterable[NodeName]) -> None:
        """Note that a trouble of nodes begins."""
        for name in names:
            self._troubles.setdefault(name, Counter())[trouble] += 1
            self._refresh(name)

    def end(self, trouble: Trouble, names: Iterable[NodeName]) -> None:
        """Note that a trouble of nodes is over."""
        for name in names:
            left = self._troubles[name]
            left[trouble] -= 1
            if not any(left.values()):
                del self._troubles[name]
            self._refresh(name)

    def room(self, rule: TopologyRule) -> bool:
        """Whether the racks have room for all slices of a rule now, reservations not counted."""
        need = rule.nodes_per_slice + rule.spares
        slices = 0
        for free, racks in self._by_free.items():
            slices += free // need * len(racks)
            if slices >= rule.slices:
                return True
        return False

    def place(self, task: Task) -> Placement | None:
        """Return the placement of a task of one group on the free nodes; None if it does not fit."""
        rule = task.groups[0].topology
        if not self.room(rule):
            return None
        if self._domains is None:
            return fit(task, self.inventory, self.unavailable)
        free = ((self._domain_of[rack], count) for rack, count in self.free.items())
        return fit(task, self._domains.cut_down(task, free), self.unavailable)

    def without_user(self, run: str) -> UnavailableNodes:
        """Return what a run cannot be given: nodes of others, and those out of service."""
        uses = self.unavailable.items()
        return {name: use for name, use in uses if use.used_by != run or use.unhealthy or use.drained}

    def fragments(self, sizes: Mapping[int, float]) -> float:
        """Return the free nodes that slices cannot use, by shares of slices of so many nodes, over all racks.

        F(rack) = sum of p_s * (free - s*floor(free/s)). Source: FGD (Weng et al., ATC'23).
        """
        lost = {free: sum(share * (free % size) for size, share in sizes.items()) for free in self._by_free}
        return sum(lost[free] * len(racks) for free, racks in self._by_free.items())

    def _refresh(self, name: NodeName) -> None:
        """Bring everything that is kept about a node up to date."""
        troubles, user = self._troubles.get(name, Counter()), self.users.get(name)
        active = [one for one in Trouble if troubles[one] > 0]
        if active or user is not None:
            out = Unavailable() if not active else _OUT_OF_SERVICE[active[0]]
            self.unavailable[name] = replace(out, used_by=user) if user is not None else out
        else:
            self.unavailable.pop(name, None)
        status = _status(active, user)
        before = self._status[name]
        if status is before:
            return
        self._status[name] = status
        self.counts[before] -= 1
        self.counts[status] += 1
        if NodeStatus.FREE in (before, status):
            self._count_free(self.rack_of[name], 1 if status is NodeStatus.FREE else -1)

    def _count_free(self, rack: RackName, change: int) -> None:
        free, at = self.free[rack], self._order[rack]
        racks = self._by_free[free]
        del racks[bisect_left(racks, at)]
        if not racks:
            del self._by_free[free]
        self.free[rack] = free + change
        insort(self._by_free.setdefault(free + change, []), at)


def _status(active: list[Trouble], user: str | None) -> NodeStatus:
    if Trouble.FAULT in active:
        return NodeStatus.DOWN
    if Trouble.WORK in active:
        return NodeStatus.MAINTENANCE
    if user is not None:
        return NodeStatus.HELD
    return NodeStatus.MAINTENANCE if active else NodeStatus.FREE
