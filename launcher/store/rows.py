"""A row of the `runs` table, read without its task, placement and record."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from launcher.core.model.record import Outcome, Record
from launcher.core.model.run import Cause, Run, RunId, RunName, RunState, Wanted
from launcher.errors import OtherVersionError
from launcher.store.codec import load
from launcher.store.owner import Owner
from launcher.store.user import User

RUN_ROWS = """
SELECT id, name, state, wanted, fleet, source, user, submit_host, created, ended, status_message, snapshot, outcome,
       host, boot, pid, started
FROM runs LEFT JOIN owners ON owners.run = runs.id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run in brief.

    `snapshot` is its RunStatus as JSON, `source` the task file, `owner` the process that drives it.

    Times are seconds since the epoch.
    """

    id: RunId
    name: RunName
    state: RunState
    wanted: Wanted
    status_message: str
    outcome: Outcome | None
    snapshot: str
    owner: Owner | None
    created: float
    ended: float | None
    fleet: str
    source: str
    user: User


def read_run_row(row: sqlite3.Row) -> RunRow:
    """Return a row of `RUN_ROWS`.

    OtherVersionError where it has values that this version does not know.
    """
    with readable(row["id"]):
        return _run_row(row)


@contextmanager
def readable(run: str) -> Iterator[None]:
    """Raise OtherVersionError for values of a run that cannot be read in this block."""
    try:
        yield
    except (
        ValueError,
        LookupError,
        TypeError,
    ) as error:  # enum members, JSON and pydantic; missing fields; other types
        raise OtherVersionError(run) from error


def _run_row(row: sqlite3.Row) -> RunRow:
    return RunRow(
        id=RunId(row["id"]),
        name=RunName(row["name"]),
        state=RunState(row["state"]),
        wanted=Wanted(row["wanted"]),
        status_message=row["status_message"],
        outcome=read_outcome(row["outcome"]),
        snapshot=row["snapshot"],
        owner=read_owner(row),
        created=row["created"],
        ended=row["ended"],
        fleet=row["fleet"],
        source=row["source"],
        user=User(name=row["user"], host=row["submit_host"]),
    )


def read_run(row: sqlite3.Row) -> tuple[Run, Record]:
    """Return the run of a row, with its current `wanted`, and its record.

    OtherVersionError where they have values that this version does not know.
    """
    with readable(row["id"]):
        run = replace(load(Run, row["run"]), wanted=Wanted(row["wanted"]))
        return run, load(Record, row["record"])


def read_owner(row: sqlite3.Row) -> Owner | None:
    """Return the owner from a row with the columns of `owners`.

    None where they are NULL.
    """
    if row["host"] is None:
        return None
    return Owner(host=row["host"], boot=row["boot"], pid=row["pid"], started=row["started"])


def read_outcome(text: str | None) -> Outcome | None:
    """Return a stored outcome; without the codec, which takes long to import."""
    if text is None:
        return None
    plain = json.loads(text)
    return Outcome(**{**plain, "cause": Cause(plain["cause"]), "tail": tuple(plain["tail"])})
