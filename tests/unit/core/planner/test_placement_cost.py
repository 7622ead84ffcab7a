"""The cost of slices: which have one, their pieces, and the speeds of their racks."""

from dataclasses import replace

import pytest

from launcher.core.model.inventory import GpuDriver, Inventory, RackName
from launcher.core.model.task import Group, Task
from launcher.core.model.traffic import Collective, LinkSpeeds, Traffic
from launcher.core.planner.placement_cost import SliceCosts, slice_costs
from tests.unit.core.placement.builders import but, fleet, group, placed

ALL_REDUCE = Collective.ALL_REDUCE


def costs(inventory: Inventory, *groups: Group) -> SliceCosts:
    return slice_costs(Task(name="task", groups=groups), placed(inventory, *groups).slices, inventory)


def test_a_slice_in_a_rack_gets_the_speed_of_nvlink() -> None:
    (cost,) = costs(fleet("r1=18"), group(nodes=16)).by_slice.values()
    assert (cost.nodes, cost.placed.pieces, cost.straddles) == ((16,), (64,), False)
    assert cost.placed.bandwidth == cost.in_domain.bandwidth
    assert cost.placed.bandwidth[ALL_REDUCE].ring == 840


def test_a_slice_across_racks_is_slowed_by_its_smallest_piece() -> None:
    (cost,) = costs(fleet("r1=15", "r2=1"), group(nodes=16, within="any")).by_slice.values()
    assert (cost.nodes, cost.placed.pieces, cost.straddles) == ((15, 1), (60, 4), True)
    assert cost.placed.bandwidth[ALL_REDUCE].ring == 200
    assert cost.in_domain.bandwidth[ALL_REDUCE].ring == 840


def test_a_slice_over_many_racks_has_a_piece_in_each() -> None:
    (cost,) = costs(fleet("r1=6", "r2=6", "r3=6", "r4=6"), group(nodes=24, within="any")).by_slice.values()
    assert cost.nodes == (6, 6, 6, 6)


def test_a_rack_with_two_nvlink_domains_is_two_pieces() -> None:
    (cost,) = costs(fleet("r1=8/4"), group(nodes=8, within="any")).by_slice.values()
    assert cost.nodes == (4, 4)


def test_only_gpus_that_a_group_uses_count() -> None:
    (cost,) = costs(fleet("r1=3", "r2=1"), group(gpus=2, nodes=4, within="any")).by_slice.values()
    assert cost.placed.pieces == (6, 2)
    assert cost.placed.bandwidth[ALL_REDUCE].ring == 100


def test_a_slice_of_one_node_has_the_cost_of_its_gpus() -> None:
    (cost,) = costs(fleet("r1=2"), group(nodes=1)).by_slice.values()
    assert (cost.nodes, cost.straddles) == ((1,), False)


@pytest.mark.parametrize("gpus", [0, 1])
def test_a_slice_with_less_than_two_gpus_has_no_cost(gpus: int) -> None:
    assert costs(fleet("r1=2"), group(gpus=gpus, nodes=1)) == SliceCosts()


def test_a_slice_of_cpu_nodes_has_no_cost() -> None:
    assert costs(fleet("r1=4"), group(gpus=0, nodes=4)) == SliceCosts()
    declared = fleet("r1=4", gpu_driver=GpuDriver.NONE, accelerator=None)
    assert costs(declared, group(gpus=4, nodes=4)) == SliceCosts()


def test_nodes_of_unknown_domain_count_alone_and_are_named() -> None:
    inventory = fleet("r1=4", domain=None)
    (cost,) = costs(inventory, group(nodes=4, within="any")).by_slice.values()
    assert (cost.nodes, cost.unknown) == ((1, 1, 1, 1), 4)
    (cost,) = costs(inventory, group(nodes=1, within="any")).by_slice.values()
    assert (cost.nodes, cost.unknown) == ((1,), 0)


def test_a_slice_over_different_racks_has_the_speed_of_the_slowest() -> None:
    racks = {RackName("r1"): LinkSpeeds(network=100), RackName("r2"): LinkSpeeds(network=25, all_reduce=900)}
    inventory = replace(but(fleet("r1=4", "r2=4"), "r2-n[01-04]", accelerator="GB200"), links=racks)
    (cost,) = costs(inventory, group(nodes=8, within="any")).by_slice.values()
    assert cost.placed.bandwidth[ALL_REDUCE].ring == 16 * 25
    assert cost.in_domain.bandwidth[ALL_REDUCE].ring == 840


def test_a_slice_that_touches_a_rack_of_unknown_speed_is_unrated() -> None:
    inventory = replace(fleet("r1=4", "r2=4"), links={RackName("r2"): None})
    found = costs(inventory, group(nodes=8, within="any"))
    assert (found.by_slice, found.unrated) == ({}, ("main.s0",))
    assert costs(inventory, group(nodes=4, slices=2)).unrated == ("main.s1",)
    assert found.unpredicted == ()
    trainer = replace(group(nodes=8, within="any"), traffic=Traffic(compute_s=1))
    assert costs(inventory, trainer).unpredicted == ("main.s0",)


def test_traffic_is_that_of_the_group() -> None:
    trainer = replace(group("trainer", nodes=8), traffic=Traffic(compute_s=1, all_reduce_gb=84))
    found = costs(fleet("r1=10"), trainer, group("rollout", nodes=2)).by_slice
    assert found["trainer.s0"].placed.step is not None
    assert found["trainer.s0"].placed.step.ring_s == pytest.approx(1.1)
    assert found["rollout.s0"].placed.step is None


def test_colocated_groups_have_costs_of_their_own_gpus() -> None:
    shared = group("decode", gpus=2, nodes=4, within="any", nodes_of="prefill")
    found = costs(fleet("r1=4"), group("prefill", gpus=2, nodes=4), shared).by_slice
    assert {key: cost.placed.pieces for key, cost in found.items()} == {"prefill.s0": (8,), "decode.s0": (8,)}
