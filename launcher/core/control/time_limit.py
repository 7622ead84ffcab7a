"""The time that a run may take, counted from the first start of its ranks."""

from launcher.core.control.state import Draft
from launcher.core.model.record import Outcome
from launcher.core.model.run import Cause
from launcher.core.model.text import span

JUMP = 1.0
"""By how much the time of day may drift from the loop's clock before it counts as set anew (s)."""


def expire(draft: Draft) -> None:
    """End a run whose `time_limit` is over.

    The time goes on while no controller lives, while the run recovers or holds, and while the launching machine starts
    anew: others count on it. Whoever sets that machine's time of day meanwhile neither ends a run nor prolongs it.
    """
    _follow_the_wall(draft)
    if draft.began is None and draft.started:
        draft.began = draft.seen.wall
    limit = draft.run.task.time_limit
    if limit is None or draft.began is None:
        return
    left = draft.began + limit - draft.seen.wall
    if left <= 0:
        draft.end(Outcome(cause=Cause.TIME_LIMIT, message=f"its time limit of {span(limit)} is over"))
    else:
        draft.wake(draft.seen.at + left)


def _follow_the_wall(draft: Draft) -> None:
    """Move the beginning by as much as the time of day was set anew since the last look of this controller."""
    ahead = draft.seen.wall - draft.seen.at
    jump = 0.0 if draft.ahead is None else ahead - draft.ahead
    if draft.ahead is None or abs(jump) > JUMP:
        draft.ahead = ahead
        draft.began = None if draft.began is None else draft.began + jump
