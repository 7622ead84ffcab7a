"""Sightings: what a look changes in the record; the next may not show it."""

from launcher.core.control.conditions import rank_report
from launcher.core.control.state import Tick
from launcher.core.model.observation import Unseen
from launcher.core.model.record import Exit, RunTimer


def apply_sightings(tick: Tick) -> None:
    """Note nodes out of sight, leases of the run, and ranks that have ended.

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
        rank = rank_report(tick, member)
        if member.name in exits or tick.gang_of(member).broken or rank is None or rank.running:
            continue
        own = rank.member == member.name
        ended = Exit(attempt=rank.attempt, code=rank.exit_code, at=rank.at, tail=rank.tail if own else ())
        # A node out of sight may be why its driver failed: it is judged by its silence.
        if own or ended.ok or tick.agent(tick.node_of(member)) is not None:
            exits[member.name] = ended
