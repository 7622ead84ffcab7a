"""Runs of one `$NVLAUNCH_HOME`. Each method is one transaction, or one read."""

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from launcher.core.control.status import RunStatus
from launcher.core.model.actions import Action
from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Shortfall, UnavailableNodes
from launcher.core.model.receipt import Answer, Receipt
from launcher.core.model.record import Outcome, Record
from launcher.core.model.run import Run, RunId, RunName, RunState, Wanted
from launcher.core.model.task import Task
from launcher.core.placement.slice_range import as_placed
from launcher.errors import Mistake, NoCapacityError, OtherVersionError, SpecError
from launcher.store import claims, exclusive_nodes, journal, move_plans, run_files
from launcher.store.chains import Chains, again
from launcher.store.checks.running import NodeChecks
from launcher.store.codec import dump, load, storable
from launcher.store.database import Database
from launcher.store.decision_log import DecisionLog, LoggedDecision
from launcher.store.domains import Domains
from launcher.store.evidence import incidents
from launcher.store.inventories import Inventories
from launcher.store.journal import EventKind, Journal
from launcher.store.ledger import Ledger
from launcher.store.move_plans import MovePlans
from launcher.store.new_run import NEW_RUN, fresh_id, row_of
from launcher.store.operator_requests import Requests
from launcher.store.owners import Owners
from launcher.store.queue import Queue
from launcher.store.rows import RUN_ROWS, RunRow, read_run, read_run_row, readable
from launcher.store.status_reads import MATCH, names, unknown_run
from launcher.store.user import User
from launcher.store.worlds import Worlds

SNAPSHOT_S = 1.0
"""How often a snapshot is written in which nothing but `observed_at` changed (s)."""

Decide = Callable[[UnavailableNodes], Placement | Shortfall]
Allot = Callable[[Run, Record, UnavailableNodes], Run | None]


class Store:
    """What the launching machine stores; safe for several threads and processes, and for `kill -9` at any moment."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._db = Database(home)
        self.ledger = Ledger(self._db)
        self.requests = Requests(self._db)
        self.inventories = Inventories(self._db)
        self.decisions = DecisionLog(self._db)
        self.chains = Chains(self._db)
        self.queue = Queue(self._db, self.chains)
        self.journal = Journal(self._db)
        self.worlds = Worlds(self._db)
        self.owners = Owners(self._db)
        self.domains = Domains(self._db)
        self.move_plans = MovePlans(self._db)
        self.checks = NodeChecks(self._db)
        self._intended: dict[RunId, tuple[Record, str, RunState]] = {}
        self._published: dict[RunId, tuple[RunStatus, float]] = {}

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def unavailable(self, fleet: Inventory) -> UnavailableNodes:
        """Return the nodes of an inventory that are not free.

        Used by a run, quarantined or drained.
        """
        with self._db.at_once() as db:
            return claims.unavailable(db, fleet.name)

    def holders(self, fleet: str) -> Mapping[NodeName, RunId]:
        """Return the run of each node of an inventory that is in use."""
        rows = self._db.read("SELECT node, run FROM claims WHERE fleet = ?", fleet)
        return {NodeName(row["node"]): RunId(row["run"]) for row in rows}

    def check_name(self, name: RunName) -> None:
        """Raise ConflictError where a run of that name has not ended."""
        claims.check_free(self._db.read(claims.LIVE, name))

    def launch(self, *, name: RunName, task: Task, fleet: Inventory, decide: Decide, source: str, at: float) -> Run:
        """Place a task, and store the run with its claims, in one transaction.

        NoCapacityError where `decide` returns a shortfall, ConflictError where a run of that name has not ended.
        """
        with self._db.write() as db:
            claims.check_free(db.execute(claims.LIVE, (name,)).fetchall())
            answer = decide(claims.unavailable(db, fleet.name))
            if isinstance(answer, Shortfall):
                raise NoCapacityError(answer)
            trimmed = fleet.cut_down(answer.nodes)
            placed = as_placed(task, answer.slices)
            run = Run(id=fresh_id(name), name=name, task=placed, placement=answer, fleet=trimmed)
            db.execute(NEW_RUN, row_of(run, source, at, User.current()))
            claims.settle(db, run, fleet, at)
        return run

    def load(self, run: RunId) -> tuple[Run, Record]:
        """Return a run, with its current `wanted`, and its record."""
        return read_run(self._row("SELECT id, run, record, wanted FROM runs WHERE id = ?", run))

    def intend(
        self,
        run: RunId,
        record: Record,
        actions: Sequence[Action],
        status_message: str,
        state: RunState,
        at: float,
        decision: LoggedDecision | None = None,
        log: Sequence[str] = (),
    ) -> None:
        """Store a decision before it is carried out.

        Record, actions, and the status where it changed, with the `log` lines that show a failure. `decision` is for
        `replay`. News of nodes go into the ledger. Nodes released, and in no slice of the run, are free.
        """
        now = (record, status_message, state)
        if not actions and self._intended.get(run) == now:
            return
        try:
            with self._db.write() as db:
                row = db.execute(_BEFORE, (run,)).fetchone()
                outcome = dump(Outcome, record.outcome) if record.outcome else row["outcome"]
                self._note(db, run, row["fleet"], record, at)
                db.execute(_INTEND, (dump(Record, record), status_message, state.value, outcome, run))
                if (status_message, state.value) != (row["status_message"], row["state"]):
                    journal.add(
                        db, run, EventKind.STATUS, at, subject=state.value, message=status_message, evidence=log
                    )
                journal.add_intents(db, run, actions, at)
                if decision is not None:
                    self.decisions.add(db, decision, at)
        except BaseException:
            self._intended.pop(run, None)
            self.decisions.forget(run)
            raise
        self._intended[run] = now

    def _note(self, db: sqlite3.Connection, run: RunId, fleet: str, record: Record, at: float) -> None:
        """Write news about nodes into the ledger, and free released nodes. Called before the record is stored."""
        intended = self._intended.get(run)
        before = intended[0] if intended else load(Record, _column(db, "record", run))
        if incidents.has_news(before, record):
            incidents.note(db, fleet, run, before, record, at)
        if before.requested - record.requested:
            claims.release(db, load(Run, _column(db, "run", run)), before.requested - record.requested)

    def allot(self, run: RunId, allot: Allot) -> Run | None:
        """Change the placement of a run and its claims in one transaction.

        None where `allot` refuses, or it ended.
        """
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
            move_plans.take(db, fleet, before.name, new - held)
            db.executemany("INSERT INTO claims VALUES (?, ?, ?)", [(fleet, node, run) for node in sorted(new - held)])
            claims.release(db, after, {NodeName(node) for node in held - new} - record.requested)
            return after

    def receipts(self, run: RunId, ended: Sequence[tuple[Action, Answer]], at: float) -> tuple[Receipt, ...]:
        """Store the answers to actions in one transaction.

        Where a power cut loses them, the actions are done again: they are idempotent.
        """
        with self._db.write(durable=False) as db:
            return journal.add_receipts(db, run, ended, at)

    def receipts_after(self, run: RunId, seq: int) -> tuple[Receipt, ...]:
        """Return the receipts of a run with numbers above `seq`, in order."""
        with readable(run):
            return tuple(journal.read_receipt(row) for row in self._db.read(journal.RECEIPTS, run, seq))

    def publish(self, run: RunId, status: RunStatus) -> None:
        """Store the snapshot that `status` shows.

        At once where something changed, else once a second.
        """
        before, when = self._published.get(run, (None, 0.0))
        now = time.monotonic()
        if before and replace(before, observed_at=status.observed_at) == status and now - when < SNAPSHOT_S:
            return
        self._published.pop(run, None)
        with self._db.write(durable=False) as db:
            db.execute("UPDATE runs SET snapshot = ? WHERE id = ?", (dump(RunStatus, status), run))
        self._published[run] = (status, now)

    def standing(self, run: RunId) -> tuple[RunState, float]:
        """Return the last published state of a run, and since when (s since the epoch)."""
        shown = self.find(run).snapshot
        with readable(run):
            plain = json.loads(shown)
            return RunState(plain["state"]), float(plain["since"])

    def finish(self, run: RunId, state: RunState, at: float) -> None:
        """End a run, if it has not ended: store its final state, free its nodes, remove its secrets and files.

        The successor of a preempted run takes over its secrets and files.
        """
        after = self.chains.successor(run)
        # First: nothing would remove the secrets of a run that has ended.
        run_files.remove(self.home, run, after.id if after else None)
        with self._db.write() as db:
            row = db.execute("SELECT status_message FROM runs WHERE id = ? AND ended IS NULL", (run,)).fetchone()
            if row is None:
                return
            db.execute("UPDATE runs SET state = ?, ended = ? WHERE id = ?", (state.value, at, run))
            db.execute("DELETE FROM claims WHERE run = ?", (run,))
            journal.add(db, run, EventKind.ENDED, at, subject=state.value, message=row["status_message"])
            if after is not None:
                again(db, after, run, at)

    def want_nothing(self, run: RunId) -> None:
        """Ask a run to end and release its nodes; its controller does so."""
        with self._db.write() as db:
            query = "UPDATE runs SET wanted = ? WHERE id = ? AND wanted != ? AND ended IS NULL"
            nothing = Wanted.NOTHING.value
            if db.execute(query, (nothing, run, nothing)).rowcount:
                message = f"requested by {User.current()}"
                journal.add(db, run, EventKind.REQUESTED, time.time(), subject="down", message=message)

    def wanted(self, run: RunId) -> Wanted:
        """Return the current `wanted` of a run."""
        row = self._row("SELECT wanted FROM runs WHERE id = ?", run)
        with readable(run):
            return Wanted(row["wanted"])

    def runs(self) -> tuple[RunRow, ...]:
        """Return all runs that this version can read, oldest first."""
        return self._readable("ORDER BY created, runs.rowid")[0]

    def live(self) -> tuple[tuple[RunRow, ...], tuple[OtherVersionError, ...]]:
        """Return the runs that have not ended, oldest first, and errors for unreadable ones."""
        return self._readable("WHERE ended IS NULL ORDER BY created")

    def _readable(self, which: str) -> tuple[tuple[RunRow, ...], tuple[OtherVersionError, ...]]:
        """Return the readable runs, and the errors of the others.

        One unreadable run must not hide the rest.
        """
        found: list[RunRow] = []
        errors: list[OtherVersionError] = []
        for row in self._db.read(f"{RUN_ROWS} {which}"):
            try:
                found.append(read_run_row(row))
            except OtherVersionError as error:
                errors.append(error)
        return tuple(found), tuple(errors)

    def find(self, word: str) -> RunRow:
        """Return the run with this id, else the newest with this name.

        SpecError, with the closest name, for none; OtherVersionError where this version cannot read it.
        """
        text = storable(word)
        for row in self._db.read(f"{RUN_ROWS} {MATCH}", text, text, text):
            return read_run_row(row)
        raise unknown_run(word, names(self._db))

    def _row(self, query: str, run: RunId) -> sqlite3.Row:
        for row in self._db.read(query, run):
            return row
        raise SpecError((Mistake(what=f"no run has the id `{run}`", hint="`nvlaunch status` lists the runs"),))


def _column(db: sqlite3.Connection, name: str, run: RunId) -> str:
    """Return one large text of a run: it has megabytes, and is seldom needed."""
    return str(db.execute(f"SELECT {name} FROM runs WHERE id = ?", (run,)).fetchone()[0])  # noqa: S608 our own name


def _coming(run: Run) -> Iterator[NodeName]:
    """Return the nodes that a run has claimed for slices that a resize will add."""
    for part in run.target.comes if run.target else ():
        yield from (*part.nodes, *part.spares)


_BEFORE = "SELECT status_message, state, outcome, fleet FROM runs WHERE id = ?"
_INTEND = "UPDATE runs SET record = ?, status_message = ?, state = ?, outcome = ? WHERE id = ?"
