"""Interchangeable racks: the part of an inventory that is enough to place a task by best fit.

The work of placement is linear in the nodes it looks at. For the usual task, one group of rack-local slices, most racks
need no look: those without room for a slice, and of equal racks all but the first few.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from launcher.core.model.inventory import RACK_LEVEL, Inventory, Node
from launcher.core.model.nodeset import natural
from launcher.core.model.task import Task, TopologyRule

NvlinkDomainId = tuple[str, str | None]
"""A rack and an NVLink domain in it."""


class NvlinkDomains:
    """The nodes of an inventory by NVLink domain, in the order in which placement prefers equal domains."""

    def __init__(self, inventory: Inventory) -> None:
        nodes: dict[NvlinkDomainId, list[Node]] = {}
        for node in inventory.nodes:
            nodes.setdefault((node.rack, node.domain), []).append(node)
        order = sorted(nodes, key=lambda one: (natural(one[0]), natural(one[1] or "")))
        self.inventory = inventory
        self.nodes: Mapping[NvlinkDomainId, Sequence[Node]] = {one: nodes[one] for one in order}
        self.order = {one: at for at, one in enumerate(order)}
        looks = {(node.gpus, node.accelerator, node.gpu_driver, node.domain is None) for node in inventory.nodes}
        self.equal = inventory.levels == (RACK_LEVEL,) and len(looks) == 1

    def cut_down(self, task: Task, free: Iterable[tuple[NvlinkDomainId, int]]) -> Inventory:
        """Return an inventory on which a task has the same placement, or as little room, as on the whole.

        `free` has how many nodes of each domain are free for the task, or may be; domains that are missing have none.
        """
        rule = task.groups[0].topology
        if len(task.groups) > 1 or not _plain(rule):
            return self.inventory
        need = rule.nodes_per_slice + rule.spares
        able = sorted((self.order[domain], domain, count) for domain, count in free if count >= need)
        kept: list[Node] = []
        seen: dict[tuple[int, int], int] = {}
        for _, domain, count in able:
            kind = (len(self.nodes[domain]), count)
            seen[kind] = seen.get(kind, 0) + 1
            # Each slice takes from one domain, after which that domain is of another kind. One more shows the choice.
            if not self.equal or seen[kind] <= rule.slices + 1:
                kept += self.nodes[domain]
        return replace(self.inventory, nodes=tuple(kept))


def _plain(rule: TopologyRule) -> bool:
    """Whether each slice has nodes of one rack, and no other rule says which."""
    counts = ("slices", "nodes_per_slice", "spares")
    return rule == TopologyRule(**{name: getattr(rule, name) for name in counts})
