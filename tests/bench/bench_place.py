"""How long a placement takes on a full fleet, and how it compares with a rack picked at random.

`make bench` prints these figures. They are not asserted: the machine that runs the tests is not the one that counts.
"""

import statistics
import sys
import time
from pathlib import Path
from random import Random

from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Shortfall, Unavailable, UnavailableNodes
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place

RACKS = 556
TRAYS = 18
RUNS = 1_000
ROUNDS = 15


def fleet() -> Inventory:
    """Return 10,008 nodes in 556 racks, 8 racks a block."""
    nodes = [
        Node(
            name=NodeName(f"r{rack:03d}-n{tray:02d}"),
            rack=RackName(f"r{rack:03d}"),
            domain=f"domain-{rack}",
            access=Access(address=f"10.{rack // 256}.{rack % 256}.{tray}"),
            accelerator="GB300",
            tray=tray,
            places={"block": f"b{rack // 8:02d}"},
        )
        for rack in range(RACKS)
        for tray in range(TRAYS)
    ]
    return Inventory(name="bench", transport=Transport.SIM, nodes=tuple(nodes), levels=("block", "rack"))


def task(name: str, **rule: object) -> Task:
    """Return a task of one group with four GPUs of one kind on each node."""
    topology = TopologyRule(**rule)  # type: ignore[arg-type]
    return Task(name=name, groups=(Group(name="main", topology=topology, gpus=4, accelerator="GB300"),))


def crowded(inventory: Inventory) -> dict[NodeName, Unavailable]:
    """Return the nodes that 1,000 runs of 1 to 16 nodes have, each placed by the placer itself on part of the fleet."""
    rnd = Random(7)
    unavailable: dict[NodeName, Unavailable] = {}
    racks = sorted({node.rack for node in inventory.nodes})
    for number in range(RUNS):
        want = rnd.choice((1, 2, 2, 4, 4, 8, 8, 16))
        some = set(rnd.sample(racks, 24))
        part = Inventory(
            name="part",
            transport=Transport.SIM,
            nodes=tuple(node for node in inventory.nodes if node.rack in some),
            levels=inventory.levels,
        )
        answer = place(task("one", nodes_per_slice=want), part, unavailable)
        if isinstance(answer, Placement):
            unavailable.update((name, Unavailable(used_by=f"run-{number}")) for name in answer.nodes)
    return unavailable


def median_ms(asked: Task, inventory: Inventory, unavailable: UnavailableNodes, kind: type) -> float:
    """Return the median time of some rounds in milliseconds; TypeError if the answer is not of the expected kind."""
    spent = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        answer = place(asked, inventory, unavailable)
        spent.append((time.perf_counter() - start) * 1000)
        if not isinstance(answer, kind):
            raise TypeError(f"expected a {kind.__name__}, got a {type(answer).__name__}")
    return statistics.median(spent)


def main() -> None:
    """Print a line for each case, with its target."""
    sys.path.insert(0, str(Path(__file__).parents[2]))  # a script sees its own folder only
    from tests.property.ray_rule import stranded

    inventory = fleet()
    unavailable = crowded(inventory)
    big = task("vla", slices=8, nodes_per_slice=16)
    near = task("vla", slices=8, nodes_per_slice=16, prefer="block", spread="rack", spares=1)
    whole = task("whole", slices=556, nodes_per_slice=18)
    none: UnavailableNodes = {}
    print(
        f"placement on {len(inventory.nodes):,} nodes in {RACKS} racks; {len(unavailable):,} nodes in use where crowded"
    )
    cases: tuple[tuple[str, str, Task, UnavailableNodes, type], ...] = (
        ("8 x 16 nodes, empty fleet", "under 50 ms", big, none, Placement),
        ("8 x 16 nodes, 1,000 runs placed", "under 100 ms", big, unavailable, Placement),
        ("8 x (16 + 1 spare), near in a block, one a rack, 1,000 runs", "none set", near, unavailable, Placement),
        ("556 x 18 nodes, empty fleet", "none set", whole, none, Placement),
        ("556 x 18 nodes, 1,000 runs: refused, with what would help", "none set", whole, unavailable, Shortfall),
    )
    for name, target, asked, used, kind in cases:
        print(f"  {name:60} {median_ms(asked, inventory, used, kind):7.1f} ms   target: {target}")
    could, ours, any_rack = stranded(1_000, seed=20)
    print(f"a small slice, then a big one, on {could:,} random fleets where some choice holds both:")
    print(f"  the big one found no rack: {ours} times with our choice (target: 0), {any_rack} with any rack that fits")


if __name__ == "__main__":
    main()
