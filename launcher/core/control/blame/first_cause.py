"""Which rank of a gang failed first, and which only followed.

A rank whose peer has died fails too: its connections break, and NCCL's watchdog answers with SIGABRT. The launcher sees
both within a look or two, and often the follower first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from launcher.core.control.timing import JOINT_FAILURE_S
from launcher.core.model.record import Exit
from launcher.core.model.run import Member
from launcher.core.model.text import count

_SIGNALS = {
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    13: "SIGPIPE",
    15: "SIGTERM",
}
_SIGNALLED = 128
"""A shell reports the death by signal n as 128 + n."""

ABRUPT = frozenset(_SIGNALLED + number for number in (7, 9, 11))
"""Exits that no peer causes: SIGBUS, SIGKILL, SIGSEGV. A peer's death is answered by an exit code, SIGABRT (NCCL's
watchdog), SIGTERM (a launcher of processes) or SIGPIPE."""

_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFailure:
    """A rank that has failed."""

    member: Member
    exit: Exit

    @property
    def abrupt(self) -> bool:
        """Whether it was killed in a way that no peer causes. One that vanished was killed with its parent."""
        return self.exit.code is None or self.exit.code in ABRUPT


def by_cause(failures: Iterable[RankFailure]) -> tuple[RankFailure, ...]:
    """Return the failed ranks in the order in which they can have caused each other: the first cause first.

    Of those that ended within `JOINT_FAILURE_S` of the earliest, abrupt ones come before the others. Times are of one
    clock, but a second or so apart from the truth; equal ones are in the order given.
    """
    found = tuple(failures)
    until = min((one.exit.at for one in found), default=0.0) + JOINT_FAILURE_S
    return tuple(sorted(found, key=lambda one: (not (one.abrupt and one.exit.at <= until), one.exit.at)))


def exit_text(code: int | None) -> str:
    """Return how a rank ended: `exited with 139 (SIGSEGV)`."""
    if code is None:
        return "was killed"
    name = _SIGNALS.get(code - _SIGNALLED)
    return f"exited with {code} ({name})" if name else f"exited with {code}"


def followers_text(followers: Sequence[RankFailure]) -> str:
    """Return which ranks failed after the first one: `; then main/1 exited with 1`. Empty for none."""
    if not followers:
        return ""
    shown = ", ".join(f"{one.member.name} {exit_text(one.exit.code)}" for one in followers[:_SHOWN])
    more = len(followers) - _SHOWN
    return f"; then {shown}" + (f" and {count(more, 'other rank')}" if more > 0 else "")
