"""A new run: its row, and its first snapshot."""

import base64
import secrets
from collections.abc import Mapping

from launcher.core.control.conditions import Condition
from launcher.core.control.reconcile import Decision
from launcher.core.control.resized_record import first_slots
from launcher.core.control.status import RunStatus, summarise
from launcher.core.model.record import Record
from launcher.core.model.run import Run, RunId, RunName, RunState
from launcher.store.codec import dump, storable
from launcher.store.user import User

NEW_RUN = """
INSERT INTO runs (id, name, state, wanted, fleet, source, user, submit_host, created, status_message, run, record,
    snapshot)
VALUES (:id, :name, :state, :wanted, :fleet, :source, :user, :submit_host, :created, :status_message, :run, :record,
    :snapshot)
"""

UNDRIVEN = "waiting for its controller"


def fresh_id(name: RunName) -> RunId:
    """Return a unique id: the name with 30 random bits."""
    tail = base64.b32encode(secrets.token_bytes(4)).decode("ascii")[:6].lower()
    return RunId(f"{name}-{tail}")


def row_of(run: Run, source: str, at: float, user: User, status_message: str = UNDRIVEN) -> Mapping[str, object]:
    """Return the values of `NEW_RUN`."""
    return {
        "id": run.id,
        "name": run.name,
        "state": _first_state(run).value,
        "wanted": run.wanted.value,
        "fleet": run.fleet.name,
        "source": storable(source),
        "user": user.name,
        "submit_host": user.host,
        "created": at,
        "status_message": status_message,
        "run": dump(Run, run),
        "record": dump(Record, Record()),
        "snapshot": dump(RunStatus, first_status(run, status_message, at)),
    }


def _first_state(run: Run) -> RunState:
    """Return the state of a new run: queued where it has no placement."""
    return RunState.STARTING if run.placement.slices else RunState.QUEUED


def first_status(run: Run, status_message: str, at: float) -> RunStatus:
    """Return the status before the first observation.

    Each slot on its first node, none started.
    """
    slots = first_slots(run)
    unseen = Decision(
        actions=(),
        record=Record(slots=slots),
        wake_at=at,
        status_message=status_message,
        state=_first_state(run),
        conditions=dict.fromkeys(slots, Condition.ABSENT),
    )
    return summarise(run, unseen, since=at, observed_at=at)
