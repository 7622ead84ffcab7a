"""What a queued run is told about the room that it waits for."""

import pytest

from launcher.admission.queue_explain import shortfall_summary
from launcher.core.model.placement import Shortfall


@pytest.mark.parametrize(
    ("within", "slices", "message"),
    [
        ("rack", 2, "2 slices of 5 nodes, each in one rack"),
        ("block", 1, "1 slice of 5 nodes in one block"),
        ("node", 2, "2 slices of 5 nodes, each on one node"),
        ("any", 2, "2 slices of 5 nodes"),
    ],
)
def test_a_shortfall_says_where_each_slice_has_to_be(within: str, slices: int, message: str) -> None:
    short = Shortfall(
        group="main",
        slices=slices,
        nodes_per_slice=4,
        spares=1,
        within=within,
        placed=1,
        largest=3,
        racks=(),
        suggestions=(),
    )
    assert shortfall_summary(short) == f"`main` needs {message}: 1 fit now, the largest free place has 3 nodes"
