"""Place a task on an inventory: the nodes of its slices, or why it does not fit."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Shortfall, Slice, UnavailableNodes
from launcher.core.model.task import Task
from launcher.core.placement.colocation import can_colocate, colocate, placed_groups, with_colocated_groups
from launcher.core.placement.constraints import TopologyLevel
from launcher.core.placement.explain import explain
from launcher.core.placement.slice_range import fewest_slices, most_slices
from launcher.core.placement.solver import assign
from launcher.core.placement.suggestions import SUGGESTION_WORK

MAX_OWNERS_TRIED = 3
"""How many owners are tried for a group without room; each costs a placement."""


def place(
    task: Task, inventory: Inventory, unavailable: UnavailableNodes, kept: Sequence[Slice] = ()
) -> Placement | Shortfall:
    """Return the nodes of each slice of a task, or why the task does not fit.

    A member takes a whole node, together with the members colocated there. Slices in `kept` keep their nodes; only the
    others are placed. A group that may have fewer slices gets as many as fit; the shortfall is about the least. The
    result does not depend on the order of the inventory. A shortfall that is `proven` means that no placement exists;
    that is always so for one group whose slices do not constrain each other.
    """
    owners = placed_groups(task)
    kept = [part for part in kept if task.group(part.group).topology.nodes_of is None]
    outcome = most_slices(owners, kept, lambda one: assign(one, inventory, unavailable, kept))
    if isinstance(outcome, Placement):
        exclusive = exclusive_nodes(owners, inventory, outcome.slices)
        return with_colocated_groups(task, replace(outcome, exclusive_nodes=exclusive))
    shortfall = explain(outcome, fewest_slices(owners, kept), inventory, unavailable, kept)
    colocated = tuple(group.name for group in task.colocated_groups(shortfall.group))
    more = () if colocated or kept else _suggest_colocation(task, shortfall.group, inventory, unavailable)
    return replace(shortfall, colocated_groups=colocated, suggestions=(*shortfall.suggestions, *more))


def exclusive_nodes(task: Task, inventory: Inventory, slices: Sequence[Slice]) -> tuple[NodeName, ...]:
    """Return the other nodes of every `exclusive` domain, in file order."""
    owners = {group.name: group for group in placed_groups(task).groups}
    owner_of = {
        name: owners[part.group] for part in slices if part.group in owners for name in (*part.nodes, *part.spares)
    }
    exclusive = {
        (level, level.domain_of(node))
        for node in inventory.nodes
        if (group := owner_of.get(node.name)) is not None and group.topology.exclusive is not None
        for level in (TopologyLevel(group.topology.exclusive),)
    }
    levels = {level for level, _ in exclusive}
    return tuple(
        node.name
        for node in inventory.nodes
        if node.name not in owner_of and any((level, level.domain_of(node)) in exclusive for level in levels)
    )


def _suggest_colocation(task: Task, name: str, inventory: Inventory, unavailable: UnavailableNodes) -> tuple[str, ...]:
    """Return suggestions of groups on whose nodes a group would fit; each was tried."""
    group = task.group(name)
    most_gpus = max((node.gpus for node in inventory.nodes), default=0)
    owners = (one for one in task.groups if can_colocate(task, one, group) and one.gpus + group.gpus <= most_gpus)
    found: list[str] = []
    for owner in islice(owners, MAX_OWNERS_TRIED):
        changed = placed_groups(colocate(task, name, owner))
        if isinstance(assign(changed, inventory, unavailable, (), SUGGESTION_WORK), Placement):
            found.append(f"set `nodes_of: {owner.name}` for `{name}`")
    return tuple(found)
