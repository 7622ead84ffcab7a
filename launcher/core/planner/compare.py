"""One task at several `within` levels, to compare what placements cost."""

from collections.abc import Sequence
from dataclasses import replace

from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, RACK_LEVEL
from launcher.core.model.task import Group, Task


def comparable(task: Task) -> tuple[str, ...]:
    """Return the groups that a comparison changes: those whose slices have GPUs on several nodes of their own."""
    return tuple(group.name for group in task.groups if _is_comparable(group))


def at_level(task: Task, level: str, levels: Sequence[str]) -> Task:
    """Return the task with `within: level` in each comparable group.

    `levels` are those of the inventory, the coarsest first. If all slices of a group must be in one domain that is
    finer than the level, each slice must fit into that domain.
    """
    order = [ANY_LEVEL, *levels, NODE_LEVEL]

    def changed(group: Group) -> Group:
        outer = group.topology.all_within
        within = level if outer is None else max(outer, level, key=order.index)
        return replace(group, topology=replace(group.topology, within=within))

    return replace(task, groups=tuple(changed(one) if _is_comparable(one) else one for one in task.groups))


def contradiction(task: Task, levels: Sequence[str]) -> str | None:
    """Return why no placement can obey the rules of a task that `at_level` returned; None if one can."""
    order = [ANY_LEVEL, *levels, NODE_LEVEL]
    for group in filter(_is_comparable, task.groups):
        rule = group.topology
        if rule.within == NODE_LEVEL:
            return f"slices of `{group.name}` have {rule.nodes_per_slice} nodes"
        if rule.spares_per_rack and rule.within != RACK_LEVEL:
            return f"`spares_per_rack` of `{group.name}` requires `within: rack`"
        if rule.spread_members is not None and order.index(rule.spread_members) <= order.index(rule.within):
            return f"`spread_members: {rule.spread_members}` of `{group.name}` is not below `within: {rule.within}`"
    return None


def _is_comparable(group: Group) -> bool:
    rule = group.topology
    return group.gpus > 0 and rule.nodes_per_slice > 1 and rule.nodes_of is None
