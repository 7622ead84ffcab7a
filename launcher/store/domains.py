"""The NVLink domains that drivers have reported, remembered for the nodes whose inventory leaves them out."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from launcher.core.model.nodeset import NodeName
from launcher.store.database import Database


class Domains:
    """What was reported last, by inventory and node. A memory, not a truth: who places work asks the nodes again."""

    def __init__(self, home: Path) -> None:
        self._db = Database(home)

    def of(self, fleet: str) -> Mapping[NodeName, str]:
        """Return the domain of each node of an inventory that has reported one."""
        return domains_of(self._db, fleet)

    def keep(self, fleet: str, reported: Mapping[NodeName, str], at: float) -> None:
        """Remember what nodes have reported, `at` a time of the wall clock (s)."""
        if not reported:
            return
        with self._db.write(durable=False) as db:
            rows = [(fleet, node, domain, at) for node, domain in reported.items()]
            db.executemany("INSERT OR REPLACE INTO domains VALUES (?, ?, ?, ?)", rows)

    def close(self) -> None:
        """Let go of the database."""
        self._db.close()


def domains_of(db: Database, fleet: str) -> Mapping[NodeName, str]:
    """Return the domain of each node of an inventory that has reported one."""
    rows: list[sqlite3.Row] = db.read("SELECT node, domain FROM domains WHERE fleet = ?", fleet)
    return {NodeName(row["node"]): row["domain"] for row in rows}
