"""Plans of moves as text: limits and numbers."""

import json

import pytest

from launcher.admission.moves.planning import room_for_slices
from launcher.cli.output.defrag import excess, plan_json, plan_text
from launcher.core.model.nodeset import fold
from launcher.core.model.placement import Placement, Slice
from launcher.core.model.run import RunName
from launcher.core.planner.defragment import MovePlan, MoveStep, SliceMove
from tests.unit.store.test_store import a_fleet


def a_plan(*costs: float) -> MovePlan:
    steps = tuple(MoveStep(gang="job", moves=(), gpu_hours=cost) for cost in costs)
    return MovePlan(steps=steps, placement=Placement(slices=()), bound_gpu_hours=0.0, proven=False)


@pytest.mark.parametrize(
    ("cost", "limit", "message"),
    [
        (0.8311, 0.8, "the moves cost 0.83 GPU-hours, more than 0.8"),
        (0.80004, 0.8, "the moves cost 0.80004 GPU-hours, more than 0.8"),
        (25.0, 20.0, "the moves cost 25.0 GPU-hours, more than 20"),
        (0.8, 0.8, None),
    ],
)
def test_the_cost_is_shown_with_the_digits_that_put_it_over_the_limit(
    cost: float, limit: float, message: str | None
) -> None:
    assert excess(a_plan(cost), limit, None) == message


@pytest.mark.parametrize(
    ("slices", "message"), [(1, "1 slice of 2 nodes fits now"), (3, "3 slices of 2 nodes fit now")]
)
def test_room_that_is_there_is_said_in_the_number_of_the_slices(slices: int, message: str) -> None:
    assert plan_text(room_for_slices(a_fleet(8), slices, 2), a_plan()) == f"no moves needed: {message}"


def test_slices_that_may_be_anywhere_are_named_by_the_racks_of_their_nodes() -> None:
    fleet = a_fleet(8)
    nodes = tuple(node.name for node in fleet.nodes)
    racks = {node.rack for node in fleet.nodes}
    old, new, room = (
        Slice(group="main", index=0, place="any", rack=None, domain=None, nodes=part)
        for part in (nodes[:2], nodes[2:4], nodes[:2])
    )
    step = MoveStep(gang="job", moves=(SliceMove(run=RunName("job"), old=old, new=new),), gpu_hours=1.0)
    plan = MovePlan(steps=(step,), placement=Placement(slices=(room,)), bound_gpu_hours=0.0, proven=False)
    request = room_for_slices(fleet, 1, 2)
    text, plain = plan_text(request, plan), json.loads(plan_json(request, plan))["plan"]
    assert "any" not in text.split()
    assert "None" not in text
    assert plain["room"][0]["rack"] == fold(racks)
    assert plain["steps"][0]["moves"][0]["from"]["rack"] == fold(racks)
