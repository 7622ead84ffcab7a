"""What a queued run is told about the room that it waits for."""

import pytest

from launcher.admission.queue.explain import shortfall_summary, status_message
from launcher.core.model.placement import Shortfall
from launcher.core.model.run import RunId, RunName
from launcher.core.model.task import Task
from launcher.core.queue.backfill import QueueDecision, QueuedRun


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


def turn(run: str) -> QueueDecision:
    queued = QueuedRun(id=RunId(run), name=RunName(run), task=Task(name=run, groups=()), since=0.0)
    return QueueDecision(run=queued, placement=None, after=None, victims=(), unavailable={}, reserved={})


def test_a_place_in_the_queue_counts_runs_whose_controllers_are_about_to_start() -> None:
    order = [turn("a"), turn("b")]
    assert status_message(RunId("a"), order[:1], 2, "why") == "number 1 of 2 in the queue: why"
    assert status_message(RunId("b"), order, 2, "why") == "number 2 of 2 in the queue: why"
    assert status_message(RunId("c"), order, 3, "why") == "behind 2 others in the queue: why"
