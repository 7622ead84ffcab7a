"""What was decided, done and answered in a run, in order. Entries are only ever added."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from launcher.core.model.action_key import key_of
from launcher.core.model.actions import Action, Answer, Receipt, Result
from launcher.core.model.run import RunId
from launcher.store.codec import dump, load, storable

_NEXT = "SELECT coalesce(max(seq), 0) + 1 FROM journal WHERE run = ?"
_ADD = """INSERT INTO journal (run, seq, at, kind, subject, message, reason, receipt, times, evidence)
    VALUES (:run, :seq, :at, :kind, :subject, :message, :reason, :receipt, :times, :evidence)"""
_LAST = """SELECT seq, message, times FROM journal
    WHERE run = ? AND subject = ? AND kind = 'receipt' ORDER BY seq DESC LIMIT 1"""

FOLD = 3
"""How often in a row one action ends with the same words before further tries replace the last one in the journal: a
node that stays out of reach for a week must not fill it."""


_FAILURES = (Result.FAILED, Result.CANNOT_TELL)


class EventKind(Enum):
    """What an entry of the journal is about."""

    QUEUED = "queued"
    LAUNCHED = "launched"
    STATUS = "status"
    INTENT = "intent"
    RECEIPT = "receipt"
    WARNING = "warning"
    WANTED = "wanted"
    REQUESTED = "requested"
    DRIVEN = "driven"
    NODE_FAILED = "node-failed"
    READMITTED = "readmitted"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class OtherKind:
    """What an entry is about that another version of the program wrote; `value` is its word for that."""

    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An entry of the journal as people read it; `at` in seconds since the epoch, `reason` empty where none is.

    `times` is how often a receipt came back with the same words, once such receipts are not kept one by one;
    `evidence` the lines that show what went wrong.
    """

    seq: int
    at: float
    kind: EventKind | OtherKind
    subject: str
    message: str
    reason: str
    times: int = 1
    evidence: tuple[str, ...] = ()


def add(
    db: sqlite3.Connection,
    run: RunId,
    kind: EventKind,
    at: float,
    *,
    subject: str,
    message: str,
    reason: str = "",
    evidence: Sequence[str] = (),
) -> None:
    """Write one entry in the current transaction; its number is one more than the last of the run."""
    _add(
        db,
        run=run,
        seq=_next(db, run),
        kind=kind.value,
        at=at,
        subject=subject,
        message=storable(message),
        reason=reason,
        evidence=_lines(evidence),
    )


def add_intents(db: sqlite3.Connection, run: RunId, actions: Sequence[Action], at: float) -> None:
    """Write what is about to be done, and why; not again what has failed alike, time after time."""
    kind = EventKind.INTENT.value
    news = [action for action in actions if (last := _last(db, run, action)) is None or last["times"] < FOLD]
    rows = [
        (run, seq, at, kind, str(key_of(action)), action.reason.message, action.reason.why.value)
        for seq, action in enumerate(news, start=_next(db, run))
    ]
    query = "INSERT INTO journal (run, seq, at, kind, subject, message, reason) VALUES (?, ?, ?, ?, ?, ?, ?)"
    db.executemany(query, rows)


def add_receipt(db: sqlite3.Connection, run: RunId, action: Action, answer: Answer, at: float) -> Receipt:
    """Write what came of an action; return it with its number. Of many alike in a row the last is kept, and counted."""
    receipt = Receipt(seq=_next(db, run), at=at, action=action, answer=answer)
    last = _last(db, run, action)
    alike = last is not None and last["message"] == answer.said and answer.result in _FAILURES
    again = last["times"] + 1 if last is not None and alike else 1
    if last is not None and again > FOLD:
        db.execute("DELETE FROM journal WHERE run = ? AND seq = ?", (run, last["seq"]))
    _add(
        db,
        run=run,
        seq=receipt.seq,
        kind=EventKind.RECEIPT.value,
        at=at,
        subject=str(key_of(action)),
        message=answer.said,
        reason=action.reason.why.value,
        receipt=dump(Receipt, receipt),
        times=again,
        evidence=_lines(answer.tail),
    )
    for message in answer.warnings:
        add(db, run, EventKind.WARNING, at, subject=str(key_of(action)), message=message)
    return receipt


def read_receipt(row: sqlite3.Row) -> Receipt:
    """Return the receipt that a row of the journal holds."""
    return load(Receipt, row["receipt"])


def read_event(row: sqlite3.Row) -> Event:
    """Return a row of the journal as people read it."""
    return Event(
        seq=row["seq"],
        at=row["at"],
        kind=_KINDS.get(row["kind"]) or OtherKind(row["kind"]),
        subject=row["subject"],
        message=row["message"],
        reason=row["reason"],
        times=row["times"],
        evidence=tuple(row["evidence"].splitlines()),
    )


_KINDS = {kind.value: kind for kind in EventKind}


def _next(db: sqlite3.Connection, run: RunId) -> int:
    return int(db.execute(_NEXT, (run,)).fetchone()[0])


def _add(db: sqlite3.Connection, **values: object) -> None:
    db.execute(_ADD, {"receipt": None, "times": 1, "evidence": "", **values})


def _lines(evidence: Sequence[str]) -> str:
    return storable("\n".join(evidence))


def _last(db: sqlite3.Connection, run: RunId, action: Action) -> sqlite3.Row | None:
    """Return the newest receipt of an action."""
    row: sqlite3.Row | None = db.execute(_LAST, (run, str(key_of(action)))).fetchone()
    return row
