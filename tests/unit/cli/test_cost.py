"""Costs as text: pieces, ranges, and steps of any length."""

import pytest

from launcher.cli.output.cost import cost_lines
from launcher.core.model.inventory import RackName
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Slice
from launcher.core.model.task import Group, TopologyRule
from launcher.core.model.traffic import LinkSpeeds, Traffic
from launcher.core.planner.placement_cost import SliceCosts, slice_cost

DEFAULT = LinkSpeeds()


def lines(
    split: tuple[int, ...], links: LinkSpeeds = DEFAULT, traffic: Traffic | None = None, unknown: int = 0
) -> list[str]:
    group = Group(name="main", topology=TopologyRule(nodes_per_slice=sum(split)), gpus=4, traffic=traffic)
    nodes = tuple(NodeName(f"n{at}") for at in range(sum(split)))
    part = Slice(group="main", index=0, place="r1", rack=RackName("r1"), domain=None, nodes=nodes)
    costs = SliceCosts(by_slice={part.key: slice_cost(group, split, links, unknown)})
    return [line.removeprefix("  main.s0: ") for line in cost_lines([part], costs, verbose=False)]


@pytest.mark.parametrize(
    ("split", "shown"),
    [
        ((16,), "16 nodes in one NVLink domain, "),
        ((18, 18, 18, 10), "3 x 18 + 10 nodes in 4 NVLink domains, "),
        ((1,) * 16, "16 x 1 nodes in 16 NVLink domains, "),
        ((9, 8, 7, 6, 5), "5 pieces of 9 to 5 nodes in 5 NVLink domains, "),
    ],
)
def test_equal_pieces_are_counted(split: tuple[int, ...], shown: str) -> None:
    (line,) = lines(split)
    assert line.startswith(shown)


def test_figures_are_compared_with_one_domain() -> None:
    assert lines((15, 1)) == [
        "15 + 1 nodes in 2 NVLink domains, all-reduce 200 to 394 instead of 840, all-to-all 52.5 instead of 570 GB/s"
    ]
    (line,) = lines((8, 8), LinkSpeeds(network=100_000))
    assert line.endswith("all-reduce 840, all-to-all 570 GB/s")


def test_unknown_domains_are_named() -> None:
    (line,) = lines((1, 1), unknown=2)
    assert line.startswith("2 x 1 nodes, as the NVLink domain of 2 nodes is unknown, ")


def test_a_slice_of_one_node_has_only_its_step() -> None:
    assert lines((1,)) == []
    (line,) = lines((1,), traffic=Traffic(compute_s=0.05))
    assert line.startswith("predicted step 0.05 s, an upper limit")


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.0012, "0.0012 s"), (0.9, "0.9 s"), (12.34, "12.3 s"), (900, "900 s")]
)
def test_steps_have_three_digits(seconds: float, shown: str) -> None:
    assert lines((16,), traffic=Traffic(compute_s=seconds))[1].startswith(f"predicted step {shown}, ")


def test_a_step_across_domains_is_a_range() -> None:
    traffic = Traffic(compute_s=0.9, all_reduce_gb=40, all_to_all_gb=6)
    assert "predicted step 1.12 to 1.21 s instead of 0.958 s, an upper limit" in lines((15, 1), traffic=traffic)[1]
