"""Groups that may have fewer slices: as many as fit, and never fewer than their minimum."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from launcher.core.model.placement import Placement, Slice
from launcher.core.model.task import Task

_R = TypeVar("_R")


def fewest_slices(task: Task, kept: Sequence[Slice] = ()) -> Task:
    """Return the task with the least slices that it may have, and no fewer than are `kept`."""
    have = Counter(part.group for part in kept)
    least = {group.name: group.topology.min_slices for group in task.groups}
    return task.with_slices({name: max(low, have[name]) for name, low in least.items() if low is not None})


def most_slices(task: Task, kept: Sequence[Slice], attempt: Callable[[Task], Placement | _R]) -> Placement | _R:
    """Return the placement with the most slices that `attempt` finds, or why the least do not fit.

    The first group gets as many slices as fit beside the least of the others, then the next. What fits with some slices
    fits with fewer, so that each number is found by bisection.
    """
    found = attempt(task)
    counts = {group.name: group.topology.slices for group in fewest_slices(task, kept).groups}
    ranges = [group.name for group in task.groups if counts[group.name] < group.topology.slices]
    if isinstance(found, Placement) or not ranges:
        return found
    found = attempt(task.with_slices(counts))
    if not isinstance(found, Placement):
        return found
    for name in ranges:
        low, high = counts[name], task.group(name).topology.slices
        while low < high:
            middle = (low + high + 1) // 2
            answer = attempt(task.with_slices({**counts, name: middle}))
            if isinstance(answer, Placement):
                low, found = middle, answer
            else:
                high = middle - 1
        counts[name] = low
    return found


def as_placed(task: Task, slices: Sequence[Slice]) -> Task:
    """Return the task with as many slices in each group as it has got."""
    have = Counter(part.group for part in slices)
    return task.with_slices({group.name: have[group.name] for group in task.groups})


def pinned(task: Task) -> Task:
    """Return the task with exactly the slices that it has now: nothing may be left out."""
    fixed = (
        replace(group, topology=replace(group.topology, min_slices=None, max_slices=None)) for group in task.groups
    )
    return replace(task, groups=tuple(fixed))
