"""A run with other slices than its record: what stays, and what new slices get."""

from dataclasses import replace

from launcher.core.model.actions import Kill, Level, Reason, Why
from launcher.core.model.placement import group_of, slice_key
from launcher.core.model.record import Gang, Record
from launcher.core.model.run import MemberName, Run, Slot
from launcher.core.model.run_index import RunIndex, index_of
from launcher.core.model.task import RestartWith


def first_slots(run: Run) -> dict[MemberName, Slot]:
    """Return the slots of a new run: the placement's nodes in rank order."""
    index = index_of(run)
    return {
        member.name: Slot(member=member.name, node=index.slices[member.slice_key].nodes[member.slice_rank])
        for member in index.members
    }


def fit_to_run(record: Record, run: Run, index: RunIndex) -> None:
    """Give the record a slot for each member of the run, and drop all others.

    The node of a slice that went has no slot: it is killed clean and released. A new slot begins under a generation
    that the run has not had, for its node may have been in the run before. Where a slice was dropped, the last slice of
    its group has taken the index: its slots keep their nodes under other numbers.
    """
    members = index.by_name
    if not record.slots or record.slots.keys() == members.keys():
        return
    newest = max(record.newest_generation, *(slot.generation for slot in record.slots.values()))
    moved = _renumbered(record, run, newest + 1)
    slots = {
        name: moved.get(name) or record.slots.get(name) or replace(slot, generation=newest + 1)
        for name, slot in first_slots(run).items()
    }
    for name, member in members.items():
        if member.colocated_with is not None:
            slots[name] = replace(slots[member.colocated_with], member=name)
    holders = {slot.node for slot in slots.values()}
    attempt = max((gang.attempt for gang in record.gangs.values()), default=0)
    new = Gang(attempt=attempt, broken=Reason(why=Why.RESIZE, message="new slices") if attempt else None)
    record.slots = slots
    record.newest_generation = newest
    _forget_dropped(record, run)
    record.gangs = {name: record.gangs.get(name, new) for name in sorted(index.by_gang)}
    record.slow_left = {name: slow for name, slow in record.slow_left.items() if name in members}
    record.exits = {name: ended for name, ended in record.exits.items() if name in members}
    record.kills = [kill for kill in record.kills if kill.member in members or kill.node in holders]
    record.kills += [_end_raylet(record, index, slot) for slot in moved.values() if slot.node in record.requested]
    record.verified = {key: found for key, found in record.verified.items() if key in index.slices}
    record.stale &= index.slices.keys()
    record.relocating &= index.slices.keys()
    if record.move is not None and not record.move.keys <= index.slices.keys():
        record.move = None
    for timers in (record.since.joining, record.since.dead_in_ray):
        for name in timers.keys() - (members.keys() - moved.keys()):
            del timers[name]


def _renumbered(record: Record, run: Run, generation: int) -> dict[MemberName, Slot]:
    """Return the slots of the slice that has taken the index of a dropped one."""
    dropped = record.dropping
    if dropped is None:
        return {}
    group, index = run.group(group_of(dropped)), _index(dropped)
    last, size = group.topology.slices, group.topology.nodes_per_slice  # of the slices left, the last is one before
    if index == last:
        return {}
    pairs = ((f"{group.name}/{index * size + at}", f"{group.name}/{last * size + at}") for at in range(size))
    return {
        MemberName(new): Slot(member=MemberName(new), node=record.slots[MemberName(old)].node, generation=generation)
        for new, old in pairs
    }


def _end_raylet(record: Record, index: RunIndex, slot: Slot) -> Kill:
    """Return the kill of the raylet that a node runs for the slot that it had before."""
    reason = Reason(why=Why.RESIZE, message=f"{slot.node} gets slot {slot.member}")
    upto = record.newest_generation
    gang = index.gangs[slot.member]
    return Kill(reason=reason, node=slot.node, level=Level.GENERATION, member=slot.member, gang=gang, generation=upto)


def _forget_dropped(record: Record, run: Run) -> None:
    """Forget what was known of a dropped slice, and of the slice that has its index now."""
    dropped = record.dropping
    if dropped is None:
        return
    group = run.group(group_of(dropped))
    last = slice_key(group.name, group.topology.slices)
    relocates = last in record.relocating
    record.relocating -= {dropped, last}
    if relocates and last != dropped:
        record.relocating.add(dropped)
    if last != dropped:
        record.stale.add(dropped)  # its placement group in Ray is that of the nodes before
    for key in (dropped, last):
        record.verified.pop(key, None)
        record.misplaced.pop(key, None)
        record.regrouped.pop(key, None)
        record.since.placing.pop(key, None)
    record.retries = [(key, retry) for key, retry in record.retries if key.slice not in (dropped, last)]
    record.dropping = None


def _index(key: str) -> int:
    return int(key.rpartition(".s")[2])


def hindrance(run: Run, record: Record) -> str | None:
    """Return why a run cannot become its target now; None if it can."""
    if run.target is None:
        return None
    if record.dropping is not None:
        return f"slice `{record.dropping}` is being dropped"
    before = {group.name: group for group in run.task.groups}
    for group in run.target.task.groups:
        if group.topology.slices == before[group.name].topology.slices:
            continue
        members = [member for member in index_of(run).members if member.group == group.name]
        if group.recovery.restart_with is RestartWith.MEMBER:  # the attempts of those that go would be forgotten
            return f"ranks of `{group.name}` restart one by one (`restart_with: member`)"
        if all(member.name in record.exits and record.exits[member.name].ok for member in members):
            return f"all ranks of `{group.name}` have ended"
    gone = {
        name for part in run.placement.slices if part.key in run.target.goes for name in (*part.nodes, *part.spares)
    }
    head = record.head or run.head  # also before the head is started: that may be under way while the slice goes
    return f"`{head}` is the node of the Ray head, and would be removed" if head in gone else None
