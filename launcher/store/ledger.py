"""Drains, incidents and quarantines of nodes, over all runs.

They outlive the runs that wrote them.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Unavailable, UnavailableNodes
from launcher.core.model.run import Run, RunId
from launcher.errors import OtherVersionError
from launcher.store import journal
from launcher.store.codec import load, storable
from launcher.store.database import Database
from launcher.store.evidence import failures, incidents
from launcher.store.evidence.incidents import IncidentKind
from launcher.store.journal import EventKind, OtherKind
from launcher.store.rows import readable
from launcher.store.user import User

# How long no slice is moved to a node that did not get ready for one (s).
UNREADY_S = 3600.0

# The run of incidents and quarantines that come from a check.
NO_RUN = RunId("")


_KINDS = {kind.value: kind for kind in IncidentKind}


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Something that happened on a node during a run.

    `at` is wall-clock time (s), `evidence` lines of logs.
    """

    node: NodeName
    run: str
    at: float
    kind: IncidentKind | OtherKind
    message: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """A node that is excluded from placement.

    Since when (s, wall clock), why, and by which run.
    """

    node: NodeName
    run: str
    since: float
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """A node that an operator drained; runs leave it as soon as they can."""

    node: NodeName
    reason: str
    at: float
    by: str


class Ledger:
    """Drains, incidents and quarantines of one `$NVLAUNCH_HOME`.

    `fleet` is the name of an inventory.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    def drain(self, fleet: str, nodes: Iterable[NodeName], drain: Drain) -> None:
        """Drain nodes, with the reason, time and author of `drain`.

        The newest drain of a node counts.
        """
        rows = [(fleet, node, storable(drain.reason), drain.at, drain.by) for node in nodes]
        with self._db.write() as db:
            db.executemany("INSERT OR REPLACE INTO drains VALUES (?, ?, ?, ?, ?)", rows)
            _tell_runs(
                db, fleet, [row[1] for row in rows], "drain", f"{drain.reason}, requested by {drain.by}", drain.at
            )

    def undrain(self, fleet: str, nodes: Iterable[NodeName], *, by: str, at: float) -> tuple[NodeName, ...]:
        """End drains; return the nodes that were drained."""
        with self._db.write() as db:
            query = "DELETE FROM drains WHERE fleet = ? AND node = ?"
            lifted = tuple(node for node in nodes if db.execute(query, (fleet, node)).rowcount)
            _tell_runs(db, fleet, lifted, "undrain", f"requested by {by}", at)
            return lifted

    def drains(self, fleet: str) -> tuple[Drain, ...]:
        """Return the drained nodes of an inventory, in no particular order."""
        rows = self._db.read("SELECT node, reason, at, author FROM drains WHERE fleet = ?", fleet)
        return tuple(
            Drain(node=NodeName(row["node"]), reason=row["reason"], at=row["at"], by=row["author"]) for row in rows
        )

    def drained(self, fleet: str) -> Mapping[NodeName, str]:
        """Return the reason for each drained node of an inventory."""
        return {drain.node: drain.reason for drain in self.drains(fleet)}

    def incidents(self, fleet: str) -> tuple[Incident, ...]:
        """Return the incidents on the nodes of an inventory, oldest first."""
        rows = self._db.read("SELECT * FROM incidents WHERE fleet = ? ORDER BY number", fleet)
        return tuple(
            Incident(
                node=NodeName(row["node"]),
                run=row["run"],
                at=row["at"],
                kind=_KINDS.get(row["kind"]) or OtherKind(row["kind"]),
                message=row["message"],
                evidence=tuple(row["evidence"].splitlines()),
            )
            for row in rows
        )

    def add_unready(self, fleet: str, run: RunId, nodes: Iterable[NodeName], plan: str, at: float) -> None:
        """Store that nodes did not get ready for a slice of a run that a plan moves."""
        with self._db.write() as db:
            for node in nodes:
                incidents.add(db, fleet, run, node, IncidentKind.NOT_READY, f"not ready for {plan}", (), at)

    def add_check(
        self,
        fleet: str,
        node: NodeName,
        message: str,
        evidence: Sequence[str],
        at: float,
        *,
        kind: IncidentKind = IncidentKind.CHECK,
        quarantine: bool = False,
    ) -> None:
        """Store that a node did not pass a check, and quarantine it where that is asked for and it is not yet."""
        with self._db.write() as db:
            incidents.add(db, fleet, NO_RUN, node, kind, message, evidence, at)
            query = "SELECT 1 FROM quarantines WHERE fleet = ? AND node = ? AND released IS NULL"
            if quarantine and db.execute(query, (fleet, node)).fetchone() is None:
                values = (fleet, node, NO_RUN, at, storable(message))
                db.execute("INSERT OR REPLACE INTO quarantines VALUES (?, ?, ?, ?, ?, NULL, '')", values)

    def unready(self, fleet: str, now: float) -> UnavailableNodes:
        """Return the nodes that did not get ready for a plan of moves in the last hour."""
        query = """SELECT node, message FROM incidents WHERE fleet = ? AND kind = ? AND at > ? AND at <= ?
            ORDER BY number"""
        rows = self._db.read(query, fleet, IncidentKind.NOT_READY.value, now - UNREADY_S, now)
        return {NodeName(row["node"]): Unavailable(unhealthy=row["message"]) for row in rows}

    def gpu_time(self, fleet: str, now: float) -> Mapping[str, float]:
        """Return the GPU time of each run of an inventory since it was placed (s).

        Its nodes are those of now, or at its end. Runs that another version wrote are left out.
        """
        query = """SELECT runs.id, runs.run, ended, min(at) AS placed FROM runs JOIN journal ON journal.run = runs.id
            WHERE runs.fleet = ? AND kind = ? GROUP BY runs.id"""
        found: dict[str, float] = {}
        for row in self._db.read(query, fleet, EventKind.LAUNCHED.value):
            with suppress(OtherVersionError), readable(row["id"]):
                run = load(Run, row["run"])
                used = set(run.placement.nodes)
                gpus = sum(node.gpus for node in run.fleet.nodes if node.name in used)
                found[row["id"]] = gpus * max(0.0, (row["ended"] or now) - row["placed"])
        return found

    def quarantines(self, fleet: str) -> tuple[Quarantine, ...]:
        """Return the quarantined nodes of an inventory, in no particular order."""
        rows = self._db.read("SELECT * FROM quarantines WHERE fleet = ? AND released IS NULL", fleet)
        return tuple(
            Quarantine(node=NodeName(row["node"]), run=row["run"], since=row["since"], message=row["message"])
            for row in rows
        )

    def readmit(self, fleet: str, node: NodeName, *, by: str, at: float) -> bool:
        """End the quarantine of a node; return whether there was one."""
        with self._db.write() as db:
            return incidents.release(db, fleet, node, by=by, at=at)

    def suspects(self, fleet: str, run: RunId) -> Mapping[NodeName, str]:
        """Return the nodes that were quarantined because of this run, each with the reason."""
        return {one.node: one.message for one in self.quarantines(fleet) if one.run == run}

    def avoided(self, fleet: str, run: str, at: float) -> frozenset[NodeName]:
        """Return the nodes that a run of this name, of this user, should not have if it fits without: one or none."""
        with self._db.at_once() as db:
            found = failures.to_avoid(db, fleet, User.current().name, run, at)
        return frozenset() if found is None else frozenset((found,))

    def fleets(self) -> tuple[str, ...]:
        """Return the names of inventories that have entries here, in order."""
        tables = ("drains", "incidents", "quarantines", "check_results")
        query = " UNION ".join(f"SELECT fleet FROM {table}" for table in tables)  # noqa: S608 -- names of our tables
        return tuple(row["fleet"] for row in self._db.read(f"{query} ORDER BY fleet"))


def marks(db: sqlite3.Connection, fleet: str) -> dict[NodeName, Unavailable]:
    """Return the excluded nodes of an inventory, in the current transaction."""
    quarantined = db.execute(
        "SELECT node, message FROM quarantines WHERE fleet = ? AND released IS NULL", (fleet,)
    ).fetchall()
    found = {NodeName(row["node"]): Unavailable(unhealthy=row["message"]) for row in quarantined}
    for row in db.execute("SELECT node, reason FROM drains WHERE fleet = ?", (fleet,)).fetchall():
        name = NodeName(row["node"])
        found[name] = replace(found.get(name, Unavailable()), drained=row["reason"])
    return found


def _tell_runs(
    db: sqlite3.Connection, fleet: str, nodes: Iterable[NodeName], what: str, message: str, at: float
) -> None:
    """Add a request to the journal of each run that has one of the nodes."""
    for node in nodes:
        for row in db.execute("SELECT run FROM claims WHERE fleet = ? AND node = ?", (fleet, node)).fetchall():
            journal.add(db, row["run"], EventKind.REQUESTED, at, subject=f"{what}:{node}", message=storable(message))
