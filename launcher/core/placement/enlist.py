"""One more node for a slice that goes on: who could be its spare."""

from collections.abc import Mapping

from launcher.core.model.inventory import Inventory, NodeName
from launcher.core.model.placement import Placement, Shortfall, Slice, Taken
from launcher.core.model.task import Task
from launcher.core.placement.replacement import beside


def spare_for(
    task: Task, inventory: Inventory, taken: Mapping[NodeName, Taken], placement: Placement, part: Slice
) -> NodeName | None:
    """Answer a free node that a slice could have as another spare, by every hard rule of the task: in its own rack and
    NVLink domain, or in its own place where it may span racks. None where there is none.

    `inventory` is the whole one. A node in `taken` is not free, whoever has it; those of the placement never are.
    """
    answer = beside(task, inventory, taken, placement, part, (*part.nodes, *part.spares), 1)
    return None if isinstance(answer, Shortfall) else answer[0].name
