"""A task that was checked for its nodes, and other runs that come first."""

from functools import partial
from pathlib import Path

import pytest

from launcher.admission.checked_placement import checked
from launcher.admission.context import AdmissionContext
from launcher.admission.launch import claim
from launcher.admission.request import Request
from launcher.cli.output.admission import AdmissionReport
from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Shortfall, UnavailableNodes
from launcher.core.model.run import RunName
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place
from launcher.drive.adapters import open_prober
from launcher.errors import NoCapacityError
from launcher.store.store import Store

NODES = tuple(
    Node(name=NodeName(f"r1-n{at}"), rack=RackName("r1"), access=Access(address=f"10.0.0.{at}"), domain="r1", tray=at)
    for at in range(1, 6)
)
FLEET = Inventory(name="hall", transport=Transport.SIM, nodes=NODES)


def request_of(name: str, nodes: int) -> Request:
    group = Group(name="main", topology=TopologyRule(nodes_per_slice=nodes), gpus=4)
    return Request(task=Task(name=name, groups=(group,)), fleet=FLEET, source="task.yaml", secrets={})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def context_of(store: Store) -> AdmissionContext:
    return AdmissionContext(store=store, open_prober=partial(open_prober, store.home), listener=AdmissionReport())


def comes_first(store: Store, nodes: int) -> None:
    other = request_of("other", nodes).task

    def decide(taken: UnavailableNodes) -> Placement | Shortfall:
        return place(other, FLEET, taken)

    store.launch(name=RunName("other"), task=other, fleet=FLEET, decide=decide, source="", at=0.0)


def test_a_run_that_came_first_moves_a_task_to_other_nodes_which_are_asked(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    request = request_of("ours", 2)
    context = context_of(store)
    with checked(context, request) as ready:
        assert ready.place(store.unavailable(FLEET)).nodes == ("r1-n1", "r1-n2")
        comes_first(store, 2)
        run = claim(context, request, ready)
    assert run.placement.nodes == ("r1-n3", "r1-n4")
    said = capfd.readouterr().err
    assert "other runs took some of these nodes; the new plan:" in said
    assert "r1-n[3-4]" in said
    assert sorted(store.unavailable(FLEET)) == ["r1-n1", "r1-n2", "r1-n3", "r1-n4"]


def test_a_run_that_came_first_may_leave_no_room(store: Store) -> None:
    request = request_of("ours", 2)
    context = context_of(store)
    with checked(context, request) as ready:
        ready.place(store.unavailable(FLEET))
        comes_first(store, 4)
        with pytest.raises(NoCapacityError):
            claim(context, request, ready)
    assert len(store.unavailable(FLEET)) == 4
