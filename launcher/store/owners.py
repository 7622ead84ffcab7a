"""Which process owns, and so drives, each run."""

import time

from launcher.core.model.run import RunId
from launcher.errors import ConflictError
from launcher.store import journal
from launcher.store.database import Database
from launcher.store.journal import EventKind
from launcher.store.owner import Owner
from launcher.store.rows import read_owner

_RELEASE = "DELETE FROM owners WHERE run = ? AND host = ? AND boot = ? AND pid = ? AND started = ?"


class Owners:
    """The owners of the runs of one `$NVLAUNCH_HOME`."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._taken: dict[RunId, Owner] = {}

    def take(self, run: RunId, me: Owner) -> None:
        """Make a process the owner of a run.

        ConflictError where another live process is.
        """
        with self._db.write() as db:
            row = db.execute("SELECT * FROM owners WHERE run = ?", (run,)).fetchone()
            before = read_owner(row) if row else None
            if before and before != me and before.alive():
                hint = f"follow it with `nvlaunch watch {run}`"
                raise ConflictError(f"run `{run}` is driven by {before}", holder=str(before), hints=(hint,))
            values = (run, me.host, me.boot, me.pid, me.started)
            db.execute("INSERT OR REPLACE INTO owners VALUES (?, ?, ?, ?, ?)", values)
            if before != me:
                journal.add(db, run, EventKind.DRIVEN, time.time(), subject="controller", message=str(me))
        self._taken[run] = me

    def release(self, run: RunId) -> None:
        """Give up a run that this object took; nothing where it has another owner by now."""
        me = self._taken.pop(run, None)
        if me is None:
            return
        with self._db.write() as db:
            db.execute(_RELEASE, (run, me.host, me.boot, me.pid, me.started))
