"""One operation on one machine: its deadline, and its errors.

Errors have node, stage and time.
"""

import math
import time
from typing import NoReturn

from launcher.errors import RemoteError
from launcher.transport.bounded import last_lines


class HostKeyError(RemoteError):
    """A host key that is not the expected one.

    Fingerprints are as OpenSSH prints them; `expected` is empty where none is known.
    """

    expected: tuple[str, ...] = ()
    presented: str = ""


class LoginRefusedError(RemoteError):
    """A machine that knows none of our keys for this user."""


class NoJobError(RemoteError):
    """A machine of Slurm that lets in only users with a job there: a new attempt may succeed once one has begun."""


class DroppedError(RemoteError):
    """A machine that refuses connections for now: a new attempt may succeed.

    MaxStartups and MaxSessions cause it.
    """


class SilentError(RemoteError):
    """A jump host gets no answer from a machine, or is silent itself."""


class LostError(RemoteError):
    """A connection was lost before the command was sent.

    Nothing was begun: a new connection may succeed.
    """


class LoginError(RemoteError):
    """A login that does not come to its command: a start-up file waits, or leaves the shell."""


class Operation:
    """What is asked of a machine, within `timeout` seconds from now.

    `knock` bounds the time to its first packet.
    """

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
        """Return the seconds that are left, at least 0."""
        return max(0.0, self.timeout - self.elapsed)

    def error(
        self,
        stage: str,
        message: str,
        *hints: str,
        tail: tuple[str, ...] = (),
        kind: type[RemoteError] = RemoteError,
    ) -> RemoteError:
        """Return an error of this operation.

        The node is a field of it, so that equal errors can be shown together.
        """
        return kind(message, node=self.node, stage=stage, elapsed=self.elapsed, tail=tail, hints=hints)

    def fail(self, stage: str, message: str, *hints: str, tail: tuple[str, ...] = ()) -> NoReturn:
        """Raise an error of this operation."""
        raise self.error(stage, message, *hints, tail=tail)


def tail(output: bytes, lines: int = 20) -> tuple[str, ...]:
    """Return the last lines of a program's output."""
    return last_lines(output, lines)
