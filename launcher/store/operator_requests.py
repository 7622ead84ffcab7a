"""Operator requests to runs, numbered, for their controllers."""

import sqlite3

from launcher.core.model.operator_requests import OperatorRequest, RequestKind
from launcher.core.model.run import RunId
from launcher.store import journal
from launcher.store.codec import storable
from launcher.store.database import Database
from launcher.store.journal import EventKind
from launcher.store.rows import readable

_NEXT = "SELECT coalesce(max(seq), 0) + 1 AS seq FROM operator_requests WHERE run = ?"


class Requests:
    """The operator requests of one `$NVLAUNCH_HOME`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, run: RunId, kind: RequestKind, *, subject: str = "", by: str, at: float) -> OperatorRequest:
        """Store a request to a run; return it with its number."""
        with self._db.write() as db:
            return add(db, run, kind, subject=subject, by=by, at=at)

    def after(self, run: RunId, seq: int) -> tuple[OperatorRequest, ...]:
        """Return the requests to a run with numbers above `seq`, in order.

        OtherVersionError for an unknown kind.
        """
        rows = self._db.read("SELECT * FROM operator_requests WHERE run = ? AND seq > ? ORDER BY seq", run, seq)
        with readable(run):
            return tuple(
                OperatorRequest(
                    seq=row["seq"],
                    at=row["at"],
                    kind=RequestKind(row["kind"]),
                    subject=row["subject"],
                    by=row["author"],
                )
                for row in rows
            )


def add(db: sqlite3.Connection, run: RunId, kind: RequestKind, *, subject: str, by: str, at: float) -> OperatorRequest:
    """Store a request to a run, in the current transaction."""
    seq = int(db.execute(_NEXT, (run,)).fetchone()["seq"])
    request = OperatorRequest(seq=seq, at=at, kind=kind, subject=storable(subject), by=storable(by))
    db.execute(
        "INSERT INTO operator_requests VALUES (?, ?, ?, ?, ?, ?)",
        (run, seq, at, kind.value, request.subject, request.by),
    )
    named = f"{kind.value.replace('_', '-')}:{request.subject}" if subject else kind.value.replace("_", "-")
    journal.add(db, run, EventKind.REQUESTED, at, subject=named, message=f"requested by {request.by}")
    return request
