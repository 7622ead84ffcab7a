"""Failures of programs on the nodes of an inventory, and what they say about nodes; inside a transaction."""

import sqlite3

from launcher.core.control.blame.node_evidence import EvidenceVerdict, PastFailure, avoided, judge
from launcher.core.model.nodeset import NodeName
from launcher.core.model.record import ProgramFailure
from launcher.core.model.run import RunId
from launcher.store.codec import dump, load

MEMORY_S = 86400.0
"""How long a failure of a program may speak against a node (s)."""

_NEWEST = 1000
"""How many failures of an inventory are weighed and kept."""


def add(db: sqlite3.Connection, fleet: str, run: RunId, failure: ProgramFailure, at: float) -> None:
    """Store a failure of a program, and forget those that are too old to be weighed."""
    row = db.execute("SELECT user, name FROM runs WHERE id = ?", (run,)).fetchone()
    values = (fleet, row["user"], row["name"], at, dump(ProgramFailure, failure))
    db.execute("INSERT INTO program_failures (fleet, user, name, at, failure) VALUES (?, ?, ?, ?, ?)", values)
    old = """DELETE FROM program_failures WHERE fleet = ? AND (at <= ? OR number <=
        (SELECT number FROM program_failures WHERE fleet = ? ORDER BY number DESC LIMIT 1 OFFSET ?))"""
    db.execute(old, (fleet, at - MEMORY_S, fleet, _NEWEST))


def verdict(db: sqlite3.Connection, fleet: str, node: NodeName, at: float) -> EvidenceVerdict:
    """Return what the failures of the last day say about a node, since it last returned from a quarantine."""
    query = "SELECT released FROM quarantines WHERE fleet = ? AND node = ?"
    released = next((row["released"] for row in db.execute(query, (fleet, node)).fetchall()), None) or 0.0
    ahead = released > at  # the clock was, and every failure would be from before the return
    return judge(node, _between(db, fleet, max(at - MEMORY_S, 0.0 if ahead else released), at))


def to_avoid(db: sqlite3.Connection, fleet: str, user: str, run: str, at: float) -> NodeName | None:
    """Return the node that the next run of a program should not have, if it fits without."""
    return avoided(_between(db, fleet, at - MEMORY_S, at), user, run)


def _between(db: sqlite3.Connection, fleet: str, since: float, until: float) -> list[PastFailure]:
    query = """SELECT user, name, failure FROM program_failures WHERE fleet = ? AND at > ? AND at <= ?
        ORDER BY number"""
    return [
        PastFailure(user=row["user"], run=row["name"], failure=load(ProgramFailure, row["failure"]))
        for row in db.execute(query, (fleet, since, until)).fetchall()
    ]
