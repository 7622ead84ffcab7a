"""Orders of moves as the subject of a request: what is written is what is read."""

import pytest

from launcher.core.model.move_order import MoveOrder, SliceNodes, read_order
from launcher.core.model.nodeset import NodeName


def nodes(*names: str) -> tuple[NodeName, ...]:
    return tuple(map(NodeName, names))


def test_an_order_is_read_as_it_was_written() -> None:
    order = MoveOrder(
        plan="defrag-ab12",
        slices=(
            SliceNodes(slice="main.s0", nodes=nodes("r02-n01", "r02-n02", "r02-n17")),
            SliceNodes(slice="main.s10", nodes=nodes("odd.name")),
        ),
    )
    assert str(order) == "defrag-ab12 main.s0=r02-n[01-02,17] main.s10=odd.name"
    assert read_order(str(order)) == order


def test_an_order_without_slices_takes_one_back() -> None:
    assert str(MoveOrder(plan="defrag-ab12")) == "defrag-ab12 back"
    assert read_order("defrag-ab12 back") == MoveOrder(plan="defrag-ab12")


@pytest.mark.parametrize("subject", ["main.s0", ""])
def test_the_name_of_a_slice_is_no_order(subject: str) -> None:
    assert read_order(subject) is None


def test_a_malformed_order_moves_nothing() -> None:
    assert read_order("defrag-ab12 main.s0=r1-n[1-") == MoveOrder(plan="defrag-ab12")
