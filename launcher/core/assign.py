"""All groups of a task onto one inventory: who chooses first, and what is tried when that does not work out."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain, islice, permutations

from launcher.core.choose import Pick, choose
from launcher.core.eligible import Sieve
from launcher.core.fleet import ANY_LEVEL, Inventory, NodeName
from launcher.core.nouns import count
from launcher.core.placement import Placement, Slice, Taken
from launcher.core.task import Group, Task

MAX_ORDERS = 24
"""How many orders of a task's groups are tried before it is refused: all of them for up to four groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """A group that does not fit, the picks it did find, and all nodes promised to slices of the task by then."""

    group: Group
    picks: tuple[Pick, ...]
    promised: AbstractSet[NodeName]


def assign(task: Task, inventory: Inventory, taken: Mapping[NodeName, Taken]) -> Placement | Miss:
    """Answer a placement, or the first group that found no room.

    The group with the largest slice chooses first; a group that then misses goes to the front in the next try. One
    that misses although it chose first cannot be helped by any order.
    """
    order = sorted(task.groups, key=_demand)
    spare_orders = islice(permutations(order), MAX_ORDERS)
    tried: list[Sequence[Group]] = []
    misses: list[Miss] = []
    for _ in range(MAX_ORDERS):
        outcome = _in_order(task, order, inventory, taken)
        if isinstance(outcome, Placement) or outcome.group is order[0]:
            return outcome
        misses.append(outcome)
        tried.append(order)
        missed = [outcome.group, *(group for group in order if group is not outcome.group)]
        untried = (list(groups) for groups in chain([missed], spare_orders) if list(groups) not in tried)
        order = next(untried, [])
        if not order:
            break
    return misses[0]


def _demand(group: Group) -> tuple[int, int, str]:
    rule = group.topology
    need = rule.nodes_per_slice + rule.spares
    return -need, -need * rule.slices, group.name


def _in_order(
    task: Task, order: Sequence[Group], inventory: Inventory, taken: Mapping[NodeName, Taken]
) -> Placement | Miss:
    promised: set[NodeName] = set()
    picked: dict[str, tuple[Pick, ...]] = {}
    for group in order:
        picks = choose(group, inventory, Sieve(group, taken, promised))
        promised.update(node.name for pick in picks for node in pick.nodes)
        if len(picks) < group.topology.slices:
            return Miss(group=group, picks=picks, promised=promised)
        picked[group.name] = picks
    placed = [(group, index, pick) for group in task.groups for index, pick in enumerate(picked[group.name])]
    return Placement(
        slices=tuple(slice_of(group, index, pick) for group, index, pick in placed),
        why=tuple(_why(group, index, pick) for group, index, pick in placed),
    )


def slice_of(group: Group, index: int, pick: Pick) -> Slice:
    """Answer a pick as a slice: the first nodes in rank order are its members, the others its spares."""
    names = tuple(node.name for node in pick.nodes)
    members = group.topology.nodes_per_slice
    return Slice(
        group=group.name,
        index=index,
        place=pick.place,
        rack=pick.rack,
        domain=pick.domain,
        nodes=names[:members],
        spares=names[members:],
    )


def _why(group: Group, index: int, pick: Pick) -> str:
    """Answer one sentence: which place a slice got, and what spoke for it."""
    rule = group.topology
    name = f"`{group.name}/{index}`"
    if rule.within == ANY_LEVEL:
        racks = len({node.rack for node in pick.nodes})
        return f"{name} on {count(racks, 'rack')}: broken racks before whole ones, as few as hold it"
    left = pick.room - len(pick.nodes)
    where = f"{name} in `{pick.place}`: {pick.room} free, {left} left over"
    if not pick.rivals:
        return f"{where}, the only place with room"
    if group.gpus == 0:
        return f"{where}, of {pick.rivals + 1} with room the one that work on GPUs misses least"
    if rule.prefer is not None:
        return f"{where}, the fullest of {pick.rivals + 1} with room that is near the others at `{rule.prefer}`"
    return f"{where}, the fullest of {pick.rivals + 1} places with room"
