"""What people read of a run: which spares it has left."""

from dataclasses import replace

import pytest

from launcher.core.control.conditions import Condition
from launcher.core.control.status import RankState, summarise
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Phase, Step
from launcher.core.model.placement import Placement
from launcher.core.model.record import Outcome
from launcher.core.model.run import Cause, MemberName, RunState
from launcher.core.model.task import Group, TopologyRule
from launcher.core.placement.colocation import with_colocated_slices
from tests.situations import Situation, make_run, name


def spares(at: Situation) -> list[NodeName]:
    """The nodes that the status of a run calls spares now."""
    shown = summarise(at.run, at.decide(), since=0.0, observed_at=0.0, drained=at.drained)
    return [spare.node for spare in shown.spares]


def test_a_node_that_gave_up_its_slot_and_is_well_again_is_a_spare() -> None:
    at = Situation(make_run(slices=1, nodes=2, spares=1))
    at.serving()
    assert spares(at) == [name(1, 3)]
    slots = dict(at.record.slots)
    slots[MemberName("main/0")] = replace(slots[MemberName("main/0")], node=name(1, 3), generation=2)
    at.record = replace(at.record, slots=slots)
    assert spares(at) == [name(1, 1)]


def test_a_node_whose_setup_failed_is_not_called_lost() -> None:
    at = Situation(make_run(slices=1, nodes=2, spares=0))
    at.leased()
    at.agent(name(1, 2), setup=Step(phase=Phase.FAILED, exit_code=7))
    shown = summarise(at.run, at.decide(), since=0.0, observed_at=0.0)
    assert [rank.state for rank in shown.ranks] == [RankState.WAITING, RankState.FAILED]


def test_a_drained_spare_is_none_until_it_is_back_in_service() -> None:
    at = Situation(make_run(slices=1, nodes=2, spares=1))
    at.serving()
    at.drained[name(1, 3)] = "ticket 17"
    assert spares(at) == []
    shown = summarise(at.run, at.decide(), since=0.0, observed_at=0.0, drained=at.drained)
    assert [one.node for one in shown.drained] == [name(1, 3)]
    at.drained.clear()
    assert spares(at) == [name(1, 3)]


def test_a_node_that_groups_shared_is_listed_once() -> None:
    run = make_run(slices=1, nodes=2, spares=1)
    guest = Group(name="guest", topology=TopologyRule(nodes_per_slice=2, nodes_of="main"), run="true")
    task = replace(run.task, groups=(*run.task.groups, guest))
    placement = Placement(slices=with_colocated_slices(task, run.placement.slices))
    at = Situation(replace(run, task=task, placement=placement))
    at.decide()
    slots = dict(at.record.slots)
    for member in ("main/0", "guest/0"):
        slots[MemberName(member)] = replace(slots[MemberName(member)], node=name(1, 3), generation=2)
    at.record = replace(at.record, slots=slots)
    assert spares(at) == [name(1, 1)]


def test_the_dashboard_is_shown_where_a_task_asks_for_it_until_its_run_is_over() -> None:
    at = Situation(make_run(slices=1, nodes=2, spares=0))
    decision, asks = at.decide(), replace(at.run, task=replace(at.run.task, dashboard=True))
    common = {"since": 0.0, "observed_at": 0.0}
    assert summarise(at.run, decision, **common, dashboard=6413).dashboard is None
    assert "6413" in str(summarise(asks, decision, **common, dashboard=6413).dashboard)
    over = replace(decision, state=RunState.STOPPED)
    assert summarise(asks, over, **common, dashboard=6413).dashboard is None


@pytest.mark.parametrize(("began", "state"), [(True, RankState.ENDED), (False, RankState.WAITING)])
def test_a_rank_that_is_gone_because_its_run_ends_is_not_called_lost(began: bool, state: RankState) -> None:
    at = Situation(make_run(slices=1, nodes=2, spares=0))
    at.serving() if began else at.leased()
    at.record = replace(at.record, outcome=Outcome(cause=Cause.STOPPED, message="taken down"))
    decision = at.decide()
    gone = replace(decision, conditions=dict.fromkeys(decision.conditions, Condition.LOST))
    shown = summarise(at.run, gone, since=0.0, observed_at=0.0)
    assert [rank.state for rank in shown.ranks] == [state, state]
    alive = replace(gone, record=replace(gone.record, outcome=None))
    assert {rank.state for rank in summarise(at.run, alive, since=0.0, observed_at=0.0).ranks} == {RankState.LOST}
