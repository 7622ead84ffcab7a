"""Slurm's fragmentation score, by the figures of its own test: eight blocks of four nodes, in sizes 4, 8, 16 and 32."""

from dataclasses import replace

import pytest

from launcher.core.placement.fragmentation import fragmentation
from tests.property.ray_rule import racks_of

EIGHT = racks_of([4] * 8)
NAMES = [node.name for node in EIGHT.nodes]


@pytest.mark.parametrize(
    ("busy", "score"),
    [(range(32), 160), ((), 0), ([0], 61), ([0, 1, 2], 63), ([0, 1, 2, 31], 92)],
    ids=["nothing free", "all free", "one node", "three of one block", "two blocks"],
)
def test_the_score_is_that_of_slurm(busy: list[int], score: int) -> None:
    assert fragmentation(EIGHT, {NAMES[at] for at in busy}) == score


def test_a_rack_of_eighteen_is_whole_while_it_has_sixteen() -> None:
    racks = racks_of([18, 18])
    names = [node.name for node in racks.nodes]
    assert [fragmentation(racks, set(names[:busy])) for busy in (0, 2, 3)] == [0, 2, 3 + 16 + 32]


def test_a_drained_node_is_not_free_and_an_empty_fleet_has_no_score() -> None:
    drained = replace(EIGHT, nodes=(replace(EIGHT.nodes[0], drained="x"), *EIGHT.nodes[1:]))
    assert fragmentation(drained, ()) == 61
    assert fragmentation(replace(EIGHT, nodes=()), ()) == 0
