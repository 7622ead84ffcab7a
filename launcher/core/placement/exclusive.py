"""Nodes that nobody gets because they are in a place that a run has for itself."""

from collections.abc import Sequence

from launcher.core.model.inventory import Inventory, NodeName
from launcher.core.model.placement import Slice
from launcher.core.model.task import Task
from launcher.core.placement.colocation import hosts
from launcher.core.placement.constraints import Scale


def enclosed(task: Task, inventory: Inventory, slices: Sequence[Slice]) -> tuple[NodeName, ...]:
    """Answer the other nodes of every place that a group of the task has by `exclusive`, in the order of the file."""
    task = hosts(task)
    own = {group.name for group in task.groups}
    ours = {name: part.group for part in slices if part.group in own for name in (*part.nodes, *part.spares)}
    shut = {
        (scale, scale.spot(node))
        for group in task.groups
        if group.topology.exclusive is not None
        for scale in (Scale(group.topology.exclusive),)
        for node in inventory.nodes
        if ours.get(node.name) == group.name
    }
    scales = {scale for scale, _ in shut}
    return tuple(
        node.name
        for node in inventory.nodes
        if node.name not in ours and any((scale, scale.spot(node)) in shut for scale in scales)
    )
