"""A run as it is written when it is launched: its row, and the snapshot to show until its controller has looked."""

import base64
import secrets
from collections.abc import Mapping

from launcher.core.control.conditions import Condition
from launcher.core.control.reconcile import Decision
from launcher.core.control.state import first_seats
from launcher.core.control.status import RunStatus, summarise
from launcher.core.model.run import Record, Run, RunId, RunName, RunState
from launcher.store.codec import dump, storable

NEW_RUN = """
INSERT INTO runs (id, name, state, wanted, fleet, source, created, headline, run, record, snapshot)
VALUES (:id, :name, :state, :wanted, :fleet, :source, :created, :headline, :run, :record, :snapshot)
"""

UNDRIVEN = "waiting for its controller"


def fresh_id(name: RunName) -> RunId:
    """Answer a name that no other run has had: 30 random bits are added to it."""
    tail = base64.b32encode(secrets.token_bytes(4)).decode("ascii")[:6].lower()
    return RunId(f"{name}-{tail}")


def row_of(run: Run, source: str, at: float, headline: str = UNDRIVEN) -> Mapping[str, object]:
    """Answer the values of `NEW_RUN`."""
    return {
        "id": run.id,
        "name": run.name,
        "state": _first_state(run).value,
        "wanted": run.wanted.value,
        "fleet": run.fleet.name,
        "source": storable(source),
        "created": at,
        "headline": headline,
        "run": dump(Run, run),
        "record": dump(Record, Record()),
        "snapshot": dump(RunStatus, first_status(run, headline, at)),
    }


def _first_state(run: Run) -> RunState:
    """Answer where a run stands that nobody has looked at: one without a place waits for its turn."""
    return RunState.STARTING if run.placement.slices else RunState.QUEUED


def first_status(run: Run, headline: str, at: float) -> RunStatus:
    """Answer what a look would show before the first one: every seat with its first holder, none of them begun."""
    unlooked = Decision(
        actions=(),
        record=Record(seats=first_seats(run)),
        wake_at=at,
        headline=headline,
        state=_first_state(run),
        conditions={member.name: Condition.ABSENT for member in run.members()},
    )
    return summarise(run, unlooked, since=at, observed_at=at)
