"""The inputs and the result of each decision of a run, for `replay`.

Compressed, and bounded in number.

A tick that changed nothing is not stored.
"""

import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from launcher.core.control.reconcile import Decision
from launcher.core.model.actions import Action
from launcher.core.model.observation import Observation
from launcher.core.model.record import Record
from launcher.core.model.run import Run, RunId, RunState
from launcher.errors import LaunchError
from launcher.store.codec import dump, load
from launcher.store.database import Database
from launcher.store.journal import to_store

FIRST, NEWEST = 200, 1000
"""How many decisions of a run are stored: the first ones, and the newest."""

_PRUNE = "DELETE FROM decisions WHERE run = ? AND seq > ? AND seq <= ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """The part of a decision that `replay` compares."""

    actions: tuple[Action, ...]
    record: Record
    status_message: str
    state: RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedDecision:
    """One decision with its inputs. `seen` has the new receipts and requests."""

    run: Run
    seen: Observation
    record: Record
    made: Made


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """A decision as it is stored, without its run, which seldom changes."""

    seen: Observation
    record: Record
    made: Made


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedDecision:
    """A stored decision that cannot be read: its number, and why."""

    seq: int
    message: str


def made_of(decision: Decision) -> Made:
    """Return the part of a decision that is stored and compared."""
    return Made(
        actions=tuple(map(to_store, decision.actions)),
        record=decision.record,
        status_message=decision.status_message,
        state=decision.state,
    )


def logged(run: Run, seen: Observation, record: Record, decision: Decision) -> LoggedDecision:
    """Return what to store of a decision."""
    return LoggedDecision(run=run, seen=seen, record=record, made=made_of(decision))


class DecisionLog:
    """The decisions of the runs of one `$NVLAUNCH_HOME`."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._versions: dict[RunId, tuple[Run, int]] = {}

    def add(self, db: sqlite3.Connection, decision: LoggedDecision, at: float) -> None:
        """Store a decision in the current transaction; `at` is wall-clock time (s)."""
        run = decision.run.id
        last = db.execute("SELECT coalesce(max(seq), 0) AS seq FROM decisions WHERE run = ?", (run,)).fetchone()
        seq = int(last["seq"]) + 1
        packed = _pack(dump(_Stored, _Stored(seen=decision.seen, record=decision.record, made=decision.made)))
        db.execute(
            "INSERT INTO decisions VALUES (?, ?, ?, ?, ?)", (run, seq, self._version(db, decision.run), at, packed)
        )
        db.execute(_PRUNE, (run, FIRST, seq - NEWEST))

    def forget(self, run: RunId) -> None:
        """Forget the cached version of a run, after a failed transaction."""
        self._versions.pop(run, None)

    def of(self, run: RunId) -> Iterator[LoggedDecision]:
        """Return the stored decisions of a run, in order.

        LaunchError for a damaged one, pydantic's ValidationError for one of another format.
        """
        for line in self.lines(run):
            if isinstance(line, DamagedDecision):
                hint = "replay the others: `nvlaunch report` leaves it out, and `nvlaunch replay` reads the report"
                raise LaunchError(
                    f"decision {line.seq} of `{run}` is damaged in the store: {line.message}", hints=(hint,)
                )
            yield read_line(line)

    def lines(self, run: RunId) -> Iterator[str | DamagedDecision]:
        """Return the same as lines of JSON, which `report` writes and `replay` reads."""
        rows = self._db.read("SELECT seq, value FROM run_versions WHERE run = ?", run)
        versions = {row["seq"]: row["value"] for row in rows}
        query = "SELECT seq, run_version, decision FROM decisions WHERE run = ? ORDER BY seq"
        for row in self._db.read(query, run):
            try:
                yield f'{{"run":{_unpack(versions[row["run_version"]])},{_unpack(row["decision"])[1:]}'
            except (zlib.error, UnicodeDecodeError, TypeError) as error:  # TypeError: the value is not bytes
                yield DamagedDecision(seq=row["seq"], message=str(error).lower())
            except KeyError:
                yield DamagedDecision(seq=row["seq"], message="its version of the run is missing")

    def _version(self, db: sqlite3.Connection, run: Run) -> int:
        """Return the number of the stored version of a run, and store it where it is new."""
        before = self._versions.get(run.id)
        if before is None or before[0] != run:
            row = db.execute(
                "SELECT coalesce(max(seq), 0) AS seq FROM run_versions WHERE run = ?", (run.id,)
            ).fetchone()
            seq = int(row["seq"]) + 1
            db.execute("INSERT INTO run_versions VALUES (?, ?, ?)", (run.id, seq, _pack(dump(Run, run))))
            self._versions[run.id] = run, seq
        return self._versions[run.id][1]


def read_line(line: str) -> LoggedDecision:
    """Return the decision in a line of `DecisionLog.lines`.

    Pydantic's ValidationError for anything else.
    """
    return load(LoggedDecision, line)


def read_lines(lines: Iterable[str]) -> Iterator[LoggedDecision]:
    """Return the decisions in a file of such lines."""
    return (read_line(line) for line in lines if line.strip())


def _pack(text: str) -> bytes:
    return zlib.compress(text.encode(), level=1)


def _unpack(data: bytes) -> str:
    return zlib.decompress(data).decode()
