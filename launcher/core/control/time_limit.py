"""The time that a run may take, counted from the first start of its ranks."""

from launcher.core.control.state import Tick
from launcher.core.control.timing import CLOCK_JUMP_S
from launcher.core.model.record import Outcome
from launcher.core.model.run import Cause
from launcher.core.model.text import span


def enforce_time_limit(tick: Tick) -> None:
    """End a run whose `time_limit` is over.

    The time goes on while no controller lives, while the run recovers or is on hold, and while the launching machine
    reboots: other runs count on it. Setting that machine's clock neither ends a run nor prolongs it.

    Reads `started`, `seen.wall`. Writes `record.started_at`, `record.clock_offset`, the outcome; wakes at the end.
    """
    _follow_clock(tick)
    record, limit = tick.record, tick.run.task.time_limit
    if record.started_at is None and tick.started:
        record.started_at = tick.seen.wall
    if limit is None or record.started_at is None:
        return
    left = record.started_at + limit - tick.seen.wall
    if left <= 0:
        tick.end(Outcome(cause=Cause.TIME_LIMIT, message=f"time limit of {span(limit)} reached"))
    else:
        tick.wake(tick.seen.at + left)


def _follow_clock(tick: Tick) -> None:
    """Move the start by as much as the time of day was set since the last look."""
    record, offset = tick.record, tick.seen.wall - tick.seen.at
    jump = 0.0 if record.clock_offset is None else offset - record.clock_offset
    if record.clock_offset is None or abs(jump) > CLOCK_JUMP_S:
        record.clock_offset = offset
        record.started_at = None if record.started_at is None else record.started_at + jump
