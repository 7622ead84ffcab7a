"""The part of an inventory that is enough for a placement: the same answer as the whole gives."""

from dataclasses import replace
from random import Random

import pytest

from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Unavailable
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.interchangeable import NvlinkDomains
from launcher.core.queue.timeline import fit


def fleet(racks: int, size: int, *, kinds: int = 1) -> Inventory:
    nodes = tuple(
        Node(
            name=NodeName(f"r{rack}-n{at}"),
            rack=RackName(f"r{rack}"),
            domain=f"d{rack}",
            access=Access(address=f"10.0.{rack}.{at}"),
            accelerator=f"kind {rack % kinds}",
        )
        for rack in range(racks)
        for at in range(size)
    )
    return Inventory(name="hall", transport=Transport.SIM, nodes=nodes)


def job(**rule: object) -> Task:
    topology = TopologyRule(**rule)  # type: ignore[arg-type]
    return Task(name="job", groups=(Group(name="main", topology=topology, gpus=4, run="true"),))


def free_of(inventory: Inventory, taken: dict[NodeName, Unavailable]) -> dict[tuple[str, str | None], int]:
    free: dict[tuple[str, str | None], int] = {}
    for node in inventory.nodes:
        free[node.rack, node.domain] = free.get((node.rack, node.domain), 0) + (node.name not in taken)
    return free


@pytest.mark.parametrize("seed", range(200))
def test_the_part_gives_the_placement_of_the_whole(seed: int) -> None:
    rnd = Random(seed)
    hall = fleet(rnd.randint(1, 12), rnd.randint(1, 6), kinds=rnd.choice((1, 1, 2)))
    share = rnd.random()
    taken = {node.name: Unavailable(used_by="other") for node in hall.nodes if rnd.random() < share}
    task = job(slices=rnd.randint(1, 4), nodes_per_slice=rnd.randint(1, 4), spares=rnd.randint(0, 1))
    part = NvlinkDomains(hall).cut_down(task, free_of(hall, taken).items())
    assert fit(task, part, taken) == fit(task, hall, taken)


def test_of_equal_racks_one_more_than_there_are_slices_is_looked_at() -> None:
    hall = fleet(50, 4)
    part = NvlinkDomains(hall).cut_down(job(slices=2, nodes_per_slice=3), free_of(hall, {}).items())
    assert {node.rack for node in part.nodes} == {"r0", "r1", "r2"}


def test_racks_without_room_are_left_out() -> None:
    hall = fleet(3, 4)
    taken = {NodeName("r1-n0"): Unavailable(used_by="other")}
    part = NvlinkDomains(hall).cut_down(job(slices=3, nodes_per_slice=4), free_of(hall, taken).items())
    assert {node.rack for node in part.nodes} == {"r0", "r2"}


def test_a_task_with_other_rules_is_placed_on_the_whole() -> None:
    hall = fleet(5, 4)
    for task in (job(within="any"), job(racks=("r3",)), job(spread="rack")):
        assert NvlinkDomains(hall).cut_down(task, free_of(hall, {}).items()) is hall


def test_racks_of_blocks_differ_by_their_block() -> None:
    hall = fleet(6, 2)
    nodes = tuple(replace(node, places={"block": f"b{int(node.rack[1:]) % 2}"}) for node in hall.nodes)
    hall = replace(hall, nodes=nodes, levels=("block", "rack"))
    part = NvlinkDomains(hall).cut_down(job(), free_of(hall, {}).items())
    assert len(part.nodes) == len(hall.nodes)
