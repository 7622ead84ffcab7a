"""Room that is wanted for a task or for slices, beside live runs of the same name."""

from pathlib import Path

import pytest

from launcher.admission.moves.planning import plan_moves, room_for_slices
from launcher.core.planner.defragment import NoMovePlan
from launcher.store.store import Store
from tests.unit.admission.test_slice_room import RACKS, launch


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_a_live_run_named_as_the_task_for_slices_keeps_its_nodes(store: Store) -> None:
    for name, rack in (("room", "r1"), ("other", "r2")):
        launch(store, name, 18, rack)
    assert isinstance(plan_moves(store, room_for_slices(RACKS, 1, 18)), NoMovePlan)
