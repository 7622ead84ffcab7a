"""Sightings: what a look at nodes and head changes in the record, because the next look may not show it."""

from launcher.core.control.state import Tick
from launcher.core.model.observation import Unseen
from launcher.core.model.record import Exit, RunTimer


def apply_sightings(tick: Tick) -> None:
    """Note which nodes are out of sight, which leases the run has, and which ranks have ended.

    Reads `seen.nodes` and `seen.head`. Writes `record.since.unseen` and the timer of the head, `record.leased`,
    `record.stopped` (forgotten for a node in sight), `record.head_requested` and `record.exits`.
    """
    record = tick.record
    for name, view in tick.seen.nodes.items():
        if isinstance(view, Unseen):
            tick.lasted(record.since.unseen, name)
            continue
        record.since.unseen.pop(name, None)
        record.stopped.pop(name, None)
        if view.agent is not None and name in record.requested:
            record.leased.add(name)
    if isinstance(tick.seen.head, Unseen):
        tick.lasted(record.since.run, RunTimer.HEAD_UNSEEN)
    else:
        record.since.run.pop(RunTimer.HEAD_UNSEEN, None)
        record.head_requested = record.head_requested or tick.seen.head.head is not None
    _note_exits(tick)


def _note_exits(tick: Tick) -> None:
    exits = tick.record.exits
    for member in tick.index.members:
        gang, agent = tick.gang_of(member), tick.agent(tick.node_of(member))
        if member.name in exits or gang.broken or agent is None:
            continue
        for rank in agent.ranks:
            if rank.member == member.name and rank.attempt == gang.attempt and not rank.running:
                exits[member.name] = Exit(attempt=rank.attempt, code=rank.exit_code, at=rank.at, tail=rank.tail)
