"""All errors for users, each with its exit code and hints.

`cli/output/errors.py` makes text of them.

A message is one sentence: lower case, no full stop, names in backticks. It says what happened, and to what. A hint says
what to do.
"""

from dataclasses import dataclass, replace
from enum import IntEnum, unique
from typing import TYPE_CHECKING, ClassVar, NoReturn

if TYPE_CHECKING:  # its dataclasses take 10 ms, and every command imports this module
    from launcher.core.model.placement import Shortfall
    from launcher.core.planner.straddle import Straddling


@unique
class ExitCode(IntEnum):
    """The exit codes of the command; `docs/commands.md` lists the same."""

    SUCCESS = 0
    JOB_FAILED = 1
    USAGE = 2
    NO_CAPACITY = 3
    REMOTE = 4
    EXHAUSTED = 5
    CONFLICT = 6
    BUG = 70
    INTERRUPTED = 130


class LaunchError(Exception):
    """An error for users. Any other exception that escapes is a bug."""

    code: ClassVar[ExitCode] = ExitCode.REMOTE

    def __init__(self, message: str, *, hints: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hints = hints

    @property
    def advice(self) -> str:
        """Return the message and the hints in one line."""
        return "; ".join((self.message, *self.hints))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A mistake in a file or on the command line.

    Line and column count from 1, and are 0 where there is none.
    """

    what: str
    where: str = ""
    line: int = 0
    column: int = 0
    hint: str | None = None

    def __str__(self) -> str:
        """Return `file:line:column: what`, with the hint on a line of its own."""
        place = f"{self.where}:{self.line}:{self.column}" if self.line else self.where
        said = f"{place}: {self.what}" if place else self.what
        return f"{said}\n  hint: {self.hint}" if self.hint else said


class SpecError(LaunchError):
    """The task, the inventory or the command line is wrong.

    Has all mistakes, in file order, and the warnings about the same file.
    """

    code = ExitCode.USAGE

    def __init__(self, mistakes: tuple[Mistake, ...], warnings: tuple[Mistake, ...] = ()) -> None:
        first = str(replace(mistakes[0], hint=None)) if mistakes else "nothing to read"
        super().__init__(first, hints=tuple(m.hint for m in mistakes if m.hint))
        self.mistakes = mistakes
        self.warnings = warnings


def refuse(what: str, *, hint: str | None = None, where: str = "") -> NoReturn:
    """Raise SpecError for one mistake in what was asked for."""
    raise SpecError((Mistake(what=what, hint=hint, where=where),))


class NoCapacityError(LaunchError):
    """The task does not fit now.

    `shortfall` says why, and what would help, which are the hints; `straddling` says what slices across racks would
    cost instead.
    """

    code = ExitCode.NO_CAPACITY

    def __init__(self, shortfall: "Shortfall", straddling: "tuple[Straddling, ...]" = ()) -> None:
        super().__init__(f"group `{shortfall.group}` does not fit", hints=shortfall.suggestions)
        self.shortfall = shortfall
        self.straddling = straddling


class OverLimitError(LaunchError):
    """Room takes more moves, or dearer ones, than the caller allows."""

    code = ExitCode.NO_CAPACITY


class RemoteError(LaunchError):
    """An operation on one machine failed.

    Unreachable, refused, timed out, or a command failed.
    """

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
    """Some nodes could not be prepared; `outcomes` has the message for each node."""

    code = ExitCode.REMOTE

    def __init__(self, message: str, *, outcomes: tuple[tuple[str, str], ...], hints: tuple[str, ...] = ()) -> None:
        super().__init__(message, hints=hints)
        self.outcomes = outcomes


class RecoveryExhaustedError(LaunchError):
    """A run failed because it had no node or restart left."""

    code = ExitCode.EXHAUSTED


class ConflictError(LaunchError):
    """Something else uses what is needed, a node, a name or a run; `holder` says what."""

    code = ExitCode.CONFLICT

    def __init__(self, message: str, *, holder: str, hints: tuple[str, ...] = ()) -> None:
        super().__init__(message, hints=hints)
        self.holder = holder


class StoreError(LaunchError):
    """The store of runs cannot be read or written now; trying again may help."""

    code = ExitCode.REMOTE


class OtherVersionError(LaunchError):
    """The stored values of a run can only be read by another version."""

    code = ExitCode.REMOTE

    def __init__(self, run: str) -> None:
        super().__init__(
            f"run `{run}` was written by another version of nvlaunch, and cannot be read by this one",
            hints=(
                "use the version that started it, or a newer one",
                "its nodes continue; `nvlaunch doctor -o json` shows their leases",
            ),
        )
        self.run = run


class JobFailedError(LaunchError):
    """The program of the run failed."""

    code = ExitCode.JOB_FAILED
