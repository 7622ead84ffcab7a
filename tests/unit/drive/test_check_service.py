"""The service checks quarantined and idle nodes of all inventories that runs were placed on."""

import time
from pathlib import Path

import pytest

from launcher.config.inventory.read import parse_inventory
from launcher.core.model.checks import CheckStage
from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.operator_requests import RequestKind
from launcher.core.model.placement import Placement, Shortfall, UnavailableNodes
from launcher.core.model.record import Evidence, Record
from launcher.core.model.run import Cause, Run, RunName, RunState
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place
from launcher.drive.check_service import CheckService
from launcher.store.store import Store

HALL = """
name: hall
transport: sim
checks:
  before_return: {run: check}
  periodic_idle: {run: check}
racks: {r1: {nodes: "r1-n[1-4]"}, r2: {nodes: "r2-n[1-4]"}}
sim: {faults: [{at: 0, node: r1-n2, fault: check_fails}, {at: 0, node: r2-n3, fault: check_fails}]}
"""
GOOD, BAD = NodeName("r1-n3"), NodeName("r1-n2")


@pytest.fixture
def hall() -> Inventory:
    return parse_inventory(HALL, Path("hall.yaml"))


@pytest.fixture
def store(tmp_path: Path, hall: Inventory) -> Store:
    """A home in which a run has been on the nodes."""
    store = Store(tmp_path)
    store.finish(launch(store, hall).id, RunState.SUCCEEDED, 1.0)
    return store


def launch(store: Store, hall: Inventory) -> Run:
    task = Task(name="job", groups=(Group(name="main", topology=TopologyRule(nodes_per_slice=4), gpus=4),))

    def decide(taken: UnavailableNodes) -> Placement | Shortfall:
        return place(task, hall, taken)

    return store.launch(name=RunName("job"), task=task, fleet=hall, decide=decide, source="", at=0.0)


def test_quarantined_nodes_come_back_by_their_check_and_those_that_fail_it_stay_out(store: Store) -> None:
    said: list[str] = []
    service = CheckService(store.home, said.append)
    for node in (GOOD, BAD):
        store.ledger.add_check("hall", node, "lost a GPU", (), time.time() - 60.0, quarantine=True)
    service.return_nodes()
    assert [one.node for one in store.ledger.quarantines("hall")] == [BAD]
    assert sorted(line.partition(":")[2].split(":")[0].strip() for line in said) == [
        f"{BAD} stays out",
        f"{GOOD} came back",
    ]
    service.return_nodes()  # not before its time
    assert len(said) == 2


def test_a_run_that_waits_for_its_node_gets_it_back(store: Store, hall: Inventory) -> None:
    run = launch(store, hall)
    before = Record()
    failed = Record(failed_nodes={GOOD: Evidence(cause=Cause.NODE, message="lost a GPU")})
    assert before != failed
    store.intend(run.id, failed, (), "on hold", RunState.ON_HOLD, time.time())
    assert [one.node for one in store.ledger.quarantines("hall")] == [GOOD]
    CheckService(store.home, lambda _: None).return_nodes()
    assert store.ledger.quarantines("hall") == ()
    assert [(one.kind, one.subject) for one in store.requests.after(run.id, 0)] == [(RequestKind.READMIT, GOOD)]


def test_idle_racks_are_checked_one_at_a_time_and_bad_nodes_quarantined(store: Store) -> None:
    said: list[str] = []
    service = CheckService(store.home, said.append)
    service.check_one_rack()
    last = store.checks.history.last("hall", CheckStage.PERIODIC_IDLE, time.time())
    assert {node.partition("-")[0] for node in last} == {"r1"}
    assert said == ["checks: idle nodes of r1: 3 good, 1 bad", "checks: quarantined r1-n2"]
    service.check_one_rack()
    service.check_one_rack()
    assert [one.node for one in store.ledger.quarantines("hall")] == [BAD, "r2-n3"]
    assert len(said) == 4


def test_a_service_that_stops_ends_its_threads(store: Store) -> None:
    service = CheckService(store.home, lambda _: None)
    service.begin()
    begun = time.monotonic()
    service.end(5.0)
    assert time.monotonic() - begun < 5.0
