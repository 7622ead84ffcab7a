"""The journal of a run: decisions, actions and their results, in order.

Entries are only added.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from launcher.core.model.action_key import ActionKey, key_of, parse_key
from launcher.core.model.actions import Action, Start
from launcher.core.model.receipt import Answer, Receipt, Result
from launcher.core.model.run import RunId
from launcher.store.codec import dump, load, storable
from launcher.store.database import Database

_NEXT = "SELECT coalesce(max(seq), 0) + 1 FROM journal WHERE run = ?"
_ADD = """INSERT INTO journal (run, seq, at, kind, subject, message, reason, receipt, times, evidence)
    VALUES (:run, :seq, :at, :kind, :subject, :message, :reason, :receipt, :times, :evidence)"""
_LAST = """SELECT seq, message, times FROM journal
    WHERE run = ? AND subject = ? AND kind = 'receipt' ORDER BY seq DESC LIMIT 1"""
RECEIPTS = "SELECT receipt FROM journal WHERE run = ? AND seq > ? AND receipt IS NOT NULL ORDER BY seq"

FOLD = 3
"""After so many equal failures of one action in a row, further ones replace the last entry: a node that is unreachable
for a week must not fill the journal."""


LAST_SEQ = 2**63 - 1
"""The highest number of an entry."""

_FAILURES = (Result.FAILED, Result.CANNOT_TELL)


class EventKind(Enum):
    """The kind of a journal entry."""

    QUEUED = "queued"
    LAUNCHED = "launched"
    STATUS = "status"
    INTENT = "intent"
    RECEIPT = "receipt"
    WARNING = "warning"
    REQUESTED = "requested"
    DRIVEN = "driven"
    NODE_FAILED = "node-failed"
    READMITTED = "readmitted"
    ENDED = "ended"


class OtherKind(str):
    """The kind of an entry that another version wrote, as text."""

    __slots__ = ()

    @property
    def value(self) -> str:
        """Return the text, as an enum would."""
        return str(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An entry of the journal.

    `at` is seconds since the epoch, `reason` the code of an action's reason, or empty.

    `times` counts equal receipts that were folded into one entry; `evidence` has the log lines that show a failure.
    """

    seq: int
    at: float
    kind: EventKind | OtherKind
    subject: str
    message: str
    reason: str
    times: int = 1
    evidence: tuple[str, ...] = ()

    @property
    def action(self) -> ActionKey | None:
        """Return the action of an intent or a receipt.

        None for other entries, and for an action that only another version knows.
        """
        return parse_key(self.subject) if self.kind in (EventKind.INTENT, EventKind.RECEIPT) else None


class Journal:
    """The journals of the runs of one `$NVLAUNCH_HOME`.

    Decisions and receipts are written by `Store`.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    def events(self, run: RunId, after: int = 0, until: int = LAST_SEQ) -> tuple[Event, ...]:
        """Return the entries of a run above `after` and up to `until`, in order."""
        query = "SELECT * FROM journal WHERE run = ? AND seq > ? AND seq <= ? ORDER BY seq"
        return tuple(read_event(row) for row in self._db.read(query, run, after, until))

    def last(self, run: RunId) -> int:
        """Return the number of the newest entry of a run; 0 where it has none."""
        query = "SELECT coalesce(max(seq), 0) AS seq FROM journal WHERE run = ?"
        return next(int(row["seq"]) for row in self._db.read(query, run))

    def warn(self, run: RunId, subject: str, message: str, at: float) -> None:
        """Add a warning, which a person should look into."""
        with self._db.write() as db:
            add(db, run, EventKind.WARNING, at, subject=subject, message=message)

    def hook_position(self, run: RunId) -> int:
        """Return the number of the last entry that the hook of a run was told.

        0 before the first.
        """
        rows = self._db.read("SELECT seq FROM hook_positions WHERE run = ?", run)
        return next((int(row["seq"]) for row in rows), 0)

    def set_hook_position(self, run: RunId, seq: int) -> None:
        """Store up to which entry the hook was told.

        After a power cut an entry may be told again.
        """
        with self._db.write(durable=False) as db:
            db.execute("INSERT OR REPLACE INTO hook_positions VALUES (?, ?)", (run, seq))


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
    """Add an entry in the current transaction.

    Its number is one more than the last of the run.
    """
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
    """Add an entry for each action that is about to begin.

    None for one that has failed alike many times.
    """
    kind = EventKind.INTENT.value
    news = [action for action in actions if (last := _last(db, run, action)) is None or last["times"] < FOLD]
    rows = [
        (run, seq, at, kind, str(key_of(action)), action.reason.message, action.reason.why.value)
        for seq, action in enumerate(news, start=_next(db, run))
    ]
    query = "INSERT INTO journal (run, seq, at, kind, subject, message, reason) VALUES (?, ?, ?, ?, ?, ?, ?)"
    db.executemany(query, rows)


def add_receipts(
    db: sqlite3.Connection, run: RunId, ended: Sequence[tuple[Action, Answer]], at: float
) -> tuple[Receipt, ...]:
    """Add the answers to actions.

    Return the receipts. Equal failures in a row are folded into one entry.
    """
    seq, receipts = _next(db, run), []
    for action, answer in ended:
        receipts.append(_add_receipt(db, run, seq, action, answer, at))
        seq += 1 + len(answer.warnings)
    return tuple(receipts)


def _add_receipt(db: sqlite3.Connection, run: RunId, seq: int, action: Action, answer: Answer, at: float) -> Receipt:
    receipt = Receipt(seq=seq, at=at, action=to_store(action), answer=answer)
    last = _last(db, run, action) if answer.result in _FAILURES else None
    alike = last is not None and last["message"] == answer.said
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


def to_store(action: Action) -> Action:
    """Return an action without what is stored in the record.

    A start has all slots of the run; where each rank starts by itself, there are as many starts as slots.
    """
    return replace(action, slots=()) if isinstance(action, Start) else action


def read_receipt(row: sqlite3.Row) -> Receipt:
    """Return the receipt in a row of the journal."""
    return load(Receipt, row["receipt"])


def read_event(row: sqlite3.Row) -> Event:
    """Return the event in a row of the journal."""
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
