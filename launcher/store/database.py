"""The SQLite file in `$NVLAUNCH_HOME` and its transactions.

Safe for concurrent commands and for `kill -9`.
"""

import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from launcher.errors import LaunchError, Mistake, SpecError, StoreError
from launcher.store.home import FILE, make_private

BUSY_S = 30.0

_SCHEMA = """
CREATE TABLE runs (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL, wanted TEXT NOT NULL, fleet TEXT NOT NULL,
    source TEXT NOT NULL, user TEXT NOT NULL, submit_host TEXT NOT NULL, created REAL NOT NULL, ended REAL,
    status_message TEXT NOT NULL, run TEXT NOT NULL, record TEXT NOT NULL, snapshot TEXT NOT NULL, outcome TEXT
);
CREATE UNIQUE INDEX one_live_run_of_a_name ON runs (name) WHERE ended IS NULL;
CREATE TABLE claims (fleet TEXT NOT NULL, node TEXT NOT NULL, run TEXT NOT NULL, PRIMARY KEY (fleet, node));
CREATE INDEX claims_of_a_run ON claims (run);
CREATE TABLE owners (run TEXT PRIMARY KEY, host TEXT NOT NULL, boot TEXT NOT NULL, pid INTEGER NOT NULL,
    started INTEGER NOT NULL);
CREATE TABLE journal (run TEXT NOT NULL, seq INTEGER NOT NULL, at REAL NOT NULL, kind TEXT NOT NULL,
    subject TEXT NOT NULL, message TEXT NOT NULL, reason TEXT NOT NULL, receipt TEXT,
    times INTEGER NOT NULL DEFAULT 1, evidence TEXT NOT NULL DEFAULT '', PRIMARY KEY (run, seq));
CREATE INDEX journal_of_a_subject ON journal (run, subject, seq);
CREATE TABLE worlds (fleet TEXT PRIMARY KEY, world TEXT NOT NULL);
CREATE TABLE domains (fleet TEXT NOT NULL, node TEXT NOT NULL, domain TEXT NOT NULL, at REAL NOT NULL,
    PRIMARY KEY (fleet, node));
CREATE TABLE inventories (name TEXT NOT NULL, source TEXT NOT NULL, path TEXT NOT NULL, inventory TEXT NOT NULL,
    PRIMARY KEY (name, source));
CREATE TABLE operator_requests (run TEXT NOT NULL, seq INTEGER NOT NULL, at REAL NOT NULL, kind TEXT NOT NULL,
    subject TEXT NOT NULL, author TEXT NOT NULL, PRIMARY KEY (run, seq));
CREATE TABLE drains (fleet TEXT NOT NULL, node TEXT NOT NULL, reason TEXT NOT NULL, at REAL NOT NULL,
    author TEXT NOT NULL, PRIMARY KEY (fleet, node));
CREATE TABLE incidents (number INTEGER PRIMARY KEY, fleet TEXT NOT NULL, node TEXT NOT NULL, run TEXT NOT NULL,
    at REAL NOT NULL, kind TEXT NOT NULL, message TEXT NOT NULL, evidence TEXT NOT NULL);
CREATE INDEX incidents_of_a_node ON incidents (fleet, node);
CREATE TABLE quarantines (fleet TEXT NOT NULL, node TEXT NOT NULL, run TEXT NOT NULL, since REAL NOT NULL,
    message TEXT NOT NULL, released REAL, author TEXT NOT NULL, PRIMARY KEY (fleet, node));
CREATE TABLE run_versions (run TEXT NOT NULL, seq INTEGER NOT NULL, value BLOB NOT NULL, PRIMARY KEY (run, seq));
CREATE TABLE decisions (run TEXT NOT NULL, seq INTEGER NOT NULL, run_version INTEGER NOT NULL, at REAL NOT NULL,
    decision BLOB NOT NULL, PRIMARY KEY (run, seq));
CREATE TABLE hook_positions (run TEXT PRIMARY KEY, seq INTEGER NOT NULL);
CREATE TABLE exclusive_nodes (fleet TEXT NOT NULL, node TEXT NOT NULL, run TEXT NOT NULL,
    PRIMARY KEY (fleet, node, run));
CREATE TABLE unavailable (run TEXT NOT NULL, node TEXT NOT NULL, message TEXT NOT NULL, PRIMARY KEY (run, node));
CREATE TABLE queue_changes (number INTEGER NOT NULL);
INSERT INTO queue_changes VALUES (0);
CREATE TRIGGER queue_claimed AFTER INSERT ON claims COUNT;
CREATE TRIGGER queue_released AFTER DELETE ON claims COUNT;
CREATE TRIGGER queue_launched AFTER INSERT ON runs COUNT;
CREATE TRIGGER queue_changed AFTER UPDATE OF state, wanted, ended ON runs
    WHEN (OLD.state, OLD.wanted, OLD.ended) IS NOT (NEW.state, NEW.wanted, NEW.ended) COUNT;
CREATE TRIGGER queue_drained AFTER INSERT ON drains COUNT;
CREATE TRIGGER queue_undrained AFTER DELETE ON drains COUNT;
CREATE TRIGGER queue_quarantined AFTER INSERT ON quarantines COUNT;
CREATE TRIGGER queue_quarantine_changed AFTER UPDATE ON quarantines COUNT;
CREATE TRIGGER queue_requested AFTER INSERT ON operator_requests COUNT;
CREATE TRIGGER queue_unavailable AFTER INSERT ON unavailable COUNT;
CREATE TRIGGER queue_available AFTER DELETE ON unavailable COUNT;
""".replace("COUNT;", "BEGIN UPDATE queue_changes SET number = number + 1; END;")
# Every write that may change the queue increments `queue_changes`, which queued runs poll.

_MOVE_PLANS = """
CREATE TABLE move_plans (id TEXT PRIMARY KEY, fleet TEXT NOT NULL, beneficiary TEXT NOT NULL, user TEXT NOT NULL,
    submit_host TEXT NOT NULL, created REAL NOT NULL, expires REAL NOT NULL, state TEXT NOT NULL, message TEXT NOT NULL,
    spent REAL NOT NULL, steps TEXT NOT NULL, host TEXT NOT NULL, boot TEXT NOT NULL, pid INTEGER NOT NULL,
    started INTEGER NOT NULL);
CREATE TABLE reservations (fleet TEXT NOT NULL, node TEXT NOT NULL, plan TEXT NOT NULL, run TEXT NOT NULL,
    PRIMARY KEY (fleet, node));
CREATE INDEX reservations_of_a_plan ON reservations (plan);
CREATE TRIGGER queue_reserved AFTER INSERT ON reservations COUNT;
CREATE TRIGGER queue_unreserved AFTER DELETE ON reservations COUNT;
""".replace("COUNT;", "BEGIN UPDATE queue_changes SET number = number + 1; END;")
# Format 7.

_EVIDENCE_AND_CHECKS = """
CREATE TABLE program_failures (number INTEGER PRIMARY KEY, fleet TEXT NOT NULL, user TEXT NOT NULL, name TEXT NOT NULL,
    at REAL NOT NULL, failure TEXT NOT NULL);
CREATE INDEX program_failures_of_a_fleet ON program_failures (fleet);
CREATE TABLE check_results (number INTEGER PRIMARY KEY, fleet TEXT NOT NULL, node TEXT NOT NULL, rack TEXT NOT NULL,
    name TEXT NOT NULL, script TEXT NOT NULL, at REAL NOT NULL, size INTEGER NOT NULL, verdict TEXT NOT NULL,
    measured REAL, message TEXT NOT NULL);
CREATE INDEX check_results_of_a_node ON check_results (fleet, node, number);
CREATE INDEX check_results_of_a_script ON check_results (fleet, script, at);
CREATE TABLE outages (fleet TEXT NOT NULL, node TEXT NOT NULL, since REAL NOT NULL, back REAL NOT NULL);
CREATE INDEX outages_of_a_node ON outages (fleet, node);
CREATE TABLE running_checks (fleet TEXT NOT NULL, node TEXT NOT NULL, name TEXT NOT NULL, idle INTEGER NOT NULL,
    wanted INTEGER NOT NULL, host TEXT NOT NULL, boot TEXT NOT NULL, pid INTEGER NOT NULL, started INTEGER NOT NULL,
    PRIMARY KEY (fleet, node));
CREATE TRIGGER queue_check_ended AFTER DELETE ON running_checks COUNT;
""".replace("COUNT;", "BEGIN UPDATE queue_changes SET number = number + 1; END;")
# Format 8.

OLDEST = 6
"""The format of the first release; earlier ones cannot be read."""

_STEPS: tuple[str, ...] = (_SCHEMA, _MOVE_PLANS, _EVIDENCE_AND_CHECKS)
"""The first format, then one migration for each later format; a released step never changes."""

VERSION = OLDEST + len(_STEPS) - 1


class Database:
    """One connection, used by one thread at a time.

    A write transaction takes the lock when it begins.
    """

    def __init__(self, home: Path) -> None:
        self._path = home / FILE
        self._lock = threading.RLock()
        _create(home)
        with _reporting(self._path):
            self._db = sqlite3.connect(self._path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            self._db.row_factory = sqlite3.Row
            self._check_version(home)

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """Run a block as one immediate transaction.

        A power cut may lose the newest transactions that are not `durable`; the next durable commit flushes them too
        (SQLite, WAL mode).
        """
        with self._lock, _reporting(self._path):
            self._db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    @contextmanager
    def at_once(self) -> Iterator[sqlite3.Connection]:
        """Run a block that only reads, from one snapshot.

        May be used inside a transaction of this thread.
        """
        with self._lock, _reporting(self._path):
            begun = not self._db.in_transaction
            if begun:
                self._db.execute("BEGIN")
            try:
                yield self._db
            finally:
                if begun and self._db.in_transaction:  # SQLite may have ended a failed one itself
                    self._db.execute("COMMIT")

    def read(self, query: str, *values: object) -> list[sqlite3.Row]:
        """Return the rows of one query."""
        with self._lock, _reporting(self._path):
            return self._db.execute(query, values).fetchall()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def _check_version(self, home: Path) -> None:
        if self._version() < VERSION:
            with _locked(home / "state.lock"):
                self._upgrade()
        if (found := self._version()) > VERSION:
            what = f"`{self._path}` was written by a newer nvlaunch (format {found}, this one knows {VERSION})"
            raise SpecError((Mistake(what=what, hint="upgrade nvlaunch, or set `NVLAUNCH_HOME` to another folder"),))

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def _upgrade(self) -> None:
        found = self._version()
        if 0 < found < OLDEST:
            what = f"`{self._path}` was written by an early nvlaunch (format {found}), before the first release"
            hint = "end its runs with that version, then move the file away, or set `NVLAUNCH_HOME` to another folder"
            raise SpecError((Mistake(what=what, hint=hint),))
        if found == 0:
            self._db.execute("PRAGMA journal_mode = WAL")
        done = max(0, found - OLDEST + 1)
        for version, step in enumerate(_STEPS[done:], start=OLDEST + done):
            self._db.executescript(f"BEGIN IMMEDIATE; {step} PRAGMA user_version = {version}; COMMIT;")


def _create(home: Path) -> None:
    """Create folders and file for their owner alone; SpecError where others can change them."""
    try:
        make_private(home)
    except OSError as error:
        what = f"cannot store runs in `{home}`: {(error.strerror or str(error)).lower()}"
        raise SpecError((Mistake(what=what, hint="set `NVLAUNCH_HOME` to a folder that you can write to"),)) from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock on a file.

    Two processes that switch to WAL at the same time fail at once, despite the time-out.
    """
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


# SQLite's messages for a problem with the file, the disk or another process (`sqlite3ErrStr` in its main.c). Matched
# as text, since Python has error codes only from 3.11 on; every other OperationalError is about the query.
_FILE_PROBLEMS = (
    "database is locked",
    "database table is locked",
    "database schema is locked",
    "database or disk is full",
    "disk I/O error",
    "unable to open database file",
    "attempt to write a readonly database",
    "locking protocol",
    "access permission denied",
    "interrupted",
)
_HINT = "check that the disk is not full, and that the folder is writable and on a file system with locks"
# SQLITE_CORRUPT and SQLITE_NOTADB are plain DatabaseErrors to Python.
_DAMAGED = "the file is damaged: restore a copy of it, or move it away to start without runs"


@contextmanager
def _reporting(path: Path) -> Iterator[None]:
    """Raise StoreError for a problem with the file, LaunchError for a damaged one.

    A bad query stays a bug.
    """
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError):
        raise
    except sqlite3.OperationalError as error:
        if not str(error).startswith(_FILE_PROBLEMS):
            raise
        raise StoreError(f"cannot use `{path}`: {error}", hints=(_HINT,)) from error
    except sqlite3.DatabaseError as error:
        raise LaunchError(f"cannot use `{path}`: {error}", hints=(_DAMAGED,)) from error
