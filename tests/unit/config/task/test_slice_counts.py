"""The default split of a number of nodes into slices."""

import re
from pathlib import Path

import pytest

from launcher.config.task.slice_counts import LEAST_NODES, MOST_NODES, default_split
from tests.unit.config.task.parsing import complaints, parse


@pytest.mark.parametrize(
    ("nodes", "split"),
    [(1, (1, 1)), (16, (1, 16)), (18, (2, 9)), (24, (2, 12)), (40, (4, 10)), (128, (8, 16)), (17, None), (38, None)],
)
def test_default_split(nodes: int, split: tuple[int, int] | None) -> None:
    counts = default_split(nodes)
    assert (counts and (counts.slices, counts.nodes_per_slice)) == split


def test_default_split_has_the_largest_slices() -> None:
    for nodes in range(1, 300):
        sizes = [size for size in range(1, MOST_NODES + 1) if nodes % size == 0]
        sizes = sizes if nodes <= MOST_NODES else [size for size in sizes if size >= LEAST_NODES]
        counts = default_split(nodes)
        assert (counts and counts.nodes_per_slice) == (max(sizes) if sizes else None)


def test_totals_in_the_hint_do_split(tmp_path: Path) -> None:
    text = "resources: {accelerators: GB300:4}\nnum_nodes: %s\nrun: x"
    for nodes in (17, 19, 38, 61, 997):
        (said,) = complaints(tmp_path, text % nodes)
        for size in re.findall(r"(\d+) \(\d+ x \d+\)", said):
            assert parse(tmp_path, text % size).task.groups[0].topology.nodes == int(size)
