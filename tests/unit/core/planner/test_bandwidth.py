"""Bandwidth of placements against published runs, and what a split costs."""

import pytest

from launcher.core.model.inventory import Access, Node, RackName
from launcher.core.model.nodeset import NodeName
from launcher.core.model.traffic import Collective, LinkSpeeds, Traffic
from launcher.core.planner.bandwidth import (
    BusBandwidth,
    bandwidth,
    best_split,
    bus_gb,
    cost,
    pieces,
    slowest,
    step_time,
)

ALL_REDUCE, ALL_GATHER, ALL_TO_ALL = Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.ALL_TO_ALL

MEASURED = [
    ("GB200", (4,) * 4, 50, ALL_REDUCE, 191.4, 200, 375),
    ("GB200", (4,) * 4, 50, ALL_GATHER, 191.3, 200, 250),
    ("GB200", (4,) * 4, 50, ALL_TO_ALL, 58.2, 62.5, 62.5),
    ("GB300", (4,) * 8, 100, ALL_REDUCE, 376.0, 400, 775),
    ("GB300", (4,) * 8, 100, ALL_GATHER, 365.7, 400, 443),
    ("GB300", (4,) * 8, 100, ALL_TO_ALL, 85.6, 110.7, 110.7),
    ("H100", (8, 8), 50, ALL_REDUCE, 487.9, 400, 750),
    ("H100", (8, 8), 50, ALL_GATHER, 338.6, 400, 750),
    ("H100", (8, 8), 50, ALL_TO_ALL, 79.1, 93.8, 93.8),
    ("H100", (8, 8), 25, ALL_REDUCE, 337.1, 200, 375),
    ("H100", (8, 8), 25, ALL_GATHER, 189.3, 200, 375),
    ("H100", (8, 8), 25, ALL_TO_ALL, 40.2, 46.9, 46.9),
]
"""NVIDIA's cluster readiness engine, 16 GiB, NVLink between nodes off: measured, then ring and bound (GB/s)."""


@pytest.mark.parametrize(("machine", "split", "network", "collective", "measured", "ring", "bound"), MEASURED)
def test_measured_bandwidth_lies_below_the_bound_and_near_the_model(
    machine: str,
    split: tuple[int, ...],
    network: float,
    collective: Collective,
    measured: float,
    ring: float,
    bound: float,
) -> None:
    # The racks of H100 are nodes of 8 GPUs: what NVLink reaches inside does not limit these runs.
    found = bandwidth(collective, split, LinkSpeeds(network=network, all_reduce=900, all_gather=900))
    assert found.ring == pytest.approx(ring, abs=0.51 if ring > 100 else 0.051)
    assert found.bound == pytest.approx(bound, abs=0.51 if bound > 120 else 0.051)
    assert measured <= found.bound
    nearer = min((found.ring, found.bound), key=lambda value: abs(value - measured))
    assert measured == pytest.approx(nearer, rel=0.25)


@pytest.mark.parametrize(
    ("collective", "measured"),
    [(ALL_REDUCE, (882.5, 923.3)), (ALL_GATHER, (609.3, 698.7)), (ALL_TO_ALL, (568.7, 678.6))],
)
def test_figures_inside_a_rack_are_within_a_quarter_of_those_measured(
    collective: Collective, measured: tuple[float, float]
) -> None:
    """GB200 with 16 GPUs and GB300 with 32 GPUs, NVLink between nodes on."""
    found = bandwidth(collective, (64,), LinkSpeeds())
    assert found.ring == found.bound
    for figure in measured:
        assert found.bound == pytest.approx(figure, rel=0.25)


@pytest.mark.parametrize(
    ("split", "ring", "bound", "all_to_all"),
    [
        ((60, 4), "200", "394", "52.5"),
        ((56, 8), "400", "788", "56.2"),
        ((48, 16), "800", "840", "65.6"),
        ((16,) * 4, "800", "840", "65.6"),
        ((32, 32), "840", "840", "98.4"),
    ],
)
def test_splits_of_64_gpus(split: tuple[int, ...], ring: str, bound: str, all_to_all: str) -> None:
    found = cost(split, LinkSpeeds()).bandwidth
    assert (f"{found[ALL_REDUCE].ring:.0f}", f"{found[ALL_REDUCE].bound:.0f}") == (ring, bound)
    assert f"{found[ALL_TO_ALL].ring:.1f}" == all_to_all
    assert found[ALL_TO_ALL].ring == found[ALL_TO_ALL].bound
    assert found[Collective.REDUCE_SCATTER] == found[ALL_GATHER]


def test_the_smallest_piece_decides() -> None:
    speeds = LinkSpeeds()
    by_smallest = [bandwidth(ALL_REDUCE, split, speeds).ring for split in ((60, 4), (56, 8), (48, 16), (32, 32))]
    assert by_smallest == sorted(by_smallest)
    assert bandwidth(ALL_REDUCE, (60, 4), speeds) == bandwidth(ALL_REDUCE, (4,) * 16, speeds)


def test_links_faster_than_nvlink_do_not_exceed_it() -> None:
    found = bandwidth(ALL_TO_ALL, (32, 32), LinkSpeeds(network=1600))
    assert found == BusBandwidth(ring=570, bound=570)


def test_a_placement_without_gpus_is_an_error() -> None:
    for split in ((), (4, 0)):
        with pytest.raises(ValueError, match="at least one"):
            bandwidth(ALL_REDUCE, split, LinkSpeeds())
    with pytest.raises(ValueError, match="at least one rack"):
        slowest(())


def test_step_time_adds_what_each_collective_takes() -> None:
    traffic = Traffic(compute_s=0.9, all_reduce_gb=40, all_to_all_gb=6)
    in_rack = step_time(traffic, (64,), LinkSpeeds())
    assert in_rack.ring_s == in_rack.bound_s == pytest.approx(0.9 + 40 / 840 + 6 / 570)
    split = step_time(traffic, (60, 4), LinkSpeeds())
    assert split.ring_s == pytest.approx(0.9 + 40 / 200 + 6 / 52.5)
    assert split.bound_s == pytest.approx(0.9 + 40 / 393.75 + 6 / 52.5)
    assert cost((60, 4), LinkSpeeds(), traffic).step == split


def test_step_time_counts_gathers_and_scatters() -> None:
    traffic = Traffic(compute_s=1, all_gather_gb=30, reduce_scatter_gb=15)
    assert step_time(traffic, (64,), LinkSpeeds()).ring_s == pytest.approx(1 + 45 / 600)


def test_a_program_that_does_not_communicate_loses_nothing() -> None:
    assert step_time(Traffic(compute_s=2), (60, 4), LinkSpeeds()).ring_s == 2


def test_buffers_are_counted_as_nccl_tests_does() -> None:
    assert bus_gb(ALL_REDUCE, 30, 64) == pytest.approx(30 * 2 * 63 / 64)
    assert bus_gb(ALL_GATHER, 30, 64) == pytest.approx(30 * 63 / 64)


def test_slowest_takes_the_least_of_each() -> None:
    found = slowest((LinkSpeeds(network=100, all_reduce=840), LinkSpeeds(network=50, all_reduce=900)))
    assert (found.network, found.all_reduce) == (50, 840)


def node(name: str, rack: str, domain: str | None) -> Node:
    return Node(name=NodeName(name), rack=RackName(rack), domain=domain, access=Access(address="10.0.0.1"))


def test_pieces_are_nvlink_domains() -> None:
    nodes = [node(f"a{at}", "r1", "d1") for at in range(15)] + [node("b", "r2", "d2")]
    assert pieces(nodes) == (15, 1)
    halves = [node(f"a{at}", "r1", f"d{at % 2}") for at in range(4)]
    assert pieces(halves) == (2, 2)
    assert pieces([node("a", "r1", "d1"), node("b", "r2", "d1")]) == (1, 1)


def test_nodes_of_no_known_domain_are_pieces_of_their_own() -> None:
    assert pieces([node("a", "r1", None), node("b", "r1", None), node("c", "r1", "d"), node("d", "r1", "d")]) == (
        2,
        1,
        1,
    )


@pytest.mark.parametrize(
    ("free", "need", "split"),
    [
        ((15, 1, 1), 16, (15, 1)),
        ((15, 9), 16, (8, 8)),
        ((18, 3), 16, (16,)),
        ((6, 6, 6, 6), 16, (6, 5, 5)),
        ((10, 3, 5), 16, (8, 5, 3)),
        ((15, 0), 16, None),
        ((), 1, None),
    ],
)
def test_best_split_has_the_largest_smallest_piece(
    free: tuple[int, ...], need: int, split: tuple[int, ...] | None
) -> None:
    assert best_split(free, need) == split


def test_the_refusal_of_the_documentation() -> None:
    """16 nodes are free only as 15 + 1: all-reduce 200 to 394 instead of 840 GB/s, all-to-all 52 instead of 570."""
    split = best_split((15, 1), 16)
    assert split == (15, 1)
    gpus = tuple(4 * nodes for nodes in split)
    straddling = bandwidth(ALL_REDUCE, gpus, LinkSpeeds())
    assert (round(straddling.ring), round(straddling.bound)) == (200, 394)
    assert int(bandwidth(ALL_TO_ALL, gpus, LinkSpeeds()).ring) == 52
