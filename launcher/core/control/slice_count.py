"""Fewer slices where no spare is left, and more once there is room for them."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from launcher.core.control.conditions import Condition
from launcher.core.control.state import Tick
from launcher.core.control.timing import GROW_LONGEST_S, PROVEN_S
from launcher.core.model.actions import Grow, Reason, Why
from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Slice
from launcher.core.model.record import DroppedSlice, Retry
from launcher.core.model.task import Group, OnNoSpare, Task
from launcher.core.model.text import count, span


def can_drop(tick: Tick, part: Slice) -> bool:
    """Whether the run may go on without a slice, by its task."""
    group = tick.run.group(part.group)
    least = group.topology.min_slices
    shrinks = group.recovery.on_no_spare is OnNoSpare.SHRINK
    return shrinks and least is not None and group.topology.slices > least


def drop(tick: Tick, part: Slice, message: str) -> None:
    """Decide that the run goes on without a slice; one at a time, and none while slices change or move.

    A growth that did not last is counted: the next one waits longer.
    """
    record = tick.record
    if record.dropping is not None or record.resizing or record.move is not None:
        return
    record.dropping = part.key
    record.shrunk[part.group] = DroppedSlice(place=part.place, message=message)
    grown = record.grown.pop(part.group, None)
    if grown is not None and tick.seen.at - grown.at < PROVEN_S:
        record.grown[part.group] = Retry(count=grown.count + 1, at=grown.at)


def dropped_nodes(tick: Tick) -> AbstractSet[NodeName]:
    """Return the nodes that leave the run with the slice that is dropped."""
    part = tick.index.slices.get(tick.record.dropping or "")
    if part is None:
        return frozenset()
    members = tick.index.by_slice[part.key]
    return {*part.nodes, *part.spares, *(tick.node_of(member) for member in members)}


def grow(tick: Tick) -> None:
    """Ask for more slices once there was room for `grow_after` and every rank has run meanwhile.

    Reads `seen.room`, `conditions`, `hold_reason`, `record.grown`. Writes `record.since.room`, `shrunk` (forgotten for
    a group with all its slices); `actions`.
    """
    record, room = tick.record, tick.record.since.room
    missing = {group.name: group for group in small_groups(tick.run.task)}
    if record.dropping is None:
        record.shrunk = {name: dropped for name, dropped in record.shrunk.items() if name in missing}
    ready = tick.seen.room & missing.keys() if _all_well(tick) else frozenset()
    for name in room.keys() - ready:
        del room[name]
    for name in sorted(ready):
        wait = _wait(tick, missing[name])
        due = room.setdefault(name, tick.seen.at) + wait
        if tick.seen.at < due:
            tick.wake(due)
        else:
            rule = missing[name].topology
            message = f"room for more slices of {name} for {span(wait)}; it has {rule.slices} of {rule.max_slices}"
            tick.do(Grow(reason=Reason(why=Why.RESIZE, message=message)))


def small_groups(task: Task) -> Iterator[Group]:
    """Return the groups with fewer slices than they may have."""
    for group in task.groups:
        if group.topology.max_slices is not None and group.topology.slices < group.topology.max_slices:
            yield group


def apply_growth(tick: Tick, *, claimed: bool) -> None:
    """Take in that nodes for more slices were claimed, or could not be."""
    tick.record.since.room.clear()
    tick.record.resizing = tick.record.resizing or claimed
    for group in small_groups(tick.run.task):
        before = tick.record.grown.get(group.name)
        failures = (before.count if before else 0) + (not claimed)
        tick.record.grown[group.name] = Retry(count=failures, at=tick.seen.at)


def slice_notes(tick: Tick) -> Iterator[str]:
    """Return for each group with fewer slices than it may have how many it has, why, and when it grows."""
    for group in small_groups(tick.run.task):
        rule, dropped = group.topology, tick.record.shrunk.get(group.name)
        why = f"; {_short_of_spares(dropped.place)}" if dropped else ""
        if tick.record.resizing:
            when = "restarting with other slices"
        elif group.name in tick.record.since.room:
            when = f"there is room for more: grows if that lasts {span(_wait(tick, group))}"
        else:
            when = grows_when(group)
        yield f"{group.name}: {rule.slices} of {rule.max_slices} slices{why}; {when}"


def grows_when(group: Group) -> str:
    """Return what has to be free before a group with a range of slices grows."""
    rule = group.topology
    needed = rule.nodes_per_slice + rule.spares
    where = "" if rule.within in (ANY_LEVEL, NODE_LEVEL) else f" of one {rule.within}"
    return f"grows when {count(needed, 'node')}{where} {'is' if needed == 1 else 'are'} free"


def _short_of_spares(place: str) -> str:
    return "no spare is left" if place == ANY_LEVEL else f"{place} has no spare"


def _wait(tick: Tick, group: Group) -> float:
    """Return how long there has to be room (s): twice as long after each growth that did not last."""
    least, grown = group.recovery.grow_after, tick.record.grown.get(group.name)
    longest = max(least, GROW_LONGEST_S)
    return min(least * 2.0 ** min(grown.count if grown else 0, 20), longest)


def _all_well(tick: Tick) -> bool:
    """Whether every rank runs and nothing else is going on: a growth restarts all ranks."""
    record = tick.record
    if tick.hold_reason or record.resizing or record.dropping or record.relocating or record.move:
        return False
    if record.since.draining:
        return False
    if any(gang.broken for gang in record.gangs.values()):
        return False
    return all(condition is Condition.SERVING for condition in tick.conditions.values())
