"""The same two slices on the same fleets, placed by us and by the rule that Ray was measured to follow.

Ray puts a group into any rack that holds it: of 30 tries with 4, 5 and 8 free nodes a slice of 4 took 3, 13 and 14
times the first, second and third; 7 of 20 times a small slice took the only rack that a big one needed.
"""

from random import Random

from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Unavailable
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place


def racks_of(sizes: list[int]) -> Inventory:
    """Return an inventory with one rack for each size, all of its nodes alike."""
    return Inventory(
        name="racks",
        transport=Transport.SIM,
        nodes=tuple(
            Node(
                name=NodeName(f"r{rack}-n{tray:02d}"),
                rack=RackName(f"r{rack}"),
                domain=f"domain {rack}",
                access=Access(address="10.0.0.1"),
                tray=tray,
            )
            for rack, size in enumerate(sizes)
            for tray in range(size)
        ),
    )


def one_slice(nodes: int) -> Task:
    """Return a task of one rack-local slice."""
    return Task(name="one", groups=(Group(name="main", topology=TopologyRule(nodes_per_slice=nodes), gpus=4),))


def stranded(fleets: int, seed: int) -> tuple[int, int, int]:
    """Return of how many fleets some choice holds both slices, how often ours strands the second, how often any rack.

    Each fleet has 2 to 8 racks with 0 to 18 free nodes; the small slice comes first.
    """
    rnd = Random(seed)
    could = ours = theirs = 0
    while could < fleets:
        free = [rnd.randint(0, 18) for _ in range(rnd.randint(2, 8))]
        small, big = sorted((rnd.randint(1, 18), rnd.randint(1, 18)))
        fits = [rack for rack, room in enumerate(free) if room >= small]
        holds = [rack for rack in fits if max(_after(free, rack, small)) >= big]
        if not holds:
            continue
        could += 1
        ours += not _both(free, small, big)
        theirs += rnd.choice(fits) not in holds
    return could, ours, theirs


def _after(free: list[int], rack: int, nodes: int) -> list[int]:
    return [room - nodes if index == rack else room for index, room in enumerate(free)]


def _both(free: list[int], small: int, big: int) -> bool:
    """Whether we place both, on racks of 18 of which some nodes are in use."""
    inventory = racks_of([18] * len(free))
    unavailable = {
        node.name: Unavailable(used_by="other")
        for node in inventory.nodes
        if (node.tray or 0) >= free[int(node.rack[1:])]
    }
    first = place(one_slice(small), inventory, unavailable)
    if not isinstance(first, Placement):
        return False
    unavailable.update((name, Unavailable(used_by="first")) for name in first.nodes)
    return isinstance(place(one_slice(big), inventory, unavailable), Placement)
