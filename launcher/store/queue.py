"""Runs that wait for their turn, and what decides whose it is."""

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from launcher.core.control.status import RunStatus
from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.operator_requests import RequestKind
from launcher.core.model.placement import Placement, Unavailable, UnavailableNodes
from launcher.core.model.record import Record
from launcher.core.model.run import Cause, Run, RunId, RunName, RunState, Wanted
from launcher.core.model.task import Task
from launcher.core.queue.backfill import QueuedRun, remaining
from launcher.core.queue.preemption import ActiveRun
from launcher.errors import OtherVersionError
from launcher.store import claims, inventories, journal, operator_requests
from launcher.store.codec import dump, load
from launcher.store.database import Database
from launcher.store.journal import EventKind
from launcher.store.new_run import NEW_RUN, UNDRIVEN, first_status, fresh_id, row_of
from launcher.store.rows import read_owner, readable

IN_LINE = "waiting for its turn"

_ALL = """
SELECT id, runs.run AS run, state, wanted, created, snapshot, host, boot, pid, started
FROM runs LEFT JOIN owners ON owners.run = runs.id WHERE ended IS NULL AND fleet = ? ORDER BY created, id
"""
_LEAVING = "SELECT DISTINCT run FROM operator_requests WHERE kind = ?"
_GONE = (RunState.STOPPING, RunState.RELEASE_PENDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One inventory as far as turns depend on it: what is not free, who goes on there, and who waits; of those only the
    `driven` ones have somebody who could start them. Runs that this version cannot read are in neither; what they have
    is taken all the same."""

    unavailable: UnavailableNodes
    going: tuple[ActiveRun, ...]
    waiting: tuple[QueuedRun, ...]
    driven: frozenset[RunId]
    unreadable: tuple[OtherVersionError, ...] = ()


Admit = Callable[[World], tuple[Placement, Inventory] | None]


class Queue:
    """The queue of one `$NVLAUNCH_HOME`; each inventory has a line of its own."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._runs: dict[RunId, tuple[str, Run]] = {}

    def number(self) -> int:
        """Return a number that rises with whatever may change whose turn it is."""
        return next(int(row["number"]) for row in self._db.read("SELECT number FROM queue_changes"))

    def empty(self, fleet: str) -> bool:
        """Whether nobody waits for nodes of an inventory."""
        query = "SELECT 1 FROM runs WHERE fleet = ? AND state = ? AND ended IS NULL LIMIT 1"
        return not self._db.read(query, fleet, RunState.QUEUED.value)

    def put(self, *, name: RunName, task: Task, fleet: Inventory, source: str, at: float) -> Run:
        """Keep a run that waits for its turn; LeaseHeldError where a run of that name is not over yet."""
        with self._db.write() as db:
            claims.check_free(db.execute(claims.LIVE, (name,)).fetchall())
            run = Run(
                id=fresh_id(name),
                name=name,
                task=task,
                placement=Placement(slices=()),
                fleet=fleet.cut_down(()),
                queued_at=at,
            )
            db.execute(NEW_RUN, row_of(run, source, at, IN_LINE))
            inventories.keep(db, fleet)
            journal.add(db, run.id, EventKind.QUEUED, at, subject=name, message=f"waits for its turn on `{fleet.name}`")
        return run

    def world(self, fleet: str, at: float) -> World:
        """Return what turns on an inventory depend on, at a time of the wall clock (s)."""
        rows = self._db.read(_ALL, fleet)
        barred = self._barred()
        leaving = {row["run"] for row in self._db.read(_LEAVING, RequestKind.PREEMPT.value)}
        going: list[ActiveRun] = []
        waiting: list[QueuedRun] = []
        driven: set[RunId] = set()
        unreadable: list[OtherVersionError] = []
        for row in rows:
            try:
                with readable(row["id"]):
                    run = self._run(row)
                    if row["state"] != RunState.QUEUED.value:
                        going.append(_going(run, row, at, leaving=run.id in leaving))
                        continue
            except OtherVersionError as error:
                unreadable.append(error)
                continue
            waiting.append(_waiting(run, row, barred.get(run.id, {})))
            owner = read_owner(row)
            if row["wanted"] == Wanted.RUNNING.value and owner is not None and owner.alive():
                driven.add(run.id)
        with self._db.at_once() as db:
            unavailable = claims.unavailable(db, fleet)
        return World(
            unavailable=unavailable,
            going=tuple(going),
            waiting=tuple(waiting),
            driven=frozenset(driven),
            unreadable=tuple(unreadable),
        )

    def admit(self, run: RunId, admit: Admit, at: float) -> bool:
        """Place a run that waits, with its claims, in one transaction; return whether `admit` let it."""
        with self._db.write() as db:
            query = "SELECT id, run, fleet FROM runs WHERE id = ? AND state = ? AND wanted = ? AND ended IS NULL"
            row = db.execute(query, (run, RunState.QUEUED.value, Wanted.RUNNING.value)).fetchone()
            found = admit(self.world(row["fleet"], at)) if row is not None else None
            if found is None:
                return False
            placement, fleet = found
            placed = replace(load(Run, row["run"]), placement=placement, fleet=fleet.cut_down(placement.nodes))
            snapshot = dump(RunStatus, first_status(placed, UNDRIVEN, at))
            values = (dump(Run, placed), RunState.STARTING.value, UNDRIVEN, snapshot, run)
            db.execute("UPDATE runs SET run = ?, state = ?, status_message = ?, snapshot = ? WHERE id = ?", values)
            db.execute("DELETE FROM unavailable WHERE run = ?", (run,))
            claims.settle(db, placed, fleet, at)
        return True

    def tell(self, run: Run, status_message: str, barred: Mapping[NodeName, str], at: float) -> None:
        """Keep why a run waits, and which nodes were found unfit for it, where that is news."""
        with self._db.write() as db:
            before = {
                row["node"]: row["message"] for row in db.execute("SELECT * FROM unavailable WHERE run = ?", (run.id,))
            }
            if before.keys() != barred.keys():
                db.execute("DELETE FROM unavailable WHERE run = ?", (run.id,))
                rows = [(run.id, node, message) for node, message in barred.items()]
                db.executemany("INSERT INTO unavailable VALUES (?, ?, ?)", rows)
            query = (
                "UPDATE runs SET status_message = ?, snapshot = ? WHERE id = ? AND state = ? AND status_message != ?"
            )
            queued = RunState.QUEUED.value
            snapshot = dump(RunStatus, first_status(run, status_message, run.queued_at or at))
            if db.execute(query, (status_message, snapshot, run.id, queued, status_message)).rowcount:
                journal.add(db, run.id, EventKind.STATUS, at, subject=queued, message=status_message)

    def preempt(self, chosen: tuple[RunName, ...], by: Run, at: float) -> None:
        """Ask runs to stop for another, each once."""
        with self._db.write() as db:
            for name in chosen:
                for row in db.execute(claims.LIVE, (name,)).fetchall():
                    asked = db.execute(f"{_LEAVING} AND run = ?", (RequestKind.PREEMPT.value, row["id"])).fetchone()
                    if asked is None:
                        who = f"`{by.name}` (priority {by.task.priority})"
                        operator_requests.give(
                            db, RunId(row["id"]), RequestKind.PREEMPT, subject=by.name, by=who, at=at
                        )

    def after(self, run: RunId) -> RunId | None:
        """Return the run that goes on for one that is over and waits for another turn; None where there is none."""
        row = self._db.read("SELECT id FROM runs WHERE id = ?", _next_id(run))
        return RunId(row[0]["id"]) if row else None

    def last(self, run: RunId) -> RunId:
        """Return the run that goes on for one, or itself."""
        while (after := self.after(run)) is not None:
            run = after
        return run

    def _run(self, row: sqlite3.Row) -> Run:
        """Return the run of a row; one that has not changed is not read again."""
        known = self._runs.get(RunId(row["id"]))
        if known is None or known[0] != row["run"]:
            known = row["run"], load(Run, row["run"])
            self._runs[RunId(row["id"])] = known
        return known[1]

    def _barred(self) -> dict[RunId, dict[NodeName, Unavailable]]:
        found: dict[RunId, dict[NodeName, Unavailable]] = {}
        for row in self._db.read("SELECT run, node, message FROM unavailable"):
            found.setdefault(RunId(row["run"]), {})[NodeName(row["node"])] = Unavailable(unhealthy=row["message"])
        return found


def successor(run: Run, record: Record) -> Run | None:
    """Return the run that waits in the place of one that ends because others have its nodes; None for any other."""
    lost = record.outcome is not None and record.outcome.cause in (Cause.PREEMPTED, Cause.LEASE_HELD)
    if not lost or run.queued_at is None or run.wanted is not Wanted.RUNNING:
        return None
    return Run(
        id=_next_id(run.id),
        name=run.name,
        task=run.task,
        placement=Placement(slices=()),
        fleet=run.fleet.cut_down(()),
        queued_at=run.queued_at,
        first=run.first or run.id,
    )


def again(db: sqlite3.Connection, run: Run, before: RunId, at: float) -> None:
    """Put a run into the queue that goes on for another, in the transaction in which that one ends."""
    source = db.execute("SELECT source FROM runs WHERE id = ?", (before,)).fetchone()["source"]
    db.execute(NEW_RUN, row_of(run, source, at, IN_LINE))
    journal.add(
        db, run.id, EventKind.QUEUED, at, subject=run.name, message=f"goes on for `{before}` when it is its turn"
    )


def _next_id(run: RunId) -> RunId:
    """Return the id of the run that goes on for another: always the same, so that a crash midway makes no third.

    Ids end in six letters; what goes on for them counts from 2.
    """
    stem, _, last = run.rpartition("-")
    return RunId(f"{stem}-{int(last) + 1}" if last.isdigit() and len(last) < 6 else f"{run}-2")


def _going(run: Run, row: sqlite3.Row, at: float, *, leaving: bool) -> ActiveRun:
    """Return a run that has nodes; of one whose end hangs on nodes out of reach nobody knows how long it keeps them."""
    state = RunState(row["state"])
    ends_at = json.loads(row["snapshot"]).get("ends_at")
    stuck = state is RunState.RELEASE_PENDING
    soon = state is RunState.STOPPING or leaving or row["wanted"] == Wanted.NOTHING.value
    left = remaining(run.task, at if soon else ends_at, at)
    return ActiveRun(
        name=run.name,
        priority=run.task.priority,
        preemptible=run.task.preemptible and state not in _GONE,
        since=row["created"],
        remaining=float("inf") if stuck else left,
        stopping=soon and not stuck,
    )


def _waiting(run: Run, row: sqlite3.Row, barred: UnavailableNodes) -> QueuedRun:
    since = run.queued_at if run.queued_at is not None else row["created"]
    return QueuedRun(id=run.id, name=run.name, task=run.task, since=since, unavailable=barred)
