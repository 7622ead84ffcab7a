"""Which run has which nodes, and which names are in use.

Queries and writes inside a transaction.
"""

import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Unavailable, UnavailableNodes
from launcher.core.model.run import Run, RunId
from launcher.core.model.text import count
from launcher.errors import ConflictError
from launcher.store import exclusive_nodes, inventories, journal, ledger, move_plans
from launcher.store.checks import history, running
from launcher.store.journal import EventKind

LIVE = "SELECT id, name, state FROM runs WHERE name = ? AND ended IS NULL"
_CLAIMS = "SELECT node, name FROM claims JOIN runs ON runs.id = claims.run WHERE claims.fleet = ?"


def unavailable(db: sqlite3.Connection, fleet: str, run: RunId | None = None) -> UnavailableNodes:
    """Return the nodes that are not free.

    Those that `run` has for itself are free to it. A node that a plan of moves reserved is `reserved_for` the run that
    is to have it, until a run claims it.
    """
    found = ledger.marks(db, fleet)
    for name in history.returned(db, fleet, time.time()):
        found[name] = replace(found.get(name, Unavailable()), returned=True)
    for name, kept in move_plans.reserved(db, fleet).items():
        if run is None or kept.run != _name_of(db, run):
            found[name] = replace(found.get(name, Unavailable()), used_by=kept.run, reserved_for=kept.run)
    for name, holder in exclusive_nodes.of_others(db, fleet, run).items():
        found[name] = replace(found.get(name, Unavailable()), used_by=holder, reserved_for=None)
    for name, check in running.of(db, fleet).items():
        found[name] = replace(found.get(name, Unavailable()), used_by=f"check {check}", reserved_for=None)
    for row in db.execute(_CLAIMS, (fleet,)).fetchall():
        name = NodeName(row["node"])
        found[name] = replace(found.get(name, Unavailable()), used_by=row["name"], reserved_for=None)
    return found


def _name_of(db: sqlite3.Connection, run: RunId) -> str | None:
    row = db.execute("SELECT name FROM runs WHERE id = ?", (run,)).fetchone()
    return None if row is None else str(row["name"])


def settle(db: sqlite3.Connection, run: Run, fleet: Inventory, at: float) -> None:
    """Claim all nodes of a run that was just placed, and add that to its journal."""
    nodes = run.fleet.nodes
    db.executemany("INSERT INTO claims VALUES (?, ?, ?)", [(fleet.name, node.name, run.id) for node in nodes])
    move_plans.settle(db, fleet.name, run.name)
    exclusive_nodes.keep(db, fleet.name, run.id, run.placement.exclusive_nodes)
    inventories.keep(db, fleet)
    message = f"{count(len(run.placement.slices), 'slice')} on {count(len(nodes), 'node')} of `{fleet.name}`"
    journal.add(db, run.id, EventKind.LAUNCHED, at, subject=run.name, message=message)


def release(db: sqlite3.Connection, run: Run, nodes: Iterable[NodeName]) -> None:
    """Free nodes that the run has released and that are in none of its slices."""
    gone = set(nodes) - set(run.placement.nodes)
    db.executemany("DELETE FROM claims WHERE run = ? AND node = ?", [(run.id, node) for node in sorted(gone)])


def check_free(live: Sequence[sqlite3.Row]) -> None:
    """Raise ConflictError where a run of a name has not ended.

    `live` are the rows of `LIVE`.
    """
    for row in live:
        name = row["name"]
        what = f"a run named `{name}` is {row['state']}"
        hint = f"use another name with `--name`, or end it with `nvlaunch down {name}`"
        raise ConflictError(what, holder=row["id"], hints=(hint,))
