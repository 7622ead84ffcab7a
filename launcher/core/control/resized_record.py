"""A run that has other slices than its record knows of: what stays of those that went, and of those that came."""

from dataclasses import replace

from launcher.core.model.actions import Reason, Why
from launcher.core.model.record import Gang, Record
from launcher.core.model.run import MemberName, Run, Slot
from launcher.core.model.task import RestartWith


def refitted(run: Run, record: Record) -> Record:
    """Return the record with a slot for each member of the run and for nobody else.

    A node of a slice that went has no slot, so that it is let go of, which kills it. One that came begins under a
    generation that the run has not had, for it may have been there before.
    """
    members = {member.name: member for member in run.members()}
    if not record.slots or record.slots.keys() == members.keys():
        return record
    parts = {part.key: part for part in run.placement.slices}
    newest = max(record.newest, *(slot.generation for slot in record.slots.values()))
    slots: dict[MemberName, Slot] = {}
    for name, member in members.items():
        node = parts[member.slice_key].nodes[member.slice_rank]
        slots[name] = record.slots.get(name) or Slot(member=name, node=node, generation=newest + 1)
    slots.update(
        (name, replace(slots[member.host], member=name)) for name, member in members.items() if member.host is not None
    )
    holders = {slot.node for slot in slots.values()}
    attempt = max((gang.attempt for gang in record.gangs.values()), default=0)
    come = Gang(attempt=attempt, broken=Reason(why=Why.RESIZE, message="it is new") if attempt else None)
    gangs = {run.gang(member) for member in members.values()}
    return replace(
        record,
        slots=slots,
        newest=newest,
        gangs={name: record.gangs.get(name, come) for name in sorted(gangs)},
        exits={name: ended for name, ended in record.exits.items() if name in members},
        kills=tuple(kill for kill in record.kills if kill.member in members or kill.node in holders),
        verified={key: generations for key, generations in record.verified.items() if key in parts},
        stale=frozenset(record.stale & parts.keys()),
        moving=frozenset(record.moving & parts.keys()),
    )


def hindrance(run: Run, record: Record) -> str | None:
    """Return why a run cannot become its target now; None where nothing is in the way."""
    if run.target is None:
        return None
    before = {group.name: group for group in run.task.groups}
    for group in run.target.task.groups:
        if group.topology.slices == before[group.name].topology.slices:
            continue
        members = [member for member in run.members() if member.group == group.name]
        if group.recovery.restart_with is RestartWith.MEMBER:  # the attempts of those that go would be forgotten
            return f"ranks of `{group.name}` start again one by one (`restart_with: member`)"
        if all(member.name in record.exits and record.exits[member.name].ok for member in members):
            return f"all ranks of `{group.name}` have ended"
    gone = {
        name for part in run.placement.slices if part.key in run.target.goes for name in (*part.nodes, *part.spares)
    }
    return f"the head of its Ray is on `{record.head}`, which would go" if record.head in gone else None
