"""How a followed run ended: a message, the last log lines, and the exit code."""

import re
import sys

from launcher.cli.output.console import Colour, clean, paint, say
from launcher.core.model.record import Outcome
from launcher.core.model.run import Cause, RunState
from launcher.errors import (
    ConflictError,
    JobFailedError,
    LaunchError,
    ProvisionError,
    RecoveryExhaustedError,
)
from launcher.store.rows import RunRow

_NOT_FOUND = re.compile(r"([^\s:]+): (?:command )?not found$")
_HOW = {Cause.STOPPED: "was stopped", Cause.PREEMPTED: "was preempted"}


def conclude(row: RunRow) -> None:
    """Return where a run succeeded.

    Else show the last lines of the first failure, and raise the error of its cause.
    """
    outcome = row.outcome
    if outcome is None:
        raise JobFailedError(f"run `{row.name}` is {row.state.value}: {row.status_message}")
    if outcome.cause is Cause.SUCCESS:
        say(f"{paint('done', Colour.GOOD, sys.stderr)}: `{row.name}` succeeded: {clean(outcome.message)}")
        _warn_pending(row)
        return
    if outcome.tail:
        what = " on ".join(part for part in (outcome.member, outcome.node) if part) or row.name
        say(f"last lines of {clean(what)}:")
        for line in outcome.tail:
            say(clean(f"  | {line}"))
    _warn_pending(row)
    raise _error(row, outcome)


def _warn_pending(row: RunRow) -> None:
    if row.state is RunState.RELEASE_PENDING:
        say(f"not all nodes are released: {clean(row.status_message)}; the controller keeps trying")


def _error(row: RunRow, outcome: Outcome) -> LaunchError:
    words = f"`{row.name}` {_HOW.get(outcome.cause, 'failed')}: {outcome.message}"
    hints = (*_not_found(outcome), _look_at(row, outcome))
    match outcome.cause:
        case Cause.PROVISION:
            return ProvisionError(words, outcomes=(), hints=hints)
        case Cause.EXHAUSTED | Cause.NODE:
            return RecoveryExhaustedError(words, hints=hints)
        case Cause.LEASE_HELD:
            return ConflictError(words, holder=outcome.message, hints=hints)
        case Cause.PROGRAM:
            return JobFailedError(words, hints=hints)
        # The follower waited for another outcome; `down` itself exits with 0.
        case Cause.STOPPED | Cause.SUCCESS | Cause.PREEMPTED:
            return JobFailedError(words)
        case Cause.TIME_LIMIT:
            return JobFailedError(
                words,
                hints=(
                    "set a longer `time_limit`, or start it again with `nvlaunch up`: `NVLAUNCH_RUN` stays the same",
                ),
            )


def _not_found(outcome: Outcome) -> tuple[str, ...]:
    """Return where a command is looked for that a script did not find."""
    names = [found[1] for line in outcome.tail[-5:] if (found := _NOT_FOUND.search(line))]
    if not names:
        return ()
    where = "scripts have the PATH of a login, then of `~/.bashrc` as bash reads it"
    more = ", or write `python3`" if names[-1] == "python" else ""
    return (f"`{names[-1]}` was not found: {where}; install it, or set PATH in `setup` and `run`{more}",)


def _look_at(row: RunRow, outcome: Outcome) -> str:
    if outcome.cause is Cause.PROGRAM and outcome.member:
        return f"`nvlaunch logs {row.name} --rank {outcome.member}` shows its whole log"
    if outcome.cause is Cause.PROVISION:
        return f"`nvlaunch logs {row.name} --provision` shows how each node was prepared"
    return f"`nvlaunch events {row.name}` shows what was tried"
