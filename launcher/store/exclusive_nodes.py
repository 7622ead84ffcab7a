"""Nodes that are reserved for one run: the rest of its exclusive domains."""

import sqlite3
from collections.abc import Iterable, Mapping

from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import RunId


def keep(db: sqlite3.Connection, fleet: str, run: RunId, nodes: Iterable[NodeName]) -> None:
    """Replace the nodes that are reserved for a run."""
    db.execute("DELETE FROM exclusive_nodes WHERE run = ?", (run,))
    db.executemany("INSERT INTO exclusive_nodes VALUES (?, ?, ?)", [(fleet, node, run) for node in nodes])


def of_others(db: sqlite3.Connection, fleet: str, run: RunId | None = None) -> Mapping[NodeName, str]:
    """Return the nodes that are reserved for other runs, with their names."""
    query = """
    SELECT node, name FROM exclusive_nodes JOIN runs ON runs.id = exclusive_nodes.run
    WHERE exclusive_nodes.fleet = ? AND runs.ended IS NULL AND runs.id IS NOT ?
    """
    return {NodeName(row["node"]): row["name"] for row in db.execute(query, (fleet, run)).fetchall()}
