"""Fewer slices where no spare is left, and more once there is room."""

from dataclasses import replace

import pytest

from launcher.core.control.reconcile import Decision
from launcher.core.control.slice_count import grows_when
from launcher.core.control.timing import GROW_LONGEST_S
from launcher.core.model.actions import Grow, Resize
from launcher.core.model.receipt import Result
from launcher.core.model.record import DroppedSlice, Retry
from launcher.core.model.run import RunState
from launcher.core.model.task import Group, OnNoSpare, RecoveryPolicy, TopologyRule
from tests.situations import Situation, kinds, make_run, name
from tests.unit.core.control.kernel import outside, wait

SHRINKS = RecoveryPolicy(on_no_spare=OnNoSpare.SHRINK)


def elastic(*, slices: int = 3, least: int = 2, most: int = 3, policy: RecoveryPolicy = SHRINKS) -> Situation:
    """A serving run of slices of two nodes, without spares, with its head on a machine of its own."""
    run = make_run(slices=slices, nodes=2, spares=0, recovery=policy)
    group = run.task.groups[0]
    group = replace(group, topology=replace(group.topology, min_slices=least, max_slices=most))
    here = Situation(outside(replace(run, task=replace(run.task, groups=(group,)))))
    here.serving()
    return here


def lose(here: Situation, rack: int) -> Decision:
    """Lose the second node of a slice, and refuse another one; what is decided then, once all kills are done."""
    here.silent(name(rack, 2), heard=18.0)
    for _ in range(12):
        decision = here.decide(after=1.0)
        for action in decision.actions:
            if action.kind == "kill":
                here.receive(action, Result.KILLED)
            elif action.kind == "add_spare":
                here.receive(action, Result.FAILED, message="none is free")
    return decision


def test_a_slice_is_dropped_only_after_its_rack_was_asked_for_a_node() -> None:
    here = elastic()
    here.silent(name(2, 2), heard=18.0)
    asked = wait(here, 9)
    assert "add_spare:main.s1" in kinds(asked)
    assert here.record.dropping is None
    assert asked.state is RunState.RECOVERING, "nobody is asked to do something: the slice will go"
    here.receive(next(action for action in asked.actions if action.kind == "add_spare"), Result.FAILED, message="none")
    here.decide()
    assert here.record.dropping == "main.s1"


def test_a_slice_is_dropped_once_nothing_of_the_attempt_runs_and_the_action_says_why() -> None:
    here = elastic()
    (resize,) = [action for action in lose(here, 2).actions if isinstance(action, Resize)]
    assert resize.drop == "main.s1"
    assert "r2-n2: NotReady" in resize.reason.message
    assert resize.reason.message.endswith("no spare node available in r2; main continues with 2 of 3 slices")
    assert here.gang().attempt == 1, "no rank starts before the slice is gone"


def test_with_the_fewest_slices_a_run_waits_and_says_so() -> None:
    here = elastic(slices=2)
    decision = lose(here, 1)
    assert decision.state is RunState.ON_HOLD
    assert decision.status_message.endswith("no spare node available in r1; main has its fewest slices")
    assert here.record.dropping is None


def test_a_group_without_a_range_waits_also_if_its_policy_is_to_shrink() -> None:
    here = Situation(outside(make_run(slices=2, nodes=2, spares=0, recovery=SHRINKS)))
    here.serving()
    assert lose(here, 2).state is RunState.ON_HOLD
    assert here.record.dropping is None


def test_the_head_leaves_a_slice_before_it_is_dropped() -> None:
    here = elastic()
    here.record.head = name(1, 1)
    here.decide()
    decision = lose(here, 1)
    assert here.record.dropping == "main.s0"
    assert here.record.head in (name(2, 1), name(2, 2), name(3, 1), name(3, 2))
    assert here.record.cluster == 1
    del decision


def room(here: Situation, seconds: int) -> list[str]:
    """The actions of so many seconds in which one more slice has room."""
    here.room = frozenset({"main"})
    done: list[str] = []
    for _ in range(seconds):
        done += kinds(here.decide(after=1.0))
    return done


def test_a_run_grows_only_after_there_was_room_for_the_whole_time() -> None:
    here = elastic(slices=2)
    assert "grow" not in room(here, 299)
    here.room = frozenset()
    here.decide(after=1.0)
    assert "grow" not in room(here, 299)
    assert "grow" in room(here, 3)


def test_a_run_with_all_its_slices_does_not_grow() -> None:
    assert "grow" not in room(elastic(), 400)


def test_a_run_does_not_grow_while_a_node_is_out_of_sight() -> None:
    here = elastic(slices=2)
    room(here, 290)
    well, head = here.views[name(1, 2)], here.head
    here.silent(name(1, 2), heard=1.0)
    assert "grow" not in room(here, 3)
    here.views[name(1, 2)], here.head = well, head
    assert "grow" not in room(here, 290), "the time starts again"


def test_claimed_nodes_make_a_run_restart_once() -> None:
    here = elastic(slices=2, policy=replace(SHRINKS, grow_after=5.0))
    room(here, 5)
    (grow,) = [action for action in here.decide(after=1.0).actions if isinstance(action, Grow)]
    here.receive(grow)
    decision = here.decide()
    assert {f"signal:r{rack}-n{node}" for rack in (1, 2) for node in (1, 2)} <= set(kinds(decision))
    assert "restarting with other slices" in decision.status_message


@pytest.mark.parametrize(("failures", "seconds"), [(1, 20), (2, 40), (30, GROW_LONGEST_S)])
def test_after_growths_that_failed_the_next_one_waits_longer(failures: int, seconds: float) -> None:
    here = elastic(slices=2, policy=replace(SHRINKS, grow_after=10.0))
    here.record.grown["main"] = Retry(count=failures, at=here.at)
    here.room = frozenset({"main"})
    here.decide()
    assert "grow" not in kinds(here.decide(after=seconds - 1))
    assert "grow" in kinds(here.decide(after=1.0))


def test_a_growth_that_did_not_last_counts_and_one_that_did_is_forgotten() -> None:
    here = elastic()
    here.record.grown["main"] = Retry(count=1, at=here.at)
    lose(here, 2)
    assert here.record.grown["main"].count == 2
    here = elastic()
    here.record.grown["main"] = Retry(count=1, at=here.at)
    here.at += 3600.0
    lose(here, 2)
    assert here.record.grown == {}


def test_the_status_message_says_how_many_slices_there_are_why_and_what_is_waited_for() -> None:
    here = elastic(slices=2)
    here.record.shrunk["main"] = DroppedSlice(place="r03", message="r03-n02: 3 of 4 GPUs")
    decision = here.decide()
    assert decision.status_message == (
        "4 of 4 ranks running; main: 2 of 3 slices; r03 has no spare; grows when 2 nodes of one rack are free"
    )
    here.record.shrunk["main"] = DroppedSlice(place="any", message="r03-n02: 3 of 4 GPUs")
    assert "; no spare is left; grows when" in here.decide().status_message
    here.room = frozenset({"main"})
    assert here.decide().status_message.endswith("there is room for more: grows if that lasts 5m")


@pytest.mark.parametrize(
    ("within", "nodes", "when"),
    [
        ("block", 2, "grows when 2 nodes of one block are free"),
        ("any", 2, "grows when 2 nodes are free"),
        ("node", 1, "grows when 1 node is free"),
    ],
)
def test_what_has_to_be_free_is_said_without_a_place_where_any_will_do(within: str, nodes: int, when: str) -> None:
    rule = TopologyRule(slices=2, nodes_per_slice=nodes, within=within)
    assert grows_when(Group(name="main", topology=rule)) == when


def test_the_time_to_grow_comes_also_where_it_is_no_round_number() -> None:
    here = elastic(slices=2)
    here.at, here.room = 301.69999999999993, frozenset({"main"})
    decision = here.decide(after=0.0)
    here.at = 601.0
    decision = here.decide(after=0.0)
    assert here.at < decision.wake_at
    here.at = decision.wake_at
    assert "grow" in kinds(here.decide(after=0.0))
