"""What was decided, done and answered in a run, in order. Entries are only ever added."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from launcher.core.actions import Action, Answer, Receipt
from launcher.core.run import RunId
from launcher.store.codec import dump, load

_NEXT = "SELECT coalesce(max(seq), 0) + 1 FROM journal WHERE run = ?"
_ADD = "INSERT INTO journal VALUES (:run, :seq, :at, :kind, :subject, :words, :reason, :receipt)"


class EventKind(Enum):
    """What an entry of the journal is about."""

    LAUNCHED = "launched"
    HEADLINE = "headline"
    INTENT = "intent"
    RECEIPT = "receipt"
    WARNING = "warning"
    WANTED = "wanted"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An entry of the journal as people read it; `at` in seconds since the epoch, `reason` empty where none is."""

    seq: int
    at: float
    kind: EventKind
    subject: str
    words: str
    reason: str


def add(
    db: sqlite3.Connection,
    run: RunId,
    kind: EventKind,
    at: float,
    *,
    subject: str,
    words: str,
    reason: str = "",
) -> None:
    """Write one entry in the current transaction; its number is one more than the last of the run."""
    _add(db, run=run, seq=_next(db, run), kind=kind.value, at=at, subject=subject, words=words, reason=reason)


def add_intents(db: sqlite3.Connection, run: RunId, actions: Sequence[Action], at: float) -> None:
    """Write what is about to be done, and why."""
    kind = EventKind.INTENT.value
    rows = [
        (run, seq, at, kind, action.key, action.reason.words, action.reason.why.value)
        for seq, action in enumerate(actions, start=_next(db, run))
    ]
    db.executemany("INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, NULL)", rows)


def add_receipt(db: sqlite3.Connection, run: RunId, action: Action, answer: Answer, at: float) -> Receipt:
    """Write what came of an action; answer it with its number."""
    receipt = Receipt(seq=_next(db, run), at=at, action=action, answer=answer)
    _add(
        db,
        run=run,
        seq=receipt.seq,
        kind=EventKind.RECEIPT.value,
        at=at,
        subject=action.key,
        words=answer.said,
        reason=action.reason.why.value,
        receipt=dump(Receipt, receipt),
    )
    for words in answer.warnings:
        add(db, run, EventKind.WARNING, at, subject=action.key, words=words)
    return receipt


def read_receipt(row: sqlite3.Row) -> Receipt:
    """Answer the receipt that a row of the journal holds."""
    return load(Receipt, row["receipt"])


def read_event(row: sqlite3.Row) -> Event:
    """Answer a row of the journal as people read it."""
    return Event(
        seq=row["seq"],
        at=row["at"],
        kind=EventKind(row["kind"]),
        subject=row["subject"],
        words=row["words"],
        reason=row["reason"],
    )


def _next(db: sqlite3.Connection, run: RunId) -> int:
    return int(db.execute(_NEXT, (run,)).fetchone()[0])


def _add(db: sqlite3.Connection, **values: object) -> None:
    db.execute(_ADD, {"receipt": None, **values})
