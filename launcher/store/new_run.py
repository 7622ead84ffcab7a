"""A run as it is written when it is launched: its row, and the snapshot to show until its controller has looked."""

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

NEW_RUN = """
INSERT INTO runs (id, name, state, wanted, fleet, source, created, status_message, run, record, snapshot)
VALUES (:id, :name, :state, :wanted, :fleet, :source, :created, :status_message, :run, :record, :snapshot)
"""

UNDRIVEN = "waiting for its controller"


def fresh_id(name: RunName) -> RunId:
    """Return a name that no other run has had: 30 random bits are added to it."""
    tail = base64.b32encode(secrets.token_bytes(4)).decode("ascii")[:6].lower()
    return RunId(f"{name}-{tail}")


def row_of(run: Run, source: str, at: float, status_message: str = UNDRIVEN) -> Mapping[str, object]:
    """Return the values of `NEW_RUN`."""
    return {
        "id": run.id,
        "name": run.name,
        "state": _first_state(run).value,
        "wanted": run.wanted.value,
        "fleet": run.fleet.name,
        "source": storable(source),
        "created": at,
        "status_message": status_message,
        "run": dump(Run, run),
        "record": dump(Record, Record()),
        "snapshot": dump(RunStatus, first_status(run, status_message, at)),
    }


def _first_state(run: Run) -> RunState:
    """Return where a run stands that nobody has looked at: one without a place waits for its turn."""
    return RunState.STARTING if run.placement.slices else RunState.QUEUED


def first_status(run: Run, status_message: str, at: float) -> RunStatus:
    """Return what a look would show before the first one: every slot with its first holder, none of them begun."""
    unlooked = Decision(
        actions=(),
        record=Record(slots=first_slots(run)),
        wake_at=at,
        status_message=status_message,
        state=_first_state(run),
        conditions={member.name: Condition.ABSENT for member in run.members()},
    )
    return summarise(run, unlooked, since=at, observed_at=at)
