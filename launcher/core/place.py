"""The answer to a task on an inventory: nodes for every slice of every group, or all there is to say about why not."""

from collections.abc import Mapping

from launcher.core.assign import assign
from launcher.core.fleet import Inventory, NodeName
from launcher.core.placement import Placement, Shortfall, Taken
from launcher.core.shortfall import explain
from launcher.core.task import Task


def place(task: Task, inventory: Inventory, taken: Mapping[NodeName, Taken]) -> Placement | Shortfall:
    """Answer which nodes each slice of a task gets, or why it cannot be placed now and what would make it fit.

    The answer depends on what the inventory says and never on the order in which it says it. With one group a refusal
    means that no placement exists; several groups are tried in a bounded number of orders. A member takes a whole node.
    """
    outcome = assign(task, inventory, taken)
    return outcome if isinstance(outcome, Placement) else explain(outcome, task, inventory, taken)
