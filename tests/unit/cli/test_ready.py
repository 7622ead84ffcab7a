"""A task that was checked for its nodes, and other runs that come first."""

from pathlib import Path

import pytest

from launcher.cli.intake import Request
from launcher.cli.launching import claim
from launcher.cli.ready import preflight
from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Shortfall, UnavailableNodes
from launcher.core.model.run import RunName
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place
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
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("NVLAUNCH_HOME", str(tmp_path))
    return Store(tmp_path)


def comes_first(store: Store, nodes: int) -> None:
    other = request_of("other", nodes).task

    def decide(taken: UnavailableNodes) -> Placement | Shortfall:
        return place(other, FLEET, taken)

    store.launch(name=RunName("other"), task=other, fleet=FLEET, decide=decide, source="", at=0.0)


def test_a_run_that_came_first_moves_a_task_to_other_nodes_which_are_asked(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    request = request_of("ours", 2)
    with preflight(request) as ready:
        assert ready.place(store.unavailable(FLEET)).nodes == ("r1-n1", "r1-n2")
        comes_first(store, 2)
        run = claim(store, request, ready)
    assert run.placement.nodes == ("r1-n3", "r1-n4")
    said = capfd.readouterr().err
    assert "other runs came first; it is placed so:" in said
    assert "r1-n[3-4]" in said
    assert sorted(store.unavailable(FLEET)) == ["r1-n1", "r1-n2", "r1-n3", "r1-n4"]


def test_a_run_that_came_first_may_leave_no_room(store: Store) -> None:
    request = request_of("ours", 2)
    with preflight(request) as ready:
        ready.place(store.unavailable(FLEET))
        comes_first(store, 4)
        with pytest.raises(NoCapacityError):
            claim(store, request, ready)
    assert len(store.unavailable(FLEET)) == 4
