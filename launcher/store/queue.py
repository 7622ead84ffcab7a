"""Queued runs, and the state that decides which of them starts next."""

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from launcher.core.control.blame.node_evidence import program_of
from launcher.core.control.status import RunStatus
from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.operator_requests import RequestKind
from launcher.core.model.placement import Placement, Unavailable, UnavailableNodes
from launcher.core.model.run import Run, RunId, RunName, RunState, Wanted
from launcher.core.model.task import Task
from launcher.core.placement.slice_range import as_placed
from launcher.core.queue.backfill import QueuedRun, remaining
from launcher.core.queue.preemption import SHORT_RUN_S, ActiveRun, cool_down, protection
from launcher.errors import OtherVersionError
from launcher.store import claims, journal, operator_requests
from launcher.store.chains import Chains, NewEntry, run_number
from launcher.store.codec import dump, load
from launcher.store.database import Database
from launcher.store.journal import EventKind
from launcher.store.new_run import UNDRIVEN, first_status
from launcher.store.rows import read_owner, readable

DAY_S = 86400.0

_ALL = """
SELECT id, runs.run AS run, state, wanted, user, created, snapshot, host, boot, pid, started
FROM runs LEFT JOIN owners ON owners.run = runs.id WHERE ended IS NULL AND fleet = ? ORDER BY created, id
"""
_PLACED = """
SELECT runs.id AS id, max(at) AS at FROM runs JOIN journal ON journal.run = runs.id
WHERE runs.ended IS NULL AND fleet = ? AND kind = 'launched' AND subject = runs.name GROUP BY runs.id
"""
_SHORT = """
SELECT name, user, ended FROM runs WHERE fleet = ? AND ended > ? AND outcome IS NOT NULL
    AND ended - (SELECT max(at) FROM journal WHERE run = runs.id AND subject = runs.name AND kind = 'launched') < ?
    AND EXISTS (SELECT 1 FROM operator_requests WHERE kind = ? AND subject = runs.name AND at BETWEEN created AND ended)
"""
_LEAVING = "SELECT DISTINCT run FROM operator_requests WHERE kind = ?"
_GONE = (RunState.STOPPING, RunState.RELEASE_PENDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """The state of one inventory that the queue depends on.

    Nodes that are not free, active runs, queued runs.

    Only the `driven` ones of the queued runs have a controller that could start them. Runs that this version cannot
    read are in neither list; their nodes are taken. `dependent` are queued runs that wait for another run to succeed,
    with its name: they have no place in the order yet.
    """

    unavailable: UnavailableNodes
    going: tuple[ActiveRun, ...]
    waiting: tuple[QueuedRun, ...]
    driven: frozenset[RunId]
    unreadable: tuple[OtherVersionError, ...] = ()
    dependent: tuple[tuple[QueuedRun, RunName], ...] = ()


Admit = Callable[[QueueState], tuple[Placement, Inventory] | None]


class Queue:
    """The queues of one `$NVLAUNCH_HOME`, one for each inventory."""

    def __init__(self, db: Database, chains: Chains) -> None:
        self._db = db
        self._chains = chains
        self._runs: dict[RunId, tuple[str, Run]] = {}

    def number(self) -> int:
        """Return a number that rises with every change that may affect the queue."""
        return next(int(row["number"]) for row in self._db.read("SELECT number FROM queue_changes"))

    def empty(self, fleet: str) -> bool:
        """Whether no run is queued for an inventory."""
        query = "SELECT 1 FROM runs WHERE fleet = ? AND state = ? AND ended IS NULL LIMIT 1"
        return not self._db.read(query, fleet, RunState.QUEUED.value)

    def put(self, *, name: RunName, task: Task, fleet: Inventory, source: str, at: float) -> Run:
        """Store a queued run; ConflictError where a run of that name has not ended."""
        (run,) = self._chains.put((NewEntry(name=name, task=task, fleet=fleet, source=source),), at=at)
        return run

    def state(self, fleet: str, at: float) -> QueueState:
        """Return the state of the queue of an inventory, at a time of the wall clock (s)."""
        rows = self._db.read(_ALL, fleet)
        unfit = self._unfit()
        leaving = {row["run"] for row in self._db.read(_LEAVING, RequestKind.PREEMPT.value)}
        placed = {row["id"]: row["at"] for row in self._db.read(_PLACED, fleet)}
        short = self._short_ends(fleet, at)
        going: list[ActiveRun] = []
        waiting: list[QueuedRun] = []
        dependent: list[tuple[QueuedRun, RunName]] = []
        driven: set[RunId] = set()
        unreadable: list[OtherVersionError] = []
        for row in rows:
            try:
                with readable(row["id"]):
                    run = self._run(row)
                    if row["state"] != RunState.QUEUED.value:
                        had = at - placed.get(run.id, row["created"])
                        going.append(_going(run, row, at, leaving=run.id in leaving, had_nodes=had))
                        continue
            except OtherVersionError as error:
                unreadable.append(error)
                continue
            ends = short.get((row["user"], program_of(run.name)), ())
            queued = _waiting(run, row, unfit.get(run.id, {}), cool_down(ends, at))
            before = self._chains.dependency(run)
            if before is not None and before.ended is not RunState.SUCCEEDED:
                dependent.append((queued, before.name))
                continue
            waiting.append(queued)
            owner = read_owner(row)
            if row["wanted"] == Wanted.RUNNING.value and owner is not None and owner.alive():
                driven.add(run.id)
        with self._db.at_once() as db:
            unavailable = claims.unavailable(db, fleet)
        return QueueState(
            unavailable=unavailable,
            going=tuple(going),
            waiting=tuple(waiting),
            driven=frozenset(driven),
            unreadable=tuple(unreadable),
            dependent=tuple(dependent),
        )

    def admit(self, run: RunId, admit: Admit, at: float) -> bool:
        """Place a queued run, with its claims, in one transaction.

        Return whether `admit` gave it a placement.
        """
        with self._db.write() as db:
            query = "SELECT id, run, fleet FROM runs WHERE id = ? AND state = ? AND wanted = ? AND ended IS NULL"
            row = db.execute(query, (run, RunState.QUEUED.value, Wanted.RUNNING.value)).fetchone()
            found = admit(self.state(row["fleet"], at)) if row is not None else None
            if found is None:
                return False
            placement, fleet = found
            queued = load(Run, row["run"])
            task = as_placed(queued.task, placement.slices)
            placed = replace(queued, task=task, placement=placement, fleet=fleet.cut_down(placement.nodes))
            snapshot = dump(RunStatus, first_status(placed, UNDRIVEN, at))
            values = (dump(Run, placed), RunState.STARTING.value, UNDRIVEN, snapshot, run)
            db.execute("UPDATE runs SET run = ?, state = ?, status_message = ?, snapshot = ? WHERE id = ?", values)
            db.execute("DELETE FROM unavailable WHERE run = ?", (run,))
            claims.settle(db, placed, fleet, at)
        return True

    def tell(self, run: Run, status_message: str, unfit: Mapping[NodeName, str], at: float) -> None:
        """Store why a run is queued, and the nodes that are unfit for it.

        Nothing is written where neither changed.
        """
        with self._db.write() as db:
            before = {
                row["node"]: row["message"] for row in db.execute("SELECT * FROM unavailable WHERE run = ?", (run.id,))
            }
            if before.keys() != unfit.keys():
                db.execute("DELETE FROM unavailable WHERE run = ?", (run.id,))
                rows = [(run.id, node, message) for node, message in unfit.items()]
                db.executemany("INSERT INTO unavailable VALUES (?, ?, ?)", rows)
            query = (
                "UPDATE runs SET status_message = ?, snapshot = ? WHERE id = ? AND state = ? AND status_message != ?"
            )
            queued = RunState.QUEUED.value
            snapshot = dump(RunStatus, first_status(run, status_message, run.queued_at or at))
            if db.execute(query, (status_message, snapshot, run.id, queued, status_message)).rowcount:
                journal.add(db, run.id, EventKind.STATUS, at, subject=queued, message=status_message)

    def preempt(self, chosen: tuple[RunName, ...], by: Run, at: float) -> None:
        """Ask each of these runs, once, to stop for another run."""
        with self._db.write() as db:
            for name in chosen:
                for row in db.execute(claims.LIVE, (name,)).fetchall():
                    asked = db.execute(f"{_LEAVING} AND run = ?", (RequestKind.PREEMPT.value, row["id"])).fetchone()
                    if asked is None:
                        who = f"`{by.name}` (priority {by.task.priority})"
                        operator_requests.add(db, RunId(row["id"]), RequestKind.PREEMPT, subject=by.name, by=who, at=at)

    def _run(self, row: sqlite3.Row) -> Run:
        """Return the run of a row, from the cache where the row is unchanged."""
        known = self._runs.get(RunId(row["id"]))
        if known is None or known[0] != row["run"]:
            known = row["run"], load(Run, row["run"])
            self._runs[RunId(row["id"])] = known
        return known[1]

    def _short_ends(self, fleet: str, at: float) -> dict[tuple[str, str], list[float]]:
        """Return when runs ended soon after they had preempted others, in the last day, by user and program."""
        found: dict[tuple[str, str], list[float]] = {}
        values = (fleet, at - DAY_S, SHORT_RUN_S, RequestKind.PREEMPT.value)
        for row in self._db.read(_SHORT, *values):
            found.setdefault((row["user"], program_of(row["name"])), []).append(row["ended"])
        return found

    def _unfit(self) -> dict[RunId, dict[NodeName, Unavailable]]:
        found: dict[RunId, dict[NodeName, Unavailable]] = {}
        for row in self._db.read("SELECT run, node, message FROM unavailable"):
            found.setdefault(RunId(row["run"]), {})[NodeName(row["node"])] = Unavailable(unhealthy=row["message"])
        return found


def _going(run: Run, row: sqlite3.Row, at: float, *, leaving: bool, had_nodes: float) -> ActiveRun:
    """Return an active run, which has had its nodes for so long (s).

    One that waits for unreachable nodes to be released has no known end.
    """
    state = RunState(row["state"])
    ends_at = json.loads(row["snapshot"]).get("ends_at")
    stuck = state is RunState.RELEASE_PENDING
    soon = state is RunState.STOPPING or leaving or row["wanted"] == Wanted.NOTHING.value
    left = remaining(run.task, at if soon else ends_at, at, run.fleet.speed)
    return ActiveRun(
        name=run.name,
        priority=run.task.priority,
        preemptible=run.task.preemptible and state not in _GONE,
        since=row["created"],
        remaining=float("inf") if stuck else left,
        stopping=soon and not stuck,
        preempted=run_number(run.id) - 1,
        protected=protection(run_number(run.id) - 1, had_nodes),
    )


def _waiting(run: Run, row: sqlite3.Row, unavailable: UnavailableNodes, cools_down: float) -> QueuedRun:
    since = run.queued_at if run.queued_at is not None else row["created"]
    return QueuedRun(
        id=run.id, name=run.name, task=run.task, since=since, unavailable=unavailable, cools_down=cools_down
    )
