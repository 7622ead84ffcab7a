"""One more node for a slice that goes on: who could be its spare."""

from collections.abc import Mapping
from dataclasses import replace

from launcher.core.fleet import ANY_LEVEL, NODE_LEVEL, RACK_LEVEL, Inventory, Node, NodeName
from launcher.core.placement import Placement, Slice, Taken
from launcher.core.replace import replace_slice
from launcher.core.task import Task


def spare_for(
    task: Task, inventory: Inventory, taken: Mapping[NodeName, Taken], placement: Placement, part: Slice
) -> NodeName | None:
    """Answer a free node that a slice could have as another spare, by every hard rule of the task: in its own rack and
    NVLink domain, or in its own place where it may span racks. None where there is none.

    `inventory` is the whole one. A node in `taken` is not free, whoever has it; those of the placement never are.
    """
    own = {name: Taken(by_run=task.name) for name in (*part.nodes, *part.spares)}
    within = task.group(part.group).topology.within
    elsewhere = {node.name: Taken(sick="elsewhere") for node in inventory.nodes if not _beside(node, part, within)}
    answer = replace_slice(_of_one(task, part.group), inventory, {**taken, **own, **elsewhere}, placement, part)
    return answer.nodes[0] if isinstance(answer, Slice) else None


def _beside(node: Node, part: Slice, within: str) -> bool:
    """Answer whether a node is where the slice has to stay; one that may span racks has neither rack nor domain."""
    if (part.rack or node.rack) != node.rack or (part.domain or node.domain) != node.domain:
        return False
    return within in (RACK_LEVEL, NODE_LEVEL, ANY_LEVEL) or node.at(within) == part.place


def _of_one(task: Task, name: str) -> Task:
    """Answer the task with slices of one node in a group, so that one node is what is looked for."""
    group = task.group(name)
    alone = replace(group, topology=replace(group.topology, nodes_per_slice=1, spares=0, spares_per_rack=0))
    return replace(task, groups=tuple(alone if other is group else other for other in task.groups))
