"""What records and checks say about nodes: incidents, and the quarantines that follow."""

import sqlite3
from collections.abc import Sequence
from enum import Enum

from launcher.core.control.blame import node_evidence
from launcher.core.control.blame.first_cause import exit_text
from launcher.core.model.nodeset import NodeName
from launcher.core.model.record import Evidence, ProgramFailure, Record
from launcher.core.model.run import Cause, RunId
from launcher.store import journal
from launcher.store.checks.history import note_return
from launcher.store.codec import storable
from launcher.store.evidence import failures
from launcher.store.journal import EventKind

# Evidence of these causes is about the node itself, so it is quarantined for all runs.
_QUARANTINED = (Cause.NODE, Cause.EXHAUSTED)


class IncidentKind(Enum):
    """What happened on a node.

    It failed, could not be prepared for a run, was slower than others, a slice could not move to it, the first failing
    rank of a job was there, it did not pass a check, or it stays out since it did not pass the one before its return.
    """

    NODE_FAILED = "failed"
    NOT_PREPARED = "not-prepared"
    SLOW = "slow"
    NOT_READY = "not-ready"
    PROGRAM = "program"
    CHECK = "check"
    STAYS_OUT = "stays-out"


def has_news(before: Record, now: Record) -> bool:
    """Whether a record says something new about nodes."""
    was, is_now = ((one.failed_nodes, one.program_failures, one.slow_ranks) for one in (before, now))
    return was != is_now


def note(db: sqlite3.Connection, fleet: str, run: RunId, before: Record, now: Record, at: float) -> None:
    """Write what a record newly says about nodes, in the current transaction."""
    for node, evidence in now.failed_nodes.items():
        if node not in before.failed_nodes:
            journal.add(
                db, run, EventKind.NODE_FAILED, at, subject=node, message=evidence.message, evidence=evidence.tail
            )
            _failed(db, fleet, run, node, evidence, at)
    for node in sorted(before.failed_nodes.keys() - now.failed_nodes.keys()):
        message = f"node recovered from: {before.failed_nodes[node].message}"
        journal.add(db, run, EventKind.READMITTED, at, subject=node, message=message)
        release(db, fleet, node, by=f"run `{run}`: node recovered", at=at)
    for failure in now.program_failures:
        if failure not in before.program_failures:
            _program_failed(db, fleet, run, failure, at)
    for name, slow in now.slow_ranks.items():
        if name not in before.slow_ranks:
            journal.add(db, run, EventKind.WARNING, at, subject=slow.node, message=slow.message)
            if slow.check:
                add(db, fleet, run, slow.node, IncidentKind.SLOW, slow.message, (), at)


def _program_failed(db: sqlite3.Connection, fleet: str, run: RunId, failure: ProgramFailure, at: float) -> None:
    """Store a failure of a program, and quarantine the node where all failures of the day speak against it."""
    node = failure.node
    failures.add(db, fleet, run, failure, at)
    if node_evidence.excuse(failure) is not None:
        return
    message = f"first failing rank was on this node: {failure.member} {exit_text(failure.code)}"
    add(db, fleet, run, node, IncidentKind.PROGRAM, message, (), at)
    found = failures.verdict(db, fleet, node, at)
    if found.suspect:
        quarantine(db, fleet, run, node, found.reason, at)
        journal.add(db, run, EventKind.WARNING, at, subject=node, message=f"quarantined: {found.reason}")


def _failed(db: sqlite3.Connection, fleet: str, run: RunId, node: NodeName, evidence: Evidence, at: float) -> None:
    if evidence.cause in (Cause.LEASE_HELD, Cause.PROGRAM):
        return  # neither a lease of another run nor a program that fails is a fault of the node
    quarantined = evidence.cause in _QUARANTINED
    kind = IncidentKind.NODE_FAILED if quarantined else IncidentKind.NOT_PREPARED
    add(db, fleet, run, node, kind, evidence.message, evidence.tail, at)
    if quarantined:
        quarantine(db, fleet, run, node, evidence.message, at)


def quarantine(db: sqlite3.Connection, fleet: str, run: RunId, node: NodeName, message: str, at: float) -> None:
    """Exclude a node for all runs, in the current transaction; an earlier reason is replaced."""
    values = (fleet, node, run, at, storable(message))
    db.execute("INSERT OR REPLACE INTO quarantines VALUES (?, ?, ?, ?, ?, NULL, '')", values)


def add(
    db: sqlite3.Connection,
    fleet: str,
    run: RunId,
    node: NodeName,
    kind: IncidentKind,
    message: str,
    evidence: Sequence[str],
    at: float,
) -> None:
    """Write an incident, in the current transaction."""
    values = (fleet, node, run, at, kind.value, storable(message), storable("\n".join(evidence)))
    query = "INSERT INTO incidents (fleet, node, run, at, kind, message, evidence) VALUES (?, ?, ?, ?, ?, ?, ?)"
    db.execute(query, values)


def release(db: sqlite3.Connection, fleet: str, node: NodeName, *, by: str, at: float) -> bool:
    """End the quarantine of a node, in the current transaction; return whether there was one."""
    note_return(db, fleet, node, at)
    query = "UPDATE quarantines SET released = ?, author = ? WHERE fleet = ? AND node = ? AND released IS NULL"
    return db.execute(query, (at, by, fleet, node)).rowcount > 0
