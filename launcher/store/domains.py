"""NVLink domains that GPU drivers reported."""

from collections.abc import Mapping

from launcher.core.model.nodeset import NodeName
from launcher.store.database import Database


class Domains:
    """The last reported domains, by inventory and node.

    They may be out of date: nodes are asked before a start.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    def of(self, fleet: str) -> Mapping[NodeName, str]:
        """Return the domain of each node of an inventory that has reported one."""
        rows = self._db.read("SELECT node, domain FROM domains WHERE fleet = ?", fleet)
        return {NodeName(row["node"]): row["domain"] for row in rows}

    def keep(self, fleet: str, reported: Mapping[NodeName, str], at: float) -> None:
        """Store what nodes reported, `at` a time of the wall clock (s)."""
        if not reported:
            return
        with self._db.write(durable=False) as db:
            rows = [(fleet, node, domain, at) for node, domain in reported.items()]
            db.executemany("INSERT OR REPLACE INTO domains VALUES (?, ?, ?, ?)", rows)
