"""Runs that come after another one: successors of preempted runs, and queued runs that depend on another.

A preempted run goes on as its successor, a new run of the same name. A run that depends on another is placed once that
one, or its last successor, has succeeded.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from launcher.core.model.inventory import Inventory
from launcher.core.model.placement import Placement
from launcher.core.model.record import Record
from launcher.core.model.run import Cause, Run, RunId, RunName, RunState, Wanted
from launcher.core.model.task import Task
from launcher.errors import OtherVersionError
from launcher.store import claims, inventories, journal
from launcher.store.codec import load
from launcher.store.database import Database
from launcher.store.journal import EventKind
from launcher.store.new_run import NEW_RUN, fresh_id, row_of
from launcher.store.rows import read_run, readable
from launcher.store.user import User

IN_LINE = "queued"
"""The message of a queued run until its controller says more."""


_NEVER_DRIVEN = """
SELECT id, run FROM runs WHERE ended IS NULL AND state = ?
    AND NOT EXISTS (SELECT 1 FROM journal WHERE run = runs.id AND kind = ?)
ORDER BY created, rowid
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEntry:
    """A run to queue: its name, its task, the inventory, and the task file."""

    name: RunName
    task: Task
    fleet: Inventory
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """The run that a queued run comes after; `ended` is None while it goes on, then the state that it ended in."""

    name: RunName
    ended: RunState | None


class Chains:
    """The runs of one `$NVLAUNCH_HOME` that come after others."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, chain: Sequence[NewEntry], *, at: float, after: RunId | None = None) -> tuple[Run, ...]:
        """Store queued runs, all or none: each comes after the one before it, and the first after the run `after`.

        ConflictError where a run of one of the names has not ended.
        """
        runs: list[Run] = []
        with self._db.write() as db:
            for entry in chain:
                claims.check_free(db.execute(claims.LIVE, (entry.name,)).fetchall())
                run = Run(
                    id=fresh_id(entry.name),
                    name=entry.name,
                    task=entry.task,
                    placement=Placement(slices=()),
                    fleet=entry.fleet.cut_down(()),
                    queued_at=at,
                    after=runs[-1].id if runs else after,
                )
                runs.append(run)
                before = self.dependency(run)
                status = IN_LINE if before is None else waits_for(before.name)
                db.execute(NEW_RUN, row_of(run, entry.source, at, User.current(), status))
                inventories.keep(db, entry.fleet)
                message = f"queued for nodes of `{entry.fleet.name}`" + (f", after `{run.after}`" if run.after else "")
                journal.add(db, run.id, EventKind.QUEUED, at, subject=entry.name, message=message)
        return tuple(runs)

    def dependency(self, run: Run) -> Dependency | None:
        """Return what a run has to wait for, or had to; None for one that depends on no other run.

        A preempted run goes on as its successor.
        """
        if run.after is None:
            return None
        for row in self._db.read("SELECT name, state, ended FROM runs WHERE id = ?", self.last(run.after)):
            ended = None if row["ended"] is None else RunState(row["state"])
            return Dependency(name=RunName(row["name"]), ended=ended)
        return Dependency(name=RunName(run.after), ended=RunState.STOPPED)

    def due(self) -> tuple[RunId, ...]:
        """Return the queued runs whose turn has come, as the run before them has ended, and that nobody ever drove.

        The controller of that run starts theirs; where it died just then, whoever reads this next does.
        """
        return tuple(run for run, before in self._never_driven() if before.ended is not None)

    def early(self) -> frozenset[RunId]:
        """Return the queued runs that need no controller yet, as the run before them goes on."""
        return frozenset(run for run, before in self._never_driven() if before.ended is None)

    def _never_driven(self) -> Iterator[tuple[RunId, Dependency]]:
        for row in self._db.read(_NEVER_DRIVEN, RunState.QUEUED.value, EventKind.DRIVEN.value):
            try:
                with readable(row["id"]):
                    run = load(Run, row["run"])
            except OtherVersionError:  # it is reported where it is shown
                continue
            if (before := self.dependency(run)) is not None:
                yield run.id, before

    def successor(self, run: RunId) -> Run | None:
        """Return the run that is to succeed one that has not ended, if its nodes are lost to others."""
        for row in self._db.read("SELECT id, run, record, wanted FROM runs WHERE id = ? AND ended IS NULL", run):
            return successor(*read_run(row))
        return None

    def after(self, run: RunId) -> RunId | None:
        """Return the successor of a run that was preempted; None where it has none."""
        row = self._db.read("SELECT id FROM runs WHERE id = ?", next_id(run))
        return RunId(row[0]["id"]) if row else None

    def last(self, run: RunId) -> RunId:
        """Return the last successor of a run; itself where it has none."""
        while (after := self.after(run)) is not None:
            run = after
        return run


def waits_for(name: RunName) -> str:
    """Return why a run waits that comes after another one."""
    return f"waits until `{name}` has succeeded"


def successor(run: Run, record: Record) -> Run | None:
    """Return the queued run that succeeds one whose nodes others have.

    None for any other run.
    """
    lost = record.outcome is not None and record.outcome.cause in (Cause.PREEMPTED, Cause.LEASE_HELD)
    if not lost or run.queued_at is None or run.wanted is not Wanted.RUNNING:
        return None
    return Run(
        id=next_id(run.id),
        name=run.name,
        task=run.task.full(),
        placement=Placement(slices=()),
        fleet=run.fleet.cut_down(()),
        queued_at=run.queued_at,
        first=run.first or run.id,
    )


def again(db: sqlite3.Connection, run: Run, before: RunId, at: float) -> None:
    """Store the successor of a run, in the transaction that ends that run.

    It has the same source and user.
    """
    row = db.execute("SELECT source, user, submit_host FROM runs WHERE id = ?", (before,)).fetchone()
    user = User(name=row["user"], host=row["submit_host"])
    db.execute(NEW_RUN, row_of(run, row["source"], at, user, IN_LINE))
    journal.add(db, run.id, EventKind.QUEUED, at, subject=run.name, message=f"queued again after `{before}`")


def next_id(run: RunId) -> RunId:
    """Return the id of a run's successor: always the same, so that a crash cannot create two.

    Ids end in six letters; their successors end in 2, 3 and so on.
    """
    number = run_number(run)
    return RunId(f"{run.rpartition('-')[0]}-{number + 1}" if number > 1 else f"{run}-2")


def run_number(run: RunId) -> int:
    """Return how many runs a run and those that it succeeds are."""
    last = run.rpartition("-")[2]
    return int(last) if last.isdigit() and len(last) < 6 else 1
