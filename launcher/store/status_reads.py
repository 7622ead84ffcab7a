"""Runs as `status` shows them. Imports little, so that `status` starts fast."""

import difflib
import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.errors import Mistake, SpecError, StoreError
from launcher.store.codec import storable
from launcher.store.database import Database
from launcher.store.owner import Owner

# By id, else the newest of a name.
MATCH = "WHERE id = ? OR name = ? ORDER BY id = ? DESC, created DESC, runs.rowid DESC LIMIT 1"

_SHOWN = """
SELECT id, name, snapshot, user, submit_host, created, ended, host, boot, pid, started
FROM runs LEFT JOIN owners ON owners.run = runs.id
"""

_TOUCH = """
UPDATE runs SET snapshot = CASE WHEN snapshot LIKE '% ' THEN rtrim(snapshot) ELSE snapshot || ' ' END WHERE id = ?
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredStatus:
    """One run: RunStatus as JSON, user, and whether it has a live controller."""

    id: str
    name: str
    snapshot: str
    user: str
    submit_host: str
    created: float
    ended: bool
    driven: bool

    def plain(self) -> dict[str, Any]:
        """Return the run as `status -o json` writes it.

        ValueError where the snapshot is not a JSON object.
        """
        snapshot = json.loads(self.snapshot)
        if not isinstance(snapshot, dict):
            raise ValueError("the snapshot of a run is not a JSON object")
        return {**snapshot, "user": self.user, "submit_host": self.submit_host, "driven": self.driven}


class StatusReader:
    """Reads the runs of one `$NVLAUNCH_HOME`."""

    def __init__(self, home: Path) -> None:
        self._db = Database(home)

    def all(self) -> tuple[StoredStatus, ...]:
        """Return all runs, oldest first."""
        return tuple(_shown(row) for row in self._db.read(f"{_SHOWN} ORDER BY created, runs.rowid"))

    def find(self, word: str) -> StoredStatus:
        """Return the run with this id, else the newest with this name.

        SpecError, with the closest name, for none.
        """
        text = storable(word)
        for row in self._db.read(f"{_SHOWN} {MATCH}", text, text, text):
            return _shown(row)
        raise unknown_run(word, names(self._db))

    def trouble(self, run: str) -> str | None:
        """Return why nothing can be stored now, as on a full disk; None where it can.

        The snapshot of a run is written with or without a blank at its end: SQLite writes nothing that is the same.
        """
        try:
            with self._db.write(durable=False) as db:
                db.execute(_TOUCH, (run,))
        except StoreError as error:
            return error.advice
        return None

    def names(self) -> tuple[str, ...]:
        """Return the names of all runs, in order."""
        return names(self._db)


def names(db: Database) -> tuple[str, ...]:
    """Return the names of all runs, in order."""
    return tuple(row["name"] for row in db.read("SELECT DISTINCT name FROM runs ORDER BY name"))


def unknown_run(word: str, known: Iterable[str]) -> SpecError:
    """Return the error for an unknown run, with the closest known name."""
    close = difflib.get_close_matches(word, known, n=1)
    hint = f"did you mean `{close[0]}`?" if close else "`nvlaunch status` lists the runs"
    return SpecError((Mistake(what=f"no run is named `{word}`", hint=hint),))


def _shown(row: sqlite3.Row) -> StoredStatus:
    driven = (
        row["host"] is not None
        and Owner(host=row["host"], boot=row["boot"], pid=row["pid"], started=row["started"]).alive()
    )
    return StoredStatus(
        id=row["id"],
        name=row["name"],
        snapshot=row["snapshot"],
        user=row["user"],
        submit_host=row["submit_host"],
        created=row["created"],
        ended=row["ended"] is not None,
        driven=driven,
    )
