"""One operation on one machine: its deadline, and its errors with node, stage and time."""

import math
import time
from typing import NoReturn

from launcher.errors import RemoteError


class HostKeyError(RemoteError):
    """A host key that is not the one expected; fingerprints as OpenSSH shows them, `expected` empty for none known."""

    expected: tuple[str, ...] = ()
    presented: str = ""


class DroppedError(RemoteError):
    """A machine that turned us away for now (MaxStartups, MaxSessions): worth trying again."""


class SilentError(RemoteError):
    """A machine that a jump host gets no answer from; or is it the jump host that has fallen silent?"""


class LostError(RemoteError):
    """A connection that was gone before the command was sent: nothing was begun, a new one may do."""


class Operation:
    """What is asked of a machine, within `timeout` seconds from now; `knock` bounds the way to its first packet."""

    def __init__(self, node: str, timeout: float, knock: float = math.inf) -> None:
        self.node = node
        self.timeout = timeout
        self.knock = knock
        self._begun = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Return the seconds since it began."""
        return time.monotonic() - self._begun

    @property
    def left(self) -> float:
        """Return the seconds that are left, never less than none."""
        return max(0.0, self.timeout - self.elapsed)

    def error(
        self,
        stage: str,
        message: str,
        *hints: str,
        tail: tuple[str, ...] = (),
        kind: type[RemoteError] = RemoteError,
    ) -> RemoteError:
        """Return an error of this operation. The node is a field of it, so that equal errors can be told together."""
        return kind(message, node=self.node, stage=stage, elapsed=self.elapsed, tail=tail, hints=hints)

    def fail(self, stage: str, message: str, *hints: str, tail: tuple[str, ...] = ()) -> NoReturn:
        """Raise an error of this operation."""
        raise self.error(stage, message, *hints, tail=tail)


def tail(output: bytes, lines: int = 20) -> tuple[str, ...]:
    """Return the last lines of what a program said."""
    return tuple(output.decode(errors="replace").strip().splitlines()[-lines:])
