"""The answer to a task on an inventory: nodes for every slice of every group, or all there is to say about why not."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Shortfall, Slice, Taken
from launcher.core.model.task import Task
from launcher.core.placement.colocation import colocate, hosts, may_host, peopled
from launcher.core.placement.constraints import Scale
from launcher.core.placement.explain import explain
from launcher.core.placement.solver import assign
from launcher.core.placement.suggestions import WORK

MAX_HOSTS_TRIED = 3
"""How many groups are tried as the host of one that has no room; each costs a placement."""


def place(
    task: Task, inventory: Inventory, taken: Mapping[NodeName, Taken], kept: Sequence[Slice] = ()
) -> Placement | Shortfall:
    """Return which nodes each slice of a task gets, or why it cannot be placed now and what would make it fit.

    The answer depends on what the inventory says and never on the order in which it says it. A refusal that is `proven`
    means that no placement exists; with one group whose slices cannot get in each other's way it always is. A member
    takes a whole node, with the guests that sit there. Slices in `kept` have their nodes already, and only the others
    are placed.
    """
    whole, task = task, hosts(task)
    kept = [part for part in kept if whole.group(part.group).topology.nodes_of is None]
    outcome = assign(task, inventory, taken, kept)
    if not isinstance(outcome, Placement):
        found = explain(outcome, task, inventory, taken, kept)
        guests = tuple(guest.name for guest in whole.guests(found.group))
        more = () if guests or kept else _beside(whole, found.group, inventory, taken)
        return replace(found, guests=guests, changes=(*found.changes, *more))
    return peopled(whole, replace(outcome, enclosed=enclosed(task, inventory, outcome.slices)))


def _beside(task: Task, name: str, inventory: Inventory, taken: Mapping[NodeName, Taken]) -> Sequence[str]:
    """Return on whose nodes a group without room could sit, each tried: with GPUs that those leave free, or none."""
    most = max((node.gpus for node in inventory.nodes), default=0)
    free = (host for host in task.groups if may_host(task, host, task.group(name)))
    hosts_tried = islice((host for host in free if host.gpus + task.group(name).gpus <= most), MAX_HOSTS_TRIED)
    changed = [(host.name, hosts(colocate(task, name, host))) for host in hosts_tried]
    fits = [host for host, one in changed if isinstance(assign(one, inventory, taken, (), WORK), Placement)]
    return tuple(f"`nodes_of: {host}` for `{name}`" for host in fits)


def enclosed(task: Task, inventory: Inventory, slices: Sequence[Slice]) -> tuple[NodeName, ...]:
    """Return the other nodes of every place that a group of the task has by `exclusive`, in the order of the file."""
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
