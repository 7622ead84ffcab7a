"""The time that a run may take, counted from the first start of its ranks."""

from launcher.core.draft import Draft
from launcher.core.nouns import span
from launcher.core.run import Cause, Outcome


def expire(draft: Draft) -> None:
    """End a run whose `time_limit` is over.

    The time goes on while no controller lives, while the run recovers or holds, and while the launching machine starts
    anew: others count on it.
    """
    if draft.began is None and any(gang.epoch > 0 for gang in draft.gangs.values()):
        draft.began = draft.seen.wall
    limit = draft.run.task.time_limit
    if limit is None or draft.began is None:
        return
    left = draft.began + limit - draft.seen.wall
    if left <= 0:
        draft.end(Outcome(cause=Cause.TIME_LIMIT, words=f"its time limit of {span(limit)} is over"))
    else:
        draft.wake(draft.seen.at + left)
