"""Which acts may not overlap: one of them would undo, or escape, what the other does."""

from collections.abc import Iterable

from launcher.core.model.actions import Action, Claim, Level, Resize, StartHead, Sweep, Unit


def must_wait(action: Action, in_flight: Iterable[str]) -> bool:
    """Answer whether something under way has to end before an action may begin.

    A fence that does not wait for what it fences is escaped by what comes up behind it; a lease that is taken while
    it is still being let go of is lost again.
    """
    match action:
        case Claim():
            return f"unclaim:{Unit.SEAT.value}:{action.node}" in in_flight
        case StartHead():
            return _any(in_flight, f"unclaim:{Unit.HEAD.value}:")
        case Sweep(level=Level.RANK):
            return _any(in_flight, f"start:{action.gang}@")
        case Sweep():
            return _any(in_flight, f"join:{action.node}#")
        case Resize():
            return any(_any(in_flight, beginning) for beginning in ("start:", "enlist:", "relocate:"))
        case _:
            return False


def _any(in_flight: Iterable[str], beginning: str) -> bool:
    return any(key.startswith(beginning) for key in in_flight)
