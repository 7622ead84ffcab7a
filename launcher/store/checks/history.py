"""The results of checks, and the times at which nodes were out of service."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from launcher.core.checks.results import CheckedNode, Measurement, NodeVerdict
from launcher.core.checks.returning import JUST_RETURNED_S, ReturnDecision, count_relapses, until_allowed
from launcher.core.model.checks import CheckStage, NodeCheck
from launcher.core.model.inventory import Inventory, RackName
from launcher.core.model.nodeset import NodeName
from launcher.store.codec import storable
from launcher.store.database import Database

KEPT_S = 90 * 86400.0
"""How long results are kept (s)."""

KEPT = 200
"""The most results that are kept of a node, the newest ones."""

_VERDICTS = {verdict.value: verdict for verdict in NodeVerdict}


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCheck:
    """The result of a check on a node; `name` says which check it was, `at` is wall-clock time (s)."""

    at: float
    name: str
    verdict: NodeVerdict
    number: float | None
    size: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfService:
    """A time in which a node was quarantined; `back` is None while it is (s, wall clock)."""

    since: float
    back: float | None


class CheckHistory:
    """The results of one `$NVLAUNCH_HOME`; `fleet` is the name of an inventory."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(
        self,
        fleet: str,
        name: str,
        check: NodeCheck,
        results: Sequence[tuple[CheckedNode, RackName]],
        size: int,
        at: float,
    ) -> None:
        """Store results of one test on `size` nodes at once; the oldest ones of these nodes are dropped."""
        query = """INSERT INTO check_results (fleet, node, rack, name, script, at, size, verdict, measured, message)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
        with self._db.write(durable=False) as db:
            for one, rack in results:
                values = (one.verdict.value, one.number, storable(one.message[:1000]))
                db.execute(query, (fleet, one.node, rack, name, check.key, at, size, *values))
                db.execute(_DROP, (fleet, one.node, at - KEPT_S, fleet, one.node, KEPT))

    def measurements(self, fleet: str, check: NodeCheck, since: float) -> tuple[Measurement, ...]:
        """Return the numbers of a check on all nodes since a time, the oldest first."""
        query = """SELECT * FROM check_results WHERE fleet = ? AND script = ? AND at >= ? AND measured IS NOT NULL
            ORDER BY number"""
        return tuple(
            Measurement(
                node=NodeName(row["node"]),
                rack=RackName(row["rack"]),
                at=row["at"],
                number=row["measured"],
                size=row["size"],
            )
            for row in self._db.read(query, fleet, check.key, since)
        )

    def passed(self, fleet: str, check: NodeCheck, since: float) -> frozenset[NodeName]:
        """Return the nodes on which this script has been good since a time."""
        query = "SELECT DISTINCT node FROM check_results WHERE fleet = ? AND script = ? AND at >= ? AND verdict = ?"
        rows = self._db.read(query, fleet, check.key, since, NodeVerdict.GOOD.value)
        return frozenset(NodeName(row["node"]) for row in rows)

    def of_node(self, fleet: str, node: NodeName) -> tuple[PastCheck, ...]:
        """Return the results on a node, the oldest first."""
        rows = self._db.read("SELECT * FROM check_results WHERE fleet = ? AND node = ? ORDER BY number", fleet, node)
        return tuple(
            PastCheck(
                at=row["at"],
                name=row["name"],
                verdict=_VERDICTS.get(row["verdict"], NodeVerdict.CANNOT_TELL),
                number=row["measured"],
                size=row["size"],
                message=row["message"],
            )
            for row in rows
        )

    def last(self, fleet: str, stage: CheckStage, now: float) -> Mapping[NodeName, float]:
        """Return when each node was last checked at a stage (s, wall clock).

        A result in the future was stored while the clock was wrong, and does not count.
        """
        query = "SELECT node, max(at) AS at FROM check_results WHERE fleet = ? AND name = ? AND at <= ? GROUP BY node"
        return {NodeName(row["node"]): row["at"] for row in self._db.read(query, fleet, stage.value, now)}

    def fleets(self) -> tuple[str, ...]:
        """Return the names of inventories that have results, in order."""
        return tuple(row["fleet"] for row in self._db.read("SELECT DISTINCT fleet FROM check_results ORDER BY fleet"))

    def nodes(self, fleet: str) -> frozenset[NodeName]:
        """Return the nodes of an inventory that have results."""
        rows = self._db.read("SELECT DISTINCT node FROM check_results WHERE fleet = ?", fleet)
        return frozenset(NodeName(row["node"]) for row in rows)

    def outages(self, fleet: str, node: NodeName) -> tuple[OutOfService, ...]:
        """Return when a node was quarantined, the oldest first."""
        past = self._db.read("SELECT since, back FROM outages WHERE fleet = ? AND node = ? ORDER BY since", fleet, node)
        query = "SELECT since FROM quarantines WHERE fleet = ? AND node = ? AND released IS NULL"
        found = [OutOfService(since=row["since"], back=row["back"]) for row in past]
        found += [OutOfService(since=row["since"], back=None) for row in self._db.read(query, fleet, node)]
        return tuple(found)

    def relapses(self, fleet: str, node: NodeName) -> int:
        """Return how many failures of a node, up to the newest, each came within a day of its return."""
        outages = self.outages(fleet, node)
        return count_relapses([one.since for one in outages], [one.back for one in outages if one.back is not None])

    def may_return(self, fleet: str, node: NodeName, now: float) -> ReturnDecision:
        """Return whether the time out of a quarantined node is over."""
        outages = self.outages(fleet, node)
        return until_allowed(now, outages[-1].since if outages else 0.0, self.relapses(fleet, node))

    def kept_out(self, fleet: Inventory, nodes: Iterable[NodeName], now: float) -> frozenset[NodeName]:
        """Return those of some failed nodes that may not come back by two good health reports.

        With `before_return` that is every quarantined one: it waits for its check.
        """
        if not (failed := frozenset(nodes)):
            return failed
        rows = self._db.read("SELECT node FROM quarantines WHERE fleet = ? AND released IS NULL", fleet.name)
        out = failed & {NodeName(row["node"]) for row in rows}
        checked = fleet.checks.before_return is not None
        return frozenset(name for name in out if checked or not self.may_return(fleet.name, name, now).now)


def note_return(db: sqlite3.Connection, fleet: str, node: NodeName, at: float) -> None:
    """Store that the quarantine of a node ends, in the current transaction and before it does."""
    query = """INSERT INTO outages SELECT fleet, node, since, ? FROM quarantines
        WHERE fleet = ? AND node = ? AND released IS NULL"""
    db.execute(query, (at, fleet, node))


def returned(db: sqlite3.Connection, fleet: str, now: float) -> Iterable[NodeName]:
    """Return the nodes that came back within the last day, in the current transaction."""
    query = "SELECT DISTINCT node FROM outages WHERE fleet = ? AND back > ? AND back <= ?"
    return [NodeName(row["node"]) for row in db.execute(query, (fleet, now - JUST_RETURNED_S, now)).fetchall()]


_DROP = """DELETE FROM check_results WHERE fleet = ? AND node = ? AND (at < ? OR number <= coalesce((
    SELECT number FROM check_results WHERE fleet = ? AND node = ? ORDER BY number DESC LIMIT 1 OFFSET ?), -1))"""
