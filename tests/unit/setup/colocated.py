"""A run whose groups share nodes, for tests of what its nodes are told."""

from dataclasses import replace

from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement
from launcher.core.model.run import Run, RunId, RunName
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place

GUEST = TopologyRule(nodes_per_slice=2, nodes_of="prefill")


def make_colocated(decode: int = 1) -> Run:
    """A router, prefill and decode on two nodes; `decode` GPUs of each for the last."""
    groups = (
        Group(name="router", topology=replace(GUEST, nodes_per_slice=1), run="route"),
        Group(name="prefill", topology=TopologyRule(nodes_per_slice=2), gpus=2, run="prefill", setup="x"),
        Group(name="decode", topology=GUEST, gpus=decode, run="decode", setup="x", envs={"A": "it's $HOME"}),
    )
    nodes = tuple(
        Node(name=NodeName(f"n{at}"), rack=RackName("r1"), domain="r1", access=Access(address=f"10.0.0.{at}"))
        for at in (1, 2)
    )
    fleet = Inventory(name="hall", transport=Transport.SIM, nodes=nodes)
    task = Task(name="job", groups=groups)
    placement = place(task, fleet, {})
    assert isinstance(placement, Placement)
    return Run(id=RunId("id1"), name=RunName("job"), task=task, placement=placement, fleet=fleet)
