"""A run as it is written when it is launched: its row, and the snapshot to show until its controller has looked."""

import base64
import secrets
from collections.abc import Mapping

from launcher.core.run import Record, Run, RunId, RunName, RunState
from launcher.core.status import RankState, RankStatus, RunStatus, SpareStatus
from launcher.store.codec import dump, storable

NEW_RUN = """
INSERT INTO runs (id, name, state, wanted, fleet, source, created, headline, run, record, snapshot)
VALUES (:id, :name, :state, :wanted, :fleet, :source, :created, :headline, :run, :record, :snapshot)
"""

_HEADLINE = "waiting for its controller"


def fresh_id(name: RunName) -> RunId:
    """Answer a name that no other run has had: 30 random bits are added to it."""
    tail = base64.b32encode(secrets.token_bytes(4)).decode("ascii")[:6].lower()
    return RunId(f"{name}-{tail}")


def row_of(run: Run, source: str, at: float) -> Mapping[str, object]:
    """Answer the values of `NEW_RUN`."""
    return {
        "id": run.id,
        "name": run.name,
        "state": RunState.STARTING.value,
        "wanted": run.wanted.value,
        "fleet": run.fleet.name,
        "source": storable(source),
        "created": at,
        "headline": _HEADLINE,
        "run": dump(Run, run),
        "record": dump(Record, Record()),
        "snapshot": dump(RunStatus, _first_status(run, at)),
    }


def _first_status(run: Run, at: float) -> RunStatus:
    nodes = {node.name: node for node in run.fleet.nodes}
    holders = [(member, nodes[run.slice_of(member).nodes[member.slice_rank]]) for member in run.members()]
    return RunStatus(
        name=run.name,
        id=run.id,
        state=RunState.STARTING,
        headline=_HEADLINE,
        epoch=0,
        restarts=0,
        since=at,
        observed_at=at,
        inventory=run.fleet.name,
        ranks=tuple(
            RankStatus(
                group=member.group,
                slice=member.slice,
                rank=member.rank,
                node=node.name,
                rack=node.rack,
                domain=node.domain,
                state=RankState.WAITING,
                exit_code=None,
            )
            for member, node in holders
        ),
        spares=tuple(
            SpareStatus(slice=part.key, node=name, rack=nodes[name].rack)
            for part in run.placement.slices
            for name in part.spares
        ),
    )
