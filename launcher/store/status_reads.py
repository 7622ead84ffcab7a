"""Runs as `status` shows them: the snapshots that were made for it. Light: nothing that decides is imported to read."""

import difflib
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from launcher.errors import Mistake, SpecError
from launcher.store.codec import storable
from launcher.store.database import Database
from launcher.store.owner import Owner

# By id, else the newest of a name.
MATCH = "WHERE id = ? OR name = ? ORDER BY id = ? DESC, created DESC, runs.rowid DESC LIMIT 1"

_SHOWN = """
SELECT id, name, snapshot, created, ended, host, boot, pid, started
FROM runs LEFT JOIN owners ON owners.run = runs.id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One run: its snapshot is the JSON of `status -o json`; `driven` says whether a live process looks after it."""

    id: str
    name: str
    snapshot: str
    created: float
    over: bool
    driven: bool


class Shelf:
    """The snapshots of one `$NVLAUNCH_HOME`, to read."""

    def __init__(self, home: Path) -> None:
        self._db = Database(home)

    def all(self) -> tuple[Shown, ...]:
        """Return every run, the oldest first."""
        return tuple(_shown(row) for row in self._db.read(f"{_SHOWN} ORDER BY created, runs.rowid"))

    def find(self, word: str) -> Shown:
        """Return the run of an id, or the newest of a name; SpecError, with what may have been meant."""
        text = storable(word)
        for row in self._db.read(f"{_SHOWN} {MATCH}", text, text, text):
            return _shown(row)
        raise unknown_run(word, names(self._db))

    def names(self) -> tuple[str, ...]:
        """Return the names of all runs, in order."""
        return names(self._db)


def names(db: Database) -> tuple[str, ...]:
    """Return the names that runs have or had, in order."""
    return tuple(row["name"] for row in db.read("SELECT DISTINCT name FROM runs ORDER BY name"))


def unknown_run(word: str, known: Iterable[str]) -> SpecError:
    """Return the error for a run that is not there, with the nearest name that is."""
    close = difflib.get_close_matches(word, known, n=1)
    hint = f"did you mean `{close[0]}`?" if close else "`nvlaunch status` lists the runs"
    return SpecError((Mistake(what=f"no run is named `{word}`", hint=hint),))


def _shown(row: sqlite3.Row) -> Shown:
    driven = (
        row["host"] is not None
        and Owner(host=row["host"], boot=row["boot"], pid=row["pid"], started=row["started"]).alive()
    )
    return Shown(
        id=row["id"],
        name=row["name"],
        snapshot=row["snapshot"],
        created=row["created"],
        over=row["ended"] is not None,
        driven=driven,
    )
