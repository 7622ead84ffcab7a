"""The history of nodes, as a table and as JSON."""

import pytest

from launcher.cli.output.nodes import NodeRecord, nodes_json, nodes_text
from launcher.core.checks.results import NodeVerdict
from launcher.core.model.nodeset import NodeName
from launcher.store.checks.history import PastCheck
from launcher.store.evidence.incidents import IncidentKind
from launcher.store.ledger import Drain, Incident, Quarantine

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


def test_incidents_and_checks_of_a_node_are_shown_in_the_order_of_time() -> None:
    def incident(at: float) -> Incident:
        return Incident(
            node=NODE, run="job", at=at, kind=IncidentKind.NODE_FAILED, message=f"at {at:.0f}", evidence=("Xid 79",)
        )

    def check(at: float) -> PastCheck:
        return PastCheck(
            at=at, name="before_return", verdict=NodeVerdict.BAD, number=None, size=1, message=f"at {at:.0f}"
        )

    record = NodeRecord(
        fleet="hall",
        node=NODE,
        run=None,
        drain=None,
        quarantine=None,
        incidents=(incident(10.0), incident(30.0)),
        checks=(check(20.0), check(40.0)),
    )
    lines = nodes_text([record], 60.0, full=True).splitlines()[1:]
    assert [line.rpartition("at ")[2] for line in lines if "at " in line] == ["10", "20", "30", "40"]
    assert lines[1].strip() == "| Xid 79"
