"""The answer to a task on an inventory: nodes for every slice of every group, or all there is to say about why not."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from launcher.core.assign import assign
from launcher.core.enclose import enclosed
from launcher.core.fleet import Inventory, NodeName
from launcher.core.placement import Placement, Shortfall, Slice, Taken
from launcher.core.share import hosts, peopled
from launcher.core.shortfall import explain
from launcher.core.task import Task


def place(
    task: Task, inventory: Inventory, taken: Mapping[NodeName, Taken], kept: Sequence[Slice] = ()
) -> Placement | Shortfall:
    """Answer which nodes each slice of a task gets, or why it cannot be placed now and what would make it fit.

    The answer depends on what the inventory says and never on the order in which it says it. A refusal that is `proven`
    means that no placement exists; with one group whose slices cannot get in each other's way it always is. A member
    takes a whole node, with the guests that sit there. Slices in `kept` have their nodes already, and only the others
    are placed.
    """
    whole, task = task, hosts(task)
    kept = [part for part in kept if whole.group(part.group).topology.nodes_of is None]
    outcome = assign(task, inventory, taken, kept)
    if not isinstance(outcome, Placement):
        guests = tuple(guest.name for guest in whole.guests(outcome.group.name))
        return replace(explain(outcome, task, inventory, taken, kept), guests=guests)
    return peopled(whole, replace(outcome, enclosed=enclosed(task, inventory, outcome.slices)))
