"""Checks under way: which nodes they have, so that no run and no other check takes them."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.run import RunId
from launcher.errors import ConflictError
from launcher.store.checks.history import CheckHistory
from launcher.store.database import Database
from launcher.store.owner import Owner
from launcher.store.rows import read_owner


class RunningChecks:
    """The nodes that checks of live processes have; those of dead ones do not count."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def begin(
        self, fleet: str, nodes: Sequence[NodeName], name: str, *, idle: bool = False, beside: RunId | None = None
    ) -> None:
        """Take nodes for a check; ConflictError where a run or another check has one of them.

        The run `beside` may have them. An `idle` check leaves its nodes free for runs.
        """
        me = Owner.current()
        with self._db.write() as db:
            busy = {node: f"check `{what}`" for node, what in of(db, fleet, idle=True).items()}
            for row in db.execute("SELECT node, run FROM claims WHERE fleet = ?", (fleet,)).fetchall():
                if row["run"] != beside:
                    busy[NodeName(row["node"])] = f"run `{row['run']}`"
            if taken := [node for node in nodes if node in busy]:
                holder = busy[taken[0]]
                hint = "wait for its end, or name other nodes"
                raise ConflictError(f"{fold(taken)}: in use by {holder}", holder=holder, hints=(hint,))
            values = (name, idle, me.host, me.boot, me.pid, me.started)
            query = "INSERT OR REPLACE INTO running_checks VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?)"
            db.executemany(query, [(fleet, node, *values) for node in nodes])

    def end(self, fleet: str, nodes: Iterable[NodeName]) -> None:
        """Give the nodes of a check of this process back."""
        me = Owner.current()
        query = "DELETE FROM running_checks WHERE fleet = ? AND node = ? AND host = ? AND pid = ? AND started = ?"
        with self._db.write() as db:
            db.executemany(query, [(fleet, node, me.host, me.pid, me.started) for node in nodes])

    def stop_idle(self, fleet: str) -> bool:
        """Ask the idle checks of an inventory to end; return whether there are any."""
        with self._db.at_once() as db:
            if not of(db, fleet, idle=True, only_idle=True):
                return False
        with self._db.write() as db:
            db.execute("UPDATE running_checks SET wanted = 1 WHERE fleet = ? AND idle = 1", (fleet,))
        return True

    def wanted(self, fleet: str, nodes: Iterable[NodeName]) -> bool:
        """Whether a run was placed on one of these nodes, or a launch has asked idle checks to end."""
        ours = set(nodes)
        query = """SELECT node FROM running_checks WHERE fleet = ? AND wanted = 1
            UNION SELECT node FROM claims WHERE fleet = ?"""
        return any(row["node"] in ours for row in self._db.read(query, fleet, fleet))


class NodeChecks:
    """What is stored of checks."""

    def __init__(self, db: Database) -> None:
        self.history = CheckHistory(db)
        self.running = RunningChecks(db)


def of(db: sqlite3.Connection, fleet: str, *, idle: bool = False, only_idle: bool = False) -> Mapping[NodeName, str]:
    """Return the nodes that checks of live processes have, each with the name of the check.

    Without those of idle checks, unless `idle`; in the current transaction.
    """
    found: dict[NodeName, str] = {}
    alive: dict[Owner, bool] = {}
    for row in db.execute("SELECT * FROM running_checks WHERE fleet = ?", (fleet,)).fetchall():
        if (row["idle"] and not idle) or (only_idle and not row["idle"]):
            continue
        owner = read_owner(row)
        if owner is not None and alive.setdefault(owner, owner.alive()):
            found[NodeName(row["node"])] = row["name"]
    return found
