"""What a user could ask less of, so that a task fits: each way with the most that still does."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, Inventory
from launcher.core.model.task import Group, TopologyRule
from launcher.core.model.text import count

_Fits = Callable[[Group], bool]


def eased(group: Group, inventory: Inventory, fits: _Fits) -> Iterator[str]:
    """Answer a sentence for each single wish that, given up, lets the group be placed as `fits` tells."""
    yield from _counts(group, fits)
    yield from _rules(group, inventory, fits)
    if group.accelerator is not None and fits(replace(group, accelerator=None)):
        yield f"any accelerator instead of `{group.accelerator}`"
    fewer = max((node.gpus for node in inventory.nodes if node.gpus < group.gpus), default=0)
    if fewer and fits(replace(group, gpus=fewer)):
        yield f"{count(fewer, 'GPU')} on each node instead of {group.gpus}"


def _counts(group: Group, fits: _Fits) -> Iterator[str]:
    rule = group.topology
    spares = _most(0, rule.spares - 1, lambda n: fits(_with(group, replace(rule, spares=n))))
    if spares is not None:
        yield f"`spares: {spares}`"
    shared = _most(0, rule.spares_per_rack - 1, lambda n: fits(_with(group, replace(rule, spares_per_rack=n))))
    if shared is not None:
        yield f"`spares_per_rack: {shared}`"
    size = _most(1, rule.nodes_per_slice - 1, lambda n: fits(_with(group, replace(rule, nodes_per_slice=n))))
    if size is not None:
        yield f"slices of at most {count(size, 'node')}"
    slices = _most(1, rule.slices - 1, lambda n: fits(_with(group, replace(rule, slices=n))))
    if slices is not None:
        yield f"at most {count(slices, 'slice')}"


def _rules(group: Group, inventory: Inventory, fits: _Fits) -> Iterator[str]:
    rule = group.topology
    given_up = (
        ("spread", rule.spread, replace(rule, spread=None)),
        ("spread_members", rule.spread_members, replace(rule, spread_members=None)),
        ("exclusive", rule.exclusive, replace(rule, exclusive=None)),
        ("near", rule.near, replace(rule, near=None)),
        ("apart_from", rule.apart_from, replace(rule, apart_from=None)),
    )
    for key, value, without in given_up:
        if value is not None and fits(_with(group, without)):
            yield f"no `{key}: {value}`"
    if rule.all_within is not None and fits(_with(group, replace(rule, all_within=None))):
        yield f"`within: {rule.within}` instead of `[{rule.all_within}, {rule.within}]`"
    named = {"racks": rule.racks, "exclude_racks": rule.exclude_racks}
    named |= {"nodes": rule.only_nodes, "exclude_nodes": rule.exclude_nodes}
    filters = [key for key, value in named.items() if value]
    free = replace(rule, racks=(), exclude_racks=(), only_nodes=(), exclude_nodes=())
    if filters and fits(_with(group, free)):
        yield f"no {' and no '.join(f'`{name}`' for name in filters)}"
    if rule.spares_per_rack:
        return
    levels = [NODE_LEVEL, *reversed(inventory.levels), ANY_LEVEL]
    top = levels.index(rule.all_within) if rule.all_within in levels else len(levels)
    coarser = levels[levels.index(rule.within) + 1 : top] if rule.within in levels else []
    for level in coarser:
        if fits(_with(group, replace(rule, within=level))):
            yield f"`within: {level}` instead of `{rule.within}`"
            return


def _with(group: Group, rule: TopologyRule) -> Group:
    return replace(group, topology=rule)


def _most(low: int, high: int, fits: Callable[[int], bool]) -> int | None:
    """Answer the largest number that fits, where a smaller one fits whenever a larger one does; None if none does."""
    best = None
    while low <= high:
        middle = (low + high) // 2
        if fits(middle):
            best, low = middle, middle + 1
        else:
            high = middle - 1
    return best
