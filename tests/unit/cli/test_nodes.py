"""The history of nodes, as a table and as JSON."""

import pytest

from launcher.cli.output.nodes import NodeRecord, nodes_json, nodes_text
from launcher.core.model.nodeset import NodeName
from launcher.store.ledger import Drain, Quarantine

NODE = NodeName("r1-n1")
DRAIN = Drain(node=NODE, reason="fan", at=0.0, by="ann")
QUARANTINE = Quarantine(node=NODE, run="job", since=0.0, message="Xid 79")


@pytest.mark.parametrize(
    ("run", "drain", "quarantine", "shown", "state"),
    [
        (None, None, None, "in service", "in-service"),
        ("job", None, None, "in use", "in-use"),
        ("job", DRAIN, None, "drained", "drained"),
        (None, DRAIN, QUARANTINE, "quarantined", "quarantined"),
    ],
    ids=["free", "used", "drained", "quarantined"],
)
def test_a_node_has_one_state(
    run: str | None, drain: Drain | None, quarantine: Quarantine | None, shown: str, state: str
) -> None:
    record = NodeRecord(fleet="hall", node=NODE, run=run, drain=drain, quarantine=quarantine, incidents=())
    assert shown in nodes_text([record], 60.0, full=False)
    assert nodes_json([record])[0]["state"] == state
