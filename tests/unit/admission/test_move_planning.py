"""Room that is wanted for a task or for slices, beside live runs of the same name."""

from pathlib import Path

import pytest

from launcher.admission.moves.planning import plan_moves, room_for_slices
from launcher.cli.output.defrag import refusal_text
from launcher.core.planner.defragment import NoMovePlan
from launcher.store.store import Store
from tests.unit.admission.test_slice_room import RACKS, launch

TOO_LARGE = "it does not fit even on the empty inventory"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_a_live_run_named_as_the_task_for_slices_keeps_its_nodes(store: Store) -> None:
    for name, rack in (("room", "r1"), ("other", "r2")):
        launch(store, name, 18, rack)
    assert isinstance(plan_moves(store, room_for_slices(RACKS, 1, 18)), NoMovePlan)


@pytest.mark.parametrize(
    ("slices", "size", "counts"),
    [
        (
            9_999_999,
            1,
            f"9999999 slices of 1 node: {TOO_LARGE}: it needs 9999999 nodes of 36",
        ),
        (1, 19, f"1 slice of 19 nodes: {TOO_LARGE}: the largest rack has 18 nodes"),
    ],
)
def test_what_no_empty_inventory_holds_is_refused_at_once_by_its_counts(
    store: Store, slices: int, size: int, counts: str
) -> None:
    launch(store, "here", 4, "r1")
    room = room_for_slices(RACKS, slices, size)
    found = plan_moves(store, room)
    assert isinstance(found, NoMovePlan)
    assert refusal_text(room, found) == f"no moves make room for {counts}"


def test_a_refusal_says_once_that_no_moves_make_room(store: Store) -> None:
    for name, rack in (("one", "r1"), ("two", "r2")):
        launch(store, name, 10, rack)
    room = room_for_slices(RACKS, 1, 18)
    found = plan_moves(store, room)
    assert isinstance(found, NoMovePlan)
    assert refusal_text(room, found).splitlines()[0] == "no moves make room for 1 slice of 18 nodes"
