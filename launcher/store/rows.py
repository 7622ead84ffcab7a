"""A run as its row in the store says, read without its task, placement or record."""

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

RUN_ROWS = """
SELECT id, name, state, wanted, fleet, source, created, ended, status_message, snapshot, outcome, host, boot, pid,
       started
FROM runs LEFT JOIN owners ON owners.run = runs.id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """What the list of runs shows. `snapshot` is the JSON of `status -o json`; times in seconds since the epoch;
    `source` the task file; `owner` the process that drives it, if any said so."""

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


def read_run_row(row: sqlite3.Row) -> RunRow:
    """Return a row of `RUN_ROWS`; OtherVersionError where it has words that this version does not know."""
    with readable(row["id"]):
        return _run_row(row)


@contextmanager
def readable(run: str) -> Iterator[None]:
    """Raise OtherVersionError, which names the run, where what was kept of it cannot be read in this block."""
    try:
        yield
    except (ValueError, LookupError, TypeError) as error:  # no such member, no JSON, pydantic's; no field; another kind
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
    )


def read_run(row: sqlite3.Row) -> tuple[Run, Record]:
    """Return the run of a row, with what is wanted of it now, and its record; OtherVersionError where it has words that
    this version does not know."""
    with readable(row["id"]):
        run = replace(load(Run, row["run"]), wanted=Wanted(row["wanted"]))
        return run, load(Record, row["record"])


def read_owner(row: sqlite3.Row) -> Owner | None:
    """Return the owner in a row that has its columns; None where they are empty."""
    if row["host"] is None:
        return None
    return Owner(host=row["host"], boot=row["boot"], pid=row["pid"], started=row["started"])


def read_outcome(text: str | None) -> Outcome | None:
    """Return a stored outcome. By hand, not by the codec: every `status` reads it, and must start fast."""
    if text is None:
        return None
    plain = json.loads(text)
    return Outcome(**{**plain, "cause": Cause(plain["cause"]), "tail": tuple(plain["tail"])})
