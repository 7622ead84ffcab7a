"""What each decision of a run was made of, so that it can be made again: the journal's inputs, compressed and bounded.

A tick that changed nothing is not kept: the kernel is silent when all is steady, and its record then stays the same.
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

HIDDEN = "<hidden>"
"""What stands in a look that was given away in place of each value that is nobody's business."""

FIRST, NEWEST = 200, 1000
"""How many looks of a run are kept: those at its beginning, and the newest. A short run is kept whole."""

_PRUNE = "DELETE FROM decisions WHERE run = ? AND seq > ? AND seq <= ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """The part of a decision that can be compared."""

    actions: tuple[Action, ...]
    record: Record
    status_message: str
    state: RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One decision with all that it was made of. `seen` has the receipts and orders that were new."""

    run: Run
    seen: Observation
    record: Record
    made: Made


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """A look as it is stored, its run apart: that changes seldom."""

    seen: Observation
    record: Record
    made: Made


@dataclass(frozen=True, slots=True, kw_only=True)
class Torn:
    """A decision that is kept but cannot be read: its number among those of the run, and why."""

    seq: int
    message: str


def look_of(run: Run, seen: Observation, record: Record, decision: Decision) -> Look:
    """Return what to keep of a decision."""
    made = Made(
        actions=decision.actions, record=decision.record, status_message=decision.status_message, state=decision.state
    )
    return Look(run=run, seen=seen, record=record, made=made)


class Looks:
    """The looks of the runs of one `$NVLAUNCH_HOME`."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._shapes: dict[RunId, tuple[Run, int]] = {}

    def keep(self, db: sqlite3.Connection, look: Look, at: float) -> None:
        """Keep a look in the current transaction; at a wall-clock time (s)."""
        run = look.run.id
        last = db.execute("SELECT coalesce(max(seq), 0) AS seq FROM decisions WHERE run = ?", (run,)).fetchone()
        seq = int(last["seq"]) + 1
        kept = _pack(dump(_Kept, _Kept(seen=look.seen, record=look.record, made=look.made)))
        db.execute("INSERT INTO decisions VALUES (?, ?, ?, ?, ?)", (run, seq, self._shape(db, look.run), at, kept))
        db.execute(_PRUNE, (run, FIRST, seq - NEWEST))

    def forget(self, run: RunId) -> None:
        """Believe no more that a run was kept: the transaction that wrote it may have come to nothing."""
        self._shapes.pop(run, None)

    def of(self, run: RunId) -> Iterator[Look]:
        """Return the looks of a run that are kept, in order; LaunchError for one that is damaged, pydantic's
        ValidationError for one of another format."""
        for line in self.lines(run):
            if isinstance(line, Torn):
                hint = "`nvlaunch report` leaves it out, and `nvlaunch replay` of the report makes the others again"
                raise LaunchError(
                    f"decision {line.seq} of `{run}` is damaged in the store: {line.message}", hints=(hint,)
                )
            yield read_line(line)

    def lines(self, run: RunId) -> Iterator[str | Torn]:
        """Return the same, each as a line of JSON, as `report` writes them and `replay` reads them."""
        shapes = {row["seq"]: row["shape"] for row in self._db.read("SELECT seq, shape FROM shapes WHERE run = ?", run)}
        for row in self._db.read("SELECT seq, shape, look FROM decisions WHERE run = ? ORDER BY seq", run):
            try:
                yield f'{{"run":{_unpack(shapes[row["shape"]])},{_unpack(row["look"])[1:]}'
            except (zlib.error, UnicodeDecodeError, TypeError) as error:  # the last for what is no bytes
                yield Torn(seq=row["seq"], message=str(error).lower())
            except KeyError:
                yield Torn(seq=row["seq"], message="the run as it was then is not there any more")

    def _shape(self, db: sqlite3.Connection, run: Run) -> int:
        """Return the number under which a run is kept as it is now."""
        before = self._shapes.get(run.id)
        if before is None or before[0] != run:
            row = db.execute("SELECT coalesce(max(seq), 0) AS seq FROM shapes WHERE run = ?", (run.id,)).fetchone()
            seq = int(row["seq"]) + 1
            db.execute("INSERT INTO shapes VALUES (?, ?, ?)", (run.id, seq, _pack(dump(Run, run))))
            self._shapes[run.id] = run, seq
        return self._shapes[run.id][1]


def read_line(line: str) -> Look:
    """Return the look that a line of `Looks.lines` holds; pydantic's ValidationError for anything else."""
    return load(Look, line)


def read_lines(lines: Iterable[str]) -> Iterator[Look]:
    """Return the looks of a file of such lines."""
    return (read_line(line) for line in lines if line.strip())


def _pack(text: str) -> bytes:
    return zlib.compress(text.encode(), level=1)


def _unpack(data: bytes) -> str:
    return zlib.decompress(data).decode()
