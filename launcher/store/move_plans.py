"""Plans of moves that are carried out, and the nodes that they reserve for slices that move and for a beneficiary.

A plan lasts as long as its lease is renewed; after that its reservations mean nothing. A run that needs a reserved node
to recover takes it, and that cancels the plan.
"""

import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from launcher.core.model.move_order import MoveOrder
from launcher.core.model.nodeset import NodeName
from launcher.core.model.operator_requests import RequestKind
from launcher.core.model.placement import Unavailable, UnavailableNodes
from launcher.core.model.run import RunName
from launcher.errors import ConflictError, LaunchError
from launcher.store import operator_requests
from launcher.store.codec import dump, load, storable
from launcher.store.database import Database
from launcher.store.owner import Owner
from launcher.store.rows import read_owner
from launcher.store.stored_plan import PlanState, Reservation, StoredPlan, StoredStep, StoredSteps
from launcher.store.user import User

LEASE_S = 60.0
"""How long a plan lasts without a sign of life of the process that carries it out (s)."""

KEPT_S = 600.0
"""How long freed room is kept for who it was freed for, once all moves are done (s)."""


Recheck = Callable[[UnavailableNodes], str | None]
"""Returns why a plan does not hold any more, given the nodes that are not free now."""


class MovePlans:
    """The plans of one `$NVLAUNCH_HOME`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def begin(
        self,
        plan: StoredPlan,
        nodes: Mapping[NodeName, RunName],
        unavailable: Callable[[], UnavailableNodes],
        check: Recheck,
    ) -> None:
        """Store a plan with the nodes that it reserves for runs, in one transaction.

        ConflictError while another plan of the inventory is carried out, LaunchError where `check` finds a reason.
        Plans whose process is gone, and room that is still kept for the same beneficiary, are ended first.
        """
        with self._db.write() as db:
            for other in _plans(db, "fleet = ? AND state IN ('active', 'kept')", plan.fleet):
                _refuse_alive(other, plan.created)
                if other.state is PlanState.ACTIVE or other.expires <= plan.created:
                    _end(
                        db,
                        other.id,
                        PlanState.CANCELLED if other.state is PlanState.ACTIVE else PlanState.DONE,
                        "its lease ended",
                    )
                elif other.beneficiary == plan.beneficiary:
                    _end(db, other.id, PlanState.DONE, f"replaced by {plan.id}")
            if (why := check(unavailable())) is not None:
                raise LaunchError(f"nothing was moved: {why}", hints=("try again: a new plan is made",))
            db.execute(_NEW, _row(plan))
            rows = [(plan.fleet, node, plan.id, run) for node, run in nodes.items()]
            db.executemany("INSERT INTO reservations VALUES (?, ?, ?, ?)", rows)

    def load(self, plan: str) -> StoredPlan:
        """Return a plan; LookupError for none."""
        with self._db.at_once() as db:
            return next(iter(_plans(db, "id = ?", plan)))

    def of(self, fleet: str) -> tuple[StoredPlan, ...]:
        """Return the plans of an inventory, newest first."""
        with self._db.at_once() as db:
            return tuple(_plans(db, "fleet = ?", fleet))

    def check_idle(self, fleet: str, now: float) -> None:
        """Raise ConflictError while a plan of an inventory is carried out; `now` in seconds since the epoch."""
        for plan in self.of(fleet):
            _refuse_alive(plan, now)

    def reserved(self, fleet: str) -> Mapping[NodeName, Reservation]:
        """Return the nodes of an inventory that are reserved now."""
        with self._db.at_once() as db:
            return reserved(db, fleet)

    def ask(self, plan: StoredPlan, step: StoredStep, *, by: str, at: float) -> int | None:
        """Ask the run of a step to move; return the number of the request, None where the plan has ended.

        From then on the step costs.
        """
        with self._db.write() as db:
            query = "UPDATE move_plans SET spent = spent + ?, expires = ? WHERE id = ? AND state = 'active'"
            if not db.execute(query, (step.gpu_hours, at + LEASE_S, plan.id)).rowcount:
                return None
            order = MoveOrder(plan=plan.id, slices=step.new)
            return operator_requests.add(db, step.id, RequestKind.RELOCATE, subject=str(order), by=by, at=at).seq

    def refund(self, plan: str, step: StoredStep) -> None:
        """Take back what a step cost that moved nothing."""
        with self._db.write() as db:
            query = "UPDATE move_plans SET spent = max(0.0, spent - ?) WHERE id = ?"
            db.execute(query, (step.gpu_hours, plan))

    def renew(self, plan: str, at: float) -> bool:
        """Renew the lease of a plan; return False where it has ended."""
        with self._db.write(durable=False) as db:
            query = "UPDATE move_plans SET expires = ? WHERE id = ? AND state = 'active'"
            return db.execute(query, (at + LEASE_S, plan)).rowcount > 0

    def end(self, plan: str, state: PlanState, message: str, at: float) -> None:
        """End a plan that goes on; KEPT keeps the room of the beneficiary for `KEPT_S`."""
        with self._db.write() as db:
            for one in _plans(db, "id = ? AND state = 'active'", plan):
                if state is PlanState.KEPT:
                    db.execute("DELETE FROM reservations WHERE plan = ? AND run != ?", (plan, one.beneficiary))
                    values = (state.value, storable(message), at + KEPT_S, plan)
                    db.execute("UPDATE move_plans SET state = ?, message = ?, expires = ? WHERE id = ?", values)
                else:
                    _end(db, plan, state, message)

    def release(self, run: str, at: float) -> bool:
        """End the plans that keep room for a run of this name; return whether there were any."""
        with self._db.write() as db:
            kept = _plans(db, "beneficiary = ? AND state = 'kept' AND expires > ?", storable(run), at)
            for plan in kept:
                _end(db, plan.id, PlanState.DONE, "its room was released")
            return bool(kept)


_NEW = """
INSERT INTO move_plans VALUES (:id, :fleet, :beneficiary, :user, :submit_host, :created, :expires, :state, :message,
    :spent, :steps, :host, :boot, :pid, :started)
"""


def reserved(db: sqlite3.Connection, fleet: str) -> Mapping[NodeName, Reservation]:
    """Return the nodes of an inventory that are reserved now, in the current transaction."""
    query = """
    SELECT node, plan, run FROM reservations JOIN move_plans ON move_plans.id = reservations.plan
    WHERE reservations.fleet = ? AND expires > ?
    """
    return {
        NodeName(row["node"]): Reservation(plan=row["plan"], run=RunName(row["run"]))
        for row in db.execute(query, (fleet, time.time())).fetchall()
    }


def take(db: sqlite3.Connection, fleet: str, run: RunName, nodes: Iterable[NodeName]) -> None:
    """Let a run claim nodes: its own reservations are used up, those for others end their plans."""
    kept = reserved(db, fleet)
    for node in nodes:
        if node in kept and kept[node].run != run:
            _end(db, kept[node].plan, PlanState.CANCELLED, f"`{run}` needed {node} to recover")
        db.execute("DELETE FROM reservations WHERE fleet = ? AND node = ?", (fleet, node))


def settle(db: sqlite3.Connection, fleet: str, run: RunName) -> None:
    """Free what was reserved for a run that has its nodes now."""
    for row in db.execute(
        "SELECT DISTINCT plan FROM reservations WHERE fleet = ? AND run = ?", (fleet, run)
    ).fetchall():
        query = "UPDATE move_plans SET state = ?, message = ? WHERE id = ? AND state = ?"
        db.execute(query, (PlanState.DONE.value, f"`{run}` has started", row["plan"], PlanState.KEPT.value))
    db.execute("DELETE FROM reservations WHERE fleet = ? AND run = ?", (fleet, run))


def unreserved(unavailable: UnavailableNodes, kept: Mapping[NodeName, Reservation]) -> UnavailableNodes:
    """Return the nodes that are not free even to a run that outranks plans of moves."""
    found = {
        name: replace(use, used_by=None, reserved_for=None) if name in kept and use.reserved_for is not None else use
        for name, use in unavailable.items()
    }
    return {name: use for name, use in found.items() if use != Unavailable()}


def _refuse_alive(plan: StoredPlan, now: float) -> None:
    if plan.alive(now):
        who = f"{plan.user}, {plan.owner}" if plan.owner else str(plan.user)
        hint = "wait until it has ended, or end that command with Ctrl-C"
        raise ConflictError(f"`{plan.id}` moves slices of `{plan.fleet}` ({who})", holder=plan.id, hints=(hint,))


def _end(db: sqlite3.Connection, plan: str, state: PlanState, message: str) -> None:
    values = (state.value, storable(message), plan)
    db.execute("UPDATE move_plans SET state = ?, message = ? WHERE id = ?", values)
    db.execute("DELETE FROM reservations WHERE plan = ?", (plan,))


def _plans(db: sqlite3.Connection, where: str, *values: object) -> list[StoredPlan]:
    rows = db.execute(f"SELECT * FROM move_plans WHERE {where} ORDER BY created DESC", values)  # noqa: S608 -- ours
    return [_read(row) for row in rows.fetchall()]


def _read(row: sqlite3.Row) -> StoredPlan:
    return StoredPlan(
        id=row["id"],
        fleet=row["fleet"],
        beneficiary=RunName(row["beneficiary"]),
        user=User(name=row["user"], host=row["submit_host"]),
        created=row["created"],
        expires=row["expires"],
        state=PlanState(row["state"]),
        message=row["message"],
        spent=row["spent"],
        steps=load(StoredSteps, row["steps"]).steps,
        owner=read_owner(row),
    )


def _row(plan: StoredPlan) -> Mapping[str, object]:
    owner = plan.owner or Owner.current()
    return {
        "id": plan.id,
        "fleet": plan.fleet,
        "beneficiary": plan.beneficiary,
        "user": plan.user.name,
        "submit_host": plan.user.host,
        "created": plan.created,
        "expires": plan.expires,
        "state": plan.state.value,
        "message": storable(plan.message),
        "spent": plan.spent,
        "steps": dump(StoredSteps, StoredSteps(steps=plan.steps)),
        "host": owner.host,
        "boot": owner.boot,
        "pid": owner.pid,
        "started": owner.started,
    }
