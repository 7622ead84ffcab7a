"""Fleets, groups and placements for tests of the placer, written in few words."""

from dataclasses import replace

from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName, expand
from launcher.core.model.placement import Placement, Shortfall, Unavailable, UnavailableNodes
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place


def fleet(*racks: str, **changes: object) -> Inventory:
    """Racks written as `r1=4` or `r1=4@b1` for 4 nodes in block b1, or `r1=4/2` for two domains of two."""
    nodes: list[Node] = []
    for text in racks:
        rack, _, rest = text.partition("=")
        count, _, block = rest.partition("@")
        total, _, first = count.partition("/")
        nodes += [
            Node(
                name=NodeName(f"{rack}-n{tray:02d}"),
                rack=RackName(rack),
                access=Access(address="10.0.0.1"),
                domain=f"{rack}.b" if first and tray > int(first) else f"{rack}.a",
                accelerator="GB300",
                tray=tray,
                places={"block": block} if block else {},
            )
            for tray in range(1, int(total) + 1)
        ]
    return Inventory(
        name="test",
        transport=Transport.SIM,
        nodes=tuple(replace(node, **changes) for node in nodes),
        levels=("block", "rack"),
    )


def but(inventory: Inventory, names: str, **changes: object) -> Inventory:
    """The inventory with some nodes changed."""
    some = set(expand(names))
    assert some <= {node.name for node in inventory.nodes}
    nodes = tuple(replace(node, **changes) if node.name in some else node for node in inventory.nodes)
    return replace(inventory, nodes=nodes)


def used(**runs: str) -> dict[NodeName, Unavailable]:
    """Nodes by the run that has them."""
    return {NodeName(name): Unavailable(used_by=run) for run, names in runs.items() for name in expand(names)}


def group(name: str = "main", gpus: int = 4, accelerator: str | None = None, nodes: int = 1, **rule: object) -> Group:
    """A group of slices of so many nodes."""
    return Group(name=name, topology=TopologyRule(nodes_per_slice=nodes, **rule), gpus=gpus, accelerator=accelerator)


def placed(inventory: Inventory, *groups: Group, unavailable: UnavailableNodes | None = None) -> Placement:
    answer = place(Task(name="task", groups=groups), inventory, unavailable or {})
    assert isinstance(answer, Placement), answer
    return answer


def refused(inventory: Inventory, *groups: Group, unavailable: UnavailableNodes | None = None) -> Shortfall:
    answer = place(Task(name="task", groups=groups), inventory, unavailable or {})
    assert isinstance(answer, Shortfall), answer
    return answer


def racks(answer: Placement) -> list[str]:
    return [part.place for part in answer.slices]
