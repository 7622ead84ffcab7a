"""What a queued run is told about the room that it waits for."""

import pytest

from launcher.admission.queue.explain import shortfall_summary
from launcher.core.model.placement import Shortfall


@pytest.mark.parametrize(
    ("within", "slices", "message"),
    [
        ("rack", 2, "2 slices of 5 nodes, each in one rack: 1 of 2 fits now, the best rack has 3 free nodes"),
        ("block", 1, "1 slice of 5 nodes in one block: the best block has 3 free nodes"),
        ("node", 2, "2 slices of 5 nodes, each on one node: 1 of 2 fits now, the inventory has 3 free nodes"),
        ("any", 2, "2 slices of 5 nodes: 1 of 2 fits now, the inventory has 3 free nodes"),
    ],
)
def test_a_shortfall_says_where_each_slice_has_to_be(within: str, slices: int, message: str) -> None:
    short = Shortfall(
        group="main",
        slices=slices,
        nodes_per_slice=4,
        spares=1,
        within=within,
        placed=slices - 1,
        largest=3,
        racks=(),
        suggestions=(),
    )
    assert shortfall_summary(short) == f"`main` needs {message}"
