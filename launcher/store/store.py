"""Runs, claims, owners and journals of one `$NVLAUNCH_HOME`. Every method is one transaction, or one read."""

import json
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from launcher.core.control.status import RunStatus
from launcher.core.model.actions import Action, Answer, Receipt
from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Shortfall, UnavailableNodes
from launcher.core.model.record import Outcome, Record
from launcher.core.model.run import Run, RunId, RunName, RunState, Wanted
from launcher.core.model.task import Task
from launcher.errors import LeaseHeldError, Mistake, NoCapacityError, OtherVersionError, SpecError, StoreError
from launcher.store import claims, exclusive_nodes, journal, ledger
from launcher.store.codec import dump, load, storable
from launcher.store.database import Database
from launcher.store.decision_log import Look, Looks
from launcher.store.domains import domains_of
from launcher.store.inventories import Fleets
from launcher.store.journal import Event, EventKind
from launcher.store.ledger import Ledger
from launcher.store.new_run import NEW_RUN, fresh_id, row_of
from launcher.store.operator_requests import Orders
from launcher.store.owner import Owner
from launcher.store.queue import Queue, again, successor
from launcher.store.rows import RUN_ROWS, RunRow, read_owner, read_run, read_run_row, readable
from launcher.store.status_reads import MATCH, names, unknown_run

SNAPSHOT_S = 1.0
"""A snapshot in which only the time of the look changed is written no more often than this (s)."""

LAST_SEQ = 2**63 - 1
"""The highest number that an entry of a journal can have."""

Decide = Callable[[UnavailableNodes], Placement | Shortfall]
Allot = Callable[[Run, Record, UnavailableNodes], Run | None]


def secrets_file(home: Path, run: RunId) -> Path:
    """Return where the secrets of a run are kept for its controllers; the file goes when the run is over."""
    return home / "runs" / run / "secrets.json"


def files_folders(home: Path, run: RunId) -> tuple[Path, ...]:
    """Return where copies of what a run sends to nodes are kept for its controllers; they go when the run is over."""
    own = home / "runs" / run
    return (own / "files", *own.glob("wheels-*"), *own.glob(".snapshot-*"))


def _leave(home: Path, run: RunId, after: Run | None) -> None:
    """Remove what a run has kept of secrets and files, or hand it to the one that goes on for it."""
    for path in (secrets_file(home, run), *files_folders(home, run)):
        if after is not None and path.exists():
            folder = home / "runs" / after.id
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.replace(folder / path.name)
        elif path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


class Store:
    """What the launching machine remembers. Safe from several threads and processes, killed at any moment."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._db = Database(home)
        self.ledger = Ledger(self._db)
        self.orders = Orders(self._db)
        self.fleets = Fleets(self._db)
        self.looks = Looks(self._db)
        self.queue = Queue(self._db)
        self._owned: dict[RunId, Owner] = {}
        self._intended: dict[RunId, tuple[Record, str, RunState]] = {}
        self._published: dict[RunId, tuple[RunStatus, float]] = {}

    def close(self) -> None:
        """Let go of the database."""
        self._db.close()

    def unavailable(self, fleet: Inventory) -> UnavailableNodes:
        """Return which nodes of an inventory are not free: which run has each, and which are quarantined or drained."""
        with self._db.at_once() as db:
            return claims.unavailable(db, fleet.name)

    def holders(self, fleet: str) -> Mapping[NodeName, RunId]:
        """Return which run has each node of an inventory that one has."""
        rows = self._db.read("SELECT node, run FROM claims WHERE fleet = ?", fleet)
        return {NodeName(row["node"]): RunId(row["run"]) for row in rows}

    def domains(self, fleet: str) -> Mapping[NodeName, str]:
        """Return the NVLink domains that nodes of an inventory have reported."""
        return domains_of(self._db, fleet)

    def check_name(self, name: RunName) -> None:
        """Raise LeaseHeldError where a run of that name is not over yet."""
        claims.check_free(self._db.read(claims.LIVE, name))

    def launch(self, *, name: RunName, task: Task, fleet: Inventory, decide: Decide, source: str, at: float) -> Run:
        """Place a task and keep the run and its claims, in one transaction; NoCapacityError where `decide` refuses,
        LeaseHeldError where a run of that name is not over yet."""
        with self._db.write() as db:
            claims.check_free(db.execute(claims.LIVE, (name,)).fetchall())
            answer = decide(claims.unavailable(db, fleet.name))
            if isinstance(answer, Shortfall):
                raise NoCapacityError(answer)
            trimmed = fleet.cut_down(answer.nodes)
            run = Run(id=fresh_id(name), name=name, task=task, placement=answer, fleet=trimmed)
            db.execute(NEW_RUN, row_of(run, source, at))
            claims.settle(db, run, fleet, at)
        return run

    def own(self, run: RunId, me: Owner) -> None:
        """Take a run over for a process; LeaseHeldError where another that is alive drives it."""
        with self._db.write() as db:
            row = db.execute("SELECT * FROM owners WHERE run = ?", (run,)).fetchone()
            held = read_owner(row) if row else None
            if held and held != me and held.alive():
                hint = f"`nvlaunch watch {run}` follows it without driving it"
                raise LeaseHeldError(f"`{run}` is driven by {held}", holder=str(held), hints=(hint,))
            values = (run, me.host, me.boot, me.pid, me.started)
            db.execute("INSERT OR REPLACE INTO owners VALUES (?, ?, ?, ?, ?)", values)
            if held != me:
                journal.add(db, run, EventKind.DRIVEN, time.time(), subject="controller", message=f"driven by {me}")
        self._owned[run] = me

    def disown(self, run: RunId) -> None:
        """Let go of a run that this store took with `own`; nothing if another has it by now."""
        me = self._owned.pop(run, None)
        if me is None:
            return
        with self._db.write() as db:
            db.execute(_DISOWN, (run, me.host, me.boot, me.pid, me.started))

    def load(self, run: RunId) -> tuple[Run, Record]:
        """Return a run, with what is wanted of it now, and its record."""
        return read_run(self._row("SELECT id, run, record, wanted FROM runs WHERE id = ?", run))

    def intend(
        self,
        run: RunId,
        record: Record,
        actions: Sequence[Action],
        status_message: str,
        state: RunState,
        at: float,
        look: Look | None = None,
    ) -> None:
        """Keep a decision before it is acted on: record, what is about to be done, a changed status_message or state.

        `look` is what it was made of, kept for `replay`. What the record newly says of nodes goes into the ledger, and
        nodes that the run has let go and that stand in none of its slices are free.
        """
        now = (record, status_message, state)
        if not actions and self._intended.get(run) == now:
            return
        try:
            with self._db.write() as db:
                row = db.execute(_BEFORE, (run,)).fetchone()
                outcome = dump(Outcome, record.outcome) if record.outcome else row["outcome"]
                values = (dump(Record, record), status_message, state.value, outcome, run)
                db.execute(
                    "UPDATE runs SET record = ?, status_message = ?, state = ?, outcome = ? WHERE id = ?", values
                )
                self._note(db, run, row, record, at)
                if (status_message, state.value) != (row["status_message"], row["state"]):
                    journal.add(db, run, EventKind.STATUS, at, subject=state.value, message=status_message)
                journal.add_intents(db, run, actions, at)
                if look is not None:
                    self.looks.keep(db, look, at)
        except BaseException:
            self._intended.pop(run, None)
            self.looks.forget(run)
            raise
        self._intended[run] = now

    def _note(self, db: sqlite3.Connection, run: RunId, row: sqlite3.Row, record: Record, at: float) -> None:
        """Only a record that says something new of nodes is held against the one before."""
        intended = self._intended.get(run)
        before = intended[0] if intended else load(Record, row["record"])
        if before.failed_nodes != record.failed_nodes or before.first_failures != record.first_failures:
            ledger.note(db, row["fleet"], run, before, record, at)
        if before.requested - record.requested:
            kept = load(Run, row["run"])
            claims.release(db, kept, before.requested - record.requested)

    def allot(self, run: RunId, allot: Allot) -> Run | None:
        """Change where a run is, with its claims, in one transaction; None where `allot` refuses or changes nothing."""
        with self._db.write() as db:
            row = db.execute(
                "SELECT id, run, record, wanted FROM runs WHERE id = ? AND ended IS NULL", (run,)
            ).fetchone()
            if row is None:
                return None
            before, record = read_run(row)
            after = allot(before, record, claims.unavailable(db, before.fleet.name, run))
            if after is None or after == before:
                return after
            db.execute("UPDATE runs SET run = ? WHERE id = ?", (dump(Run, after), run))
            exclusive_nodes.keep(db, before.fleet.name, run, after.placement.exclusive_nodes)
            fleet, new = before.fleet.name, {*after.placement.nodes, *_coming(after)}
            held = {row["node"] for row in db.execute("SELECT node FROM claims WHERE run = ?", (run,))}
            db.executemany("INSERT INTO claims VALUES (?, ?, ?)", [(fleet, node, run) for node in sorted(new - held)])
            claims.release(db, after, {NodeName(node) for node in held - new} - record.requested)
            return after

    def receipt(self, run: RunId, action: Action, answer: Answer, at: float) -> Receipt:
        """Keep what came of an action. Lost in a power cut, the action is done again, and is idempotent."""
        with self._db.write(durable=False) as db:
            return journal.add_receipt(db, run, action, answer, at)

    def receipts_after(self, run: RunId, seq: int) -> tuple[Receipt, ...]:
        """Return the receipts of a run with a number above `seq`, in order."""
        query = "SELECT receipt FROM journal WHERE run = ? AND seq > ? AND receipt IS NOT NULL ORDER BY seq"
        with readable(run):
            return tuple(journal.read_receipt(row) for row in self._db.read(query, run, seq))

    def publish(self, run: RunId, status: RunStatus) -> None:
        """Keep the snapshot that `status` shows: at once where it says something new, else once a second."""
        before, when = self._published.get(run, (None, 0.0))
        now = time.monotonic()
        if before and replace(before, observed_at=status.observed_at) == status and now - when < SNAPSHOT_S:
            return
        self._published.pop(run, None)
        with self._db.write(durable=False) as db:
            db.execute("UPDATE runs SET snapshot = ? WHERE id = ?", (dump(RunStatus, status), run))
        self._published[run] = (status, now)

    def standing(self, run: RunId) -> tuple[RunState, float]:
        """Return the state of a run that was published last, and since when it is in it (s since the epoch)."""
        shown = self.find(run).snapshot
        with readable(run):
            plain = json.loads(shown)
            return RunState(plain["state"]), float(plain["since"])

    def finish(self, run: RunId, state: RunState, at: float) -> None:
        """End a run: its state is final, its nodes are free, its secrets and files go. Once more changes nothing.

        One that has to wait for another turn goes on as its successor in the queue, which has its secrets and files.
        """
        after = self._successor(run)
        # Before the rest: a run that is over with secrets left behind would keep them for ever.
        try:
            _leave(self.home, run, after)
        except OSError as error:
            what = f"cannot use `{self.home / 'runs'}`: {(error.strerror or str(error)).lower()}"
            raise StoreError(what, hints=("make room on its disk, and let its owner write there",)) from error
        with self._db.write() as db:
            row = db.execute("SELECT status_message FROM runs WHERE id = ? AND ended IS NULL", (run,)).fetchone()
            if row is None:
                return
            db.execute("UPDATE runs SET state = ?, ended = ? WHERE id = ?", (state.value, at, run))
            db.execute("DELETE FROM claims WHERE run = ?", (run,))
            journal.add(db, run, EventKind.ENDED, at, subject=state.value, message=row["status_message"])
            if after is not None:
                again(db, after, run, at)

    def _successor(self, run: RunId) -> Run | None:
        for row in self._db.read("SELECT id, run, record, wanted FROM runs WHERE id = ? AND ended IS NULL", run):
            return successor(*read_run(row))
        return None

    def want_nothing(self, run: RunId) -> None:
        """Ask that nothing be left of a run; whoever drives it sees to that."""
        with self._db.write() as db:
            query = "UPDATE runs SET wanted = ? WHERE id = ? AND wanted != ? AND ended IS NULL"
            nothing = Wanted.NOTHING.value
            if db.execute(query, (nothing, run, nothing)).rowcount:
                journal.add(db, run, EventKind.WANTED, time.time(), subject=nothing, message="asked to take it down")

    def wanted(self, run: RunId) -> Wanted:
        """Return what is wanted of a run now."""
        row = self._row("SELECT wanted FROM runs WHERE id = ?", run)
        with readable(run):
            return Wanted(row["wanted"])

    def runs(self) -> tuple[RunRow, ...]:
        """Return every run that this version can read, the oldest first."""
        return self._readable("ORDER BY created, runs.rowid")[0]

    def unfinished(self) -> tuple[RunRow, ...]:
        """Return the runs that are not over and that this version can read, the oldest first."""
        return self.live()[0]

    def live(self) -> tuple[tuple[RunRow, ...], tuple[OtherVersionError, ...]]:
        """Return the runs that are not over, the oldest first, and what is to be said of those that this version cannot
        read."""
        return self._readable("WHERE ended IS NULL ORDER BY created")

    def _readable(self, which: str) -> tuple[tuple[RunRow, ...], tuple[OtherVersionError, ...]]:
        """Return runs, and the errors of those that cannot be read: one of these must not hide the others."""
        found: list[RunRow] = []
        errors: list[OtherVersionError] = []
        for row in self._db.read(f"{RUN_ROWS} {which}"):
            try:
                found.append(read_run_row(row))
            except OtherVersionError as error:
                errors.append(error)
        return tuple(found), tuple(errors)

    def find(self, word: str) -> RunRow:
        """Return the run of an id, or the newest of a name; SpecError, with what may have been meant, and
        OtherVersionError where this version cannot read it."""
        text = storable(word)
        for row in self._db.read(f"{RUN_ROWS} {MATCH}", text, text, text):
            return read_run_row(row)
        raise unknown_run(word, names(self._db))

    def events(self, run: RunId, after: int = 0, until: int = LAST_SEQ) -> tuple[Event, ...]:
        """Return the journal of a run from after an entry on, until another and with it, in order."""
        query = "SELECT * FROM journal WHERE run = ? AND seq > ? AND seq <= ? ORDER BY seq"
        return tuple(journal.read_event(row) for row in self._db.read(query, run, after, until))

    def told(self, run: RunId) -> int:
        """Return up to which entry of the journal the hook of a run has been told; 0 before the first."""
        return next((int(row["seq"]) for row in self._db.read("SELECT seq FROM notified WHERE run = ?", run)), 0)

    def tell(self, run: RunId, seq: int) -> None:
        """Keep up to which entry the hook has been told. Lost in a power cut, it is told again."""
        with self._db.write(durable=False) as db:
            db.execute("INSERT OR REPLACE INTO notified VALUES (?, ?)", (run, seq))

    def warn(self, run: RunId, subject: str, message: str, at: float) -> None:
        """Write something that a person should see to into the journal of a run."""
        with self._db.write() as db:
            journal.add(db, run, EventKind.WARNING, at, subject=subject, message=storable(message))

    def last_event(self, run: RunId) -> int:
        """Return the number of the newest entry in the journal of a run; 0 where it has none."""
        query = "SELECT coalesce(max(seq), 0) AS seq FROM journal WHERE run = ?"
        return next(int(row["seq"]) for row in self._db.read(query, run))

    def world(self, fleet: str) -> str | None:
        """Return the stored world of an imaginary fleet."""
        for row in self._db.read("SELECT world FROM worlds WHERE fleet = ?", fleet):
            return str(row["world"])
        return None

    def save_world(self, fleet: str, text: str) -> None:
        """Keep the world of an imaginary fleet."""
        with self._db.write(durable=False) as db:
            db.execute("INSERT OR REPLACE INTO worlds VALUES (?, ?)", (fleet, text))

    def _row(self, query: str, run: RunId) -> sqlite3.Row:
        for row in self._db.read(query, run):
            return row
        raise SpecError((Mistake(what=f"no run has the id `{run}`", hint="`nvlaunch status` lists the runs"),))


def _coming(run: Run) -> Iterator[NodeName]:
    """Return the nodes that a run has for slices which are still to come."""
    for part in run.target.comes if run.target else ():
        yield from (*part.nodes, *part.spares)


_DISOWN = "DELETE FROM owners WHERE run = ? AND host = ? AND boot = ? AND pid = ? AND started = ?"
_BEFORE = "SELECT status_message, state, outcome, record, run, fleet FROM runs WHERE id = ?"
