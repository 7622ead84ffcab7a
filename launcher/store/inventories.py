"""The whole inventories that runs were placed on.

A run itself has only its own nodes.
"""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from launcher.core.model.inventory import Inventory
from launcher.store.codec import dump, load, storable
from launcher.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredInventory:
    """An inventory as of the last placement on it, and its file, if any."""

    inventory: Inventory
    path: Path | None


class Inventories:
    """The inventories of one `$NVLAUNCH_HOME`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def of(self, fleet: Inventory) -> StoredInventory | None:
        """Return the whole of an inventory that was cut down for a run.

        None where it is not stored or not readable.
        """
        query = "SELECT inventory, path FROM inventories WHERE name = ? AND source = ?"
        for row in self._db.read(query, fleet.name, storable(fleet.source)):
            return _kept(row)
        return None

    def all(self) -> tuple[StoredInventory, ...]:
        """Return all inventories that runs were placed on, by name.

        Unreadable ones are left out.
        """
        rows = self._db.read("SELECT inventory, path FROM inventories ORDER BY name, source")
        return tuple(kept for kept in map(_kept, rows) if kept is not None)


def keep(db: sqlite3.Connection, fleet: Inventory) -> None:
    """Store a whole inventory, in the transaction that places a run on it."""
    path = Path(fleet.source)
    absolute = storable(str(path.absolute())) if path.is_file() else ""
    query = "INSERT OR REPLACE INTO inventories VALUES (?, ?, ?, ?)"
    db.execute(query, (fleet.name, storable(fleet.source), absolute, dump(Inventory, fleet)))


def _kept(row: sqlite3.Row) -> StoredInventory | None:
    try:
        return StoredInventory(
            inventory=load(Inventory, row["inventory"]), path=Path(row["path"]) if row["path"] else None
        )
    except ValueError:  # pydantic's ValidationError is one
        return None
