"""One tree of errors, each with its exit code, its fields and its hints. Prose is made in `cli/render.py`.

A message is one sentence: lower case, no full stop, names in backticks, what and where. A hint says what to do.
"""

from dataclasses import dataclass
from enum import IntEnum, unique
from typing import TYPE_CHECKING, ClassVar, NoReturn

if TYPE_CHECKING:  # its dataclasses take 10 ms to make, and every command reads this module
    from launcher.core.model.placement import Shortfall


@unique
class ExitCode(IntEnum):
    """Every exit code of the command, each with one meaning; the README's table lists the same."""

    SUCCESS = 0
    JOB_FAILED = 1
    USAGE = 2
    NO_CAPACITY = 3
    REMOTE = 4
    EXHAUSTED = 5
    LEASE_HELD = 6
    BUG = 70
    INTERRUPTED = 130


class LaunchError(Exception):
    """Anything that a user can be told about. Whatever else escapes is a bug."""

    code: ClassVar[ExitCode] = ExitCode.REMOTE

    def __init__(self, message: str, *, hints: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hints = hints

    @property
    def advice(self) -> str:
        """Return what is wrong and what to do in one line, for where only words travel on."""
        return "; ".join((self.message, *self.hints))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One thing wrong in a file or on the command line; line and column count from 1, 0 where there is none."""

    what: str
    where: str = ""
    line: int = 0
    column: int = 0
    hint: str | None = None

    def __str__(self) -> str:
        """Return `file:line:col: what`, with the hint on a line of its own."""
        place = f"{self.where}:{self.line}:{self.column}" if self.line else self.where
        said = f"{place}: {self.what}" if place else self.what
        return f"{said}\n  hint: {self.hint}" if self.hint else said


class SpecError(LaunchError):
    """The task, the inventory or the command line is wrong; carries every mistake found, in file order."""

    code = ExitCode.USAGE

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        first = mistakes[0].what if mistakes else "nothing to read"
        super().__init__(first, hints=tuple(m.hint for m in mistakes if m.hint))
        self.mistakes = mistakes


def refuse(what: str, *, hint: str | None = None, where: str = "") -> NoReturn:
    """Raise SpecError for one mistake in what was asked for."""
    raise SpecError((Mistake(what=what, hint=hint, where=where),))


class NoCapacityError(LaunchError):
    """It cannot be placed now."""

    code = ExitCode.NO_CAPACITY

    def __init__(self, shortfall: "Shortfall") -> None:
        super().__init__(f"group `{shortfall.group}` does not fit")
        self.shortfall = shortfall


class RemoteError(LaunchError):
    """One operation on one machine went wrong: unreachable, refused, timed out, or the command failed."""

    code = ExitCode.REMOTE

    def __init__(
        self,
        message: str,
        *,
        node: str,
        stage: str,
        elapsed: float = 0.0,
        tail: tuple[str, ...] = (),
        hints: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, hints=hints)
        self.node = node
        self.stage = stage
        self.elapsed = elapsed
        self.tail = tail


class ProvisionError(LaunchError):
    """Some nodes could not be made ready; `outcomes` has the words for each, folded by the renderer."""

    code = ExitCode.REMOTE

    def __init__(self, message: str, *, outcomes: tuple[tuple[str, str], ...], hints: tuple[str, ...] = ()) -> None:
        super().__init__(message, hints=hints)
        self.outcomes = outcomes


class RecoveryExhaustedError(LaunchError):
    """The attempts of nodes and the spares are gone."""

    code = ExitCode.EXHAUSTED


class LeaseHeldError(LaunchError):
    """Someone else owns these nodes or this run."""

    code = ExitCode.LEASE_HELD

    def __init__(self, message: str, *, holder: str, hints: tuple[str, ...] = ()) -> None:
        super().__init__(message, hints=hints)
        self.holder = holder


class StoreError(LaunchError):
    """What is known of runs can be neither read nor kept for now; the same may work in a while."""

    code = ExitCode.REMOTE


class OtherVersionError(LaunchError):
    """What is kept of a run has words that only another version of the program knows."""

    code = ExitCode.REMOTE

    def __init__(self, run: str) -> None:
        super().__init__(
            f"run `{run}` was written by another version of nvlaunch, and this one cannot read it",
            hints=(
                "drive it with the version that started it, or a newer one",
                "its nodes go on meanwhile; on each of them, `doctor` and the lease file show what is left of it",
            ),
        )
        self.run = run


class JobFailedError(LaunchError):
    """The program of the run failed, by its own doing."""

    code = ExitCode.JOB_FAILED
