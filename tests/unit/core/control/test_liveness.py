"""Nodes that fall silent: who is believed, what is proven, and what is done about it."""

from dataclasses import replace

import pytest

from launcher.core.control.liveness import head_expired
from launcher.core.control.reconcile import Decision
from launcher.core.model.actions import PowerOff, Reason, Release, Result, Unit, Why
from launcher.core.model.inventory import Access
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import GroupState, HeadSeen, Phase, Reached, Seen, Step, Symptom, Unseen
from launcher.core.model.operator_requests import RequestKind
from launcher.core.model.run import MemberName, Run, RunState
from launcher.core.model.task import OnNoSpare, RecoveryPolicy
from tests.situations import Situation, key, kinds, make_run, name

LOST = name(1, 2)
REASON = Reason(why=Why.HEAD, message="the test asks for it")


def outside(run: Run) -> Run:
    """The run with its head on a machine of its own."""
    return replace(run, fleet=replace(run.fleet, head=Access(address="10.9.9.9")))


def serving(run: Run | None = None) -> Situation:
    here = Situation(outside(run or make_run(slices=2, nodes=2, spares=1)))
    here.serving()
    return here


def wait(here: Situation, seconds: float) -> Decision:
    """Tick each second, the head's ear going on."""
    decision = here.decide(after=1.0)
    for _ in range(int(seconds) - 1):
        decision = here.decide(after=1.0)
    return decision


def holder(here: Situation, member: str = "main/1") -> str:
    return here.record.slots[MemberName(member)].node


def test_ten_seconds_of_silence_change_nothing() -> None:
    here = serving()
    here.silent(LOST, heard=10.0)
    decision = wait(here, 10)
    assert decision.actions == ()
    here.agent(LOST)
    assert holder(here) == LOST


def test_a_node_that_two_witnesses_miss_is_replaced_only_once_its_agent_must_have_stopped() -> None:
    here = serving()
    here.silent(LOST, heard=17.0)
    wait(here, 12)
    assert holder(here) == LOST
    here.silent(LOST, heard=18.0)
    here.decide()
    assert holder(here) == "r1-n3"
    assert here.gang().restarts == 0
    assert here.record.failed_nodes[LOST].mends


def test_we_alone_cannot_fail_a_node() -> None:
    here = serving()
    here.views[LOST] = Unseen(message="timed out")
    for _ in range(100):
        assert here.decide(after=1.0).actions == ()
    assert holder(here) == LOST


@pytest.mark.parametrize("says", ["neighbour", "head"])
def test_whoever_says_that_it_answers_is_believed(says: str) -> None:
    here = serving()
    here.silent(LOST, heard=0.5 if says == "head" else 60.0)
    here.reached[LOST] = Reached(by=name(2, 1), answers=says == "neighbour")
    for _ in range(60):
        assert here.decide(after=1.0).actions == ()
    assert "unreachable: r1-n2" in here.decide().status_message


def test_power_is_cut_where_the_inventory_says_how_and_nobody_waits_for_the_agent() -> None:
    run = make_run(slices=1, nodes=2, spares=1)
    here = serving(replace(run, fleet=replace(run.fleet, fence_command="off {node}")))
    here.silent(LOST, heard=9.0)
    (off,) = wait(here, 10).actions
    assert isinstance(off, PowerOff)
    assert off.node == LOST
    assert holder(here) == LOST
    here.receive(off, Result.POWERED_OFF)
    here.decide()
    assert holder(here) == "r1-n3"


def test_a_power_off_that_fails_is_tried_again_and_proves_nothing() -> None:
    run = make_run(slices=1, nodes=2, spares=1)
    here = serving(replace(run, fleet=replace(run.fleet, fence_command="off {node}")))
    here.silent(LOST, heard=9.0)
    (off,) = wait(here, 10).actions
    here.receive(off, Result.FAILED, message="no such chassis")
    assert here.decide().actions == ()
    assert holder(here) == LOST
    assert kinds(here.decide(after=2.0)) == ["power_off:r1-n2"]


def test_an_operators_word_is_proof_but_not_against_what_we_see() -> None:
    here = serving()
    here.order(RequestKind.CONFIRM_DEAD, LOST)
    here.decide()
    assert holder(here) == LOST
    here.views[LOST] = Unseen(message="timed out")
    here.order(RequestKind.CONFIRM_DEAD, LOST)
    here.decide()
    assert holder(here) == "r1-n3"


def test_a_fence_is_not_tried_on_a_node_that_is_out_of_reach() -> None:
    here = serving()
    here.end_rank(0, 1)
    here.silent(LOST)
    for _ in range(100):
        for action in here.decide(after=1.0).actions:
            assert not key(action).startswith("kill:r1-n2"), "each try is a line of the journal"
            here.receive(action, Result.KILLED)


def test_a_gang_does_not_start_while_an_old_rank_may_run_where_nobody_sees_it() -> None:
    here = serving(make_run(slices=1))
    here.end_rank(0, 1)
    here.views[LOST] = Unseen(message="timed out")
    for _ in range(60):
        decision = here.decide(after=1.0)
        for action in decision.actions:
            here.receive(action, Result.KILLED)
        assert "start:run@2" not in kinds(decision)


def test_a_rank_that_failed_beside_a_node_that_is_gone_costs_no_restart() -> None:
    here = serving(make_run(slices=1))
    here.silent(LOST, heard=3.0)
    here.end_rank(0, 1)
    wait(here, 6)
    here.silent(LOST, heard=10.0)
    wait(here, 6)
    assert here.gang().restarts == 0
    here.silent(LOST, heard=19.0)
    here.decide()
    assert (here.gang().restarts, holder(here)) == (0, "r1-n3")


def test_nothing_is_touched_when_no_node_can_be_seen() -> None:
    here = serving()
    here.views = dict.fromkeys(here.views, Unseen(message="timed out"))
    here.head = Unseen(message="timed out")
    for _ in range(100):
        assert here.decide(after=1.0).actions == ()
    decision = here.decide()
    assert decision.state is RunState.ON_HOLD
    assert "no node of the run is reachable" in decision.status_message


def test_a_node_that_comes_back_serves_again_after_two_good_answers_half_a_minute_apart() -> None:
    here = serving(make_run(slices=1, spares=0))
    here.silent(LOST, heard=18.0)
    wait(here, 9)
    assert here.decide().state is RunState.ON_HOLD
    here.views[LOST] = Seen()
    del here.reached[LOST]
    back = here.at
    while LOST in here.record.failed_nodes:
        here.decide(after=1.0)
        assert here.at < back + 60.0
    assert here.at - back >= 30.0
    assert here.record.slots[MemberName("main/1")].generation == 1
    assert "acquire:r1-n2" in kinds(here.decide())


def test_a_sick_node_does_not_come_back() -> None:
    here = serving(make_run(slices=1, spares=0))
    here.silent(LOST, heard=18.0)
    wait(here, 9)
    here.views[LOST] = Seen()
    here.sign(LOST, Symptom.MEMORY, "Xid 95")
    wait(here, 100)
    assert LOST in here.record.failed_nodes


def test_an_operator_readmits_any_node() -> None:
    here = serving(make_run(slices=1, recovery=RecoveryPolicy(node_attempts=0)))
    here.agent(LOST, ray=Step(phase=Phase.FAILED, exit_code=1))
    here.decide()
    assert LOST in here.record.failed_nodes
    here.order(RequestKind.READMIT, LOST)
    here.decide()
    assert LOST not in here.record.failed_nodes


def test_a_node_that_falls_silent_too_often_does_not_come_back_by_itself() -> None:
    here = serving(make_run(slices=1, recovery=RecoveryPolicy(node_attempts=0)))
    here.silent(LOST, heard=18.0)
    wait(here, 9)
    assert not here.record.failed_nodes[LOST].mends


def test_without_a_spare_one_is_asked_for_in_the_rack_and_only_then_another_rack() -> None:
    policy = RecoveryPolicy(on_no_spare=OnNoSpare.RELOCATE)
    here = serving(make_run(slices=1, spares=0, recovery=policy))
    here.silent(LOST, heard=18.0)
    asked = wait(here, 9)
    assert "add_spare:main.s0" in kinds(asked)
    assert not [action for action in asked.actions if action.kind == "relocate"]
    add_spare = next(action for action in asked.actions if action.kind == "add_spare")
    here.receive(add_spare, Result.FAILED, message="none is free")
    (relocate,) = (action for action in here.decide(after=5.0).actions if action.kind == "relocate")
    assert relocate.without == (LOST,)


def test_a_task_that_waits_is_never_moved_to_another_rack() -> None:
    here = serving(make_run(slices=1, spares=0))
    here.silent(LOST, heard=18.0)
    for _ in range(200):
        for action in here.decide(after=1.0).actions:
            assert action.kind != "relocate"
            here.receive(action, Result.FAILED if action.kind == "add_spare" else Result.KILLED, message="none is free")


def votes(*silent: float | None) -> Situation:
    """A run with its head on r1-n1, which nobody sees; each of the others has missed it for so long."""
    here = Situation(make_run(slices=1, nodes=len(silent) + 1, spares=0))
    here.serving()
    here.head = here.views[name(1, 1)] = Unseen(message="timed out")
    here.reached[name(1, 1)] = Reached(by=name(1, 2), answers=False)
    for at, seconds in enumerate(silent, start=2):
        here.agent(name(1, at), head_silent=seconds)
    return here


@pytest.mark.parametrize(
    ("silent", "proven"),
    [
        ((18.0, 19.0, 20.0), True),
        ((18.0, 18.0, 0.0), False),
        ((18.0,), False),
        ((18.0, 18.0), True),
        ((18.0, 17.9), False),
        ((18.0, None, None), False),
        ((200.0, 201.0, 202.0), True),
        # Two that fell away minutes ago are not of those that it counts on now.
        ((300.0, 200.0, 18.0, 0.0), False),
        ((18.0, 65.0, 110.0), False),
    ],
    ids=str,
)
def test_a_silent_head_is_proven_dead_by_more_than_half_of_those_that_it_counts_on(
    silent: tuple[float | None, ...], proven: bool
) -> None:
    here = votes(*silent)
    assert (head_expired(here.observation(), here.record.leased, name(1, 1)) is not None) is proven


def test_a_lost_head_node_begins_a_new_cluster_in_the_same_rack() -> None:
    here = votes(18.0, 18.0, 18.0)
    decision = wait(here, 9)
    assert (here.record.cluster, here.record.head) == (1, "r1-n2")
    assert {slot.generation for slot in here.record.slots.values() if slot.node != "r1-n1"} == {1}
    assert here.record.former_heads == ["r1-n1"]
    assert not [action for action in decision.actions if action.kind == "start"]


def test_a_head_that_cannot_be_proven_dead_is_waited_for_and_people_are_asked() -> None:
    here = votes(18.0)
    for _ in range(60):
        assert here.decide(after=1.0).actions == ()
    decision = here.decide()
    assert here.record.cluster == 0
    assert decision.state is RunState.ON_HOLD
    assert "If it is off: nvlaunch confirm-dead r1-n1" in decision.status_message
    here.order(RequestKind.CONFIRM_DEAD, name(1, 1))
    here.decide()
    assert here.record.cluster == 1


def test_a_head_that_answers_some_of_its_peers_is_waited_for() -> None:
    here = votes(18.0, 18.0, 0.0)
    for _ in range(60):
        assert here.decide(after=1.0).actions == ()
    assert here.record.cluster == 0


def test_the_old_head_is_let_go_of_when_its_node_is_seen_again() -> None:
    here = votes(18.0, 18.0, 18.0)
    wait(here, 9)
    here.head = HeadSeen()
    here.views[name(1, 1)] = Seen()
    decision = here.decide()
    (old,) = (action for action in decision.actions if key(action) == "release:head:r1-n1")
    here.receive(old, Result.KILLED)
    here.decide()
    assert here.record.former_heads == []


def test_a_raylet_that_ray_has_given_up_is_started_again_where_it_is() -> None:
    here = serving(make_run(slices=1))
    assert isinstance(here.head, HeadSeen)
    assert here.head.head is not None
    nodes = tuple(replace(node, alive=node.slot != "main-1") for node in here.head.head.nodes)
    here.head = HeadSeen(head=replace(here.head.head, nodes=nodes))
    assert here.decide().actions == ()
    decision = here.decide(after=6.0)
    assert "kill:r1-n2:generation:main/1@0#0" in kinds(decision)
    assert holder(here) == LOST


def test_nodes_that_stopped_because_the_heads_host_was_silent_are_not_blamed() -> None:
    here = Situation(make_run(slices=1, nodes=3, spares=0))
    here.serving()
    for at in (2, 3):
        here.agent(NodeName(f"r1-n{at}"), ray=Step(phase=Phase.FAILED, exit_code=1), head_silent=16.0)
    here.head = here.views[name(1, 1)] = Unseen(message="timed out")
    here.decide()
    assert not here.record.node_attempts


def test_a_node_that_had_another_slot_gets_a_raylet_newer_than_the_one_of_then() -> None:
    here = serving(make_run(slices=1, nodes=2, spares=1))
    slots = dict(here.record.slots)
    slots[MemberName("main/0")] = replace(slots[MemberName("main/0")], generation=4)
    here.record = replace(here.record, slots=slots)
    here.silent(LOST, heard=18.0)
    wait(here, 9)
    assert here.record.slots[MemberName("main/1")].generation == 5


def test_a_group_that_ray_places_nowhere_again_and_again_makes_the_runs_ray_begin_anew() -> None:
    here = Situation(make_run(slices=1))
    here.ready()
    for _ in range(200):
        assert isinstance(here.head, HeadSeen)
        assert here.head.head is not None
        stuck = tuple(replace(group, state=GroupState.RESCHEDULING) for group in here.head.head.groups)
        here.head = HeadSeen(head=replace(here.head.head, groups=stuck))
        decision = here.decide(after=1.0)
        for action in decision.actions:
            here.receive(action, Result.KILLED if action.kind in ("kill", "release") else Result.DONE)
        if here.record.cluster:
            break
    assert {slot.generation for slot in here.record.slots.values()} == {1}
    assert here.record.former_heads == ["r1-n1"], "the one before is ended first, on the same node"
    assert "release:head:r1-n1" in kinds(here.decide())
    here.receive(Release(reason=REASON, node=name(1, 1), unit=Unit.HEAD), Result.KILLED)
    here.head = HeadSeen()
    assert "start_head@1" in kinds(here.decide())


def test_a_fence_on_a_node_that_falls_silent_to_us_alone_holds_its_gang_up() -> None:
    here = serving(make_run(slices=1))
    here.sign(LOST, Symptom.GPU_LOST, "3 of 4 GPUs")
    here.decide()
    assert holder(here) == "r1-n3"
    here.views[LOST] = Unseen(message="timed out")
    here.reached[LOST] = Reached(by=name(2, 1), answers=True)
    for _ in range(60):
        decision = here.decide(after=1.0)
        for action in decision.actions:
            here.receive(action, Result.KILLED if action.kind == "kill" else Result.DONE)
        here.verify(decision.actions)
        here.show_ready(here.record.slots)
        for slot in here.record.slots.values():
            here.agent(slot.node, ranks=())
        assert "start:run@2" not in kinds(decision), "its old rank may still run where we cannot see it"
    here.silent(LOST, heard=18.0)
    here.decide()
    assert here.gang().attempt == 2


def test_power_is_not_cut_of_a_node_that_has_only_just_fallen_silent() -> None:
    run = make_run(slices=1, nodes=2, spares=1)
    here = serving(replace(run, fleet=replace(run.fleet, fence_command="off {node}")))
    here.silent(LOST, heard=30.0)
    for _ in range(7):
        assert here.decide(after=1.0).actions == ()


def test_an_order_is_obeyed_once() -> None:
    here = serving(make_run(slices=1, spares=0))
    here.order(RequestKind.CONFIRM_DEAD, LOST)
    here.decide()
    here.views[LOST] = Unseen(message="timed out")
    for _ in range(20):
        here.decide(after=1.0)
    assert LOST not in here.record.failed_nodes, "it was meant when we still saw the node"


def test_spares_of_a_rack_serve_every_slice_there_and_none_elsewhere() -> None:
    run = make_run(slices=3, nodes=2, spares=1)
    first, second, third = run.placement.slices
    shared = replace(second, place="r1", rack=first.rack, domain=first.domain, spares=())
    group = run.task.groups[0]
    group = replace(group, topology=replace(group.topology, spares=0, spares_per_rack=1))
    slices = (first, shared, replace(third, spares=()))
    run = replace(run, placement=replace(run.placement, slices=slices), task=replace(run.task, groups=(group,)))
    here = serving(run)
    here.silent(name(3, 1), heard=18.0)
    wait(here, 9)
    assert holder(here, "main/4") == "r3-n1", "its rack has none"
    here.silent(name(2, 1), heard=18.0)
    wait(here, 9)
    assert holder(here, "main/2") == "r1-n3"


def test_a_spare_that_stays_out_of_sight_is_replaced_by_another_and_nobody_is_asked_each_second() -> None:
    here = serving(make_run(slices=1))
    here.silent(LOST, name(1, 3), heard=18.0)
    asked = 0
    for _ in range(120):
        for action in here.decide(after=1.0).actions:
            asked += action.kind == "add_spare"
            here.receive(action)
    assert here.record.failed_nodes[name(1, 3)].mends
    assert 1 <= asked <= 8


def test_an_operators_word_waits_while_somebody_still_hears_the_node() -> None:
    here = serving()
    here.silent(LOST, heard=1.0)
    here.decide(after=3.0)
    here.order(RequestKind.CONFIRM_DEAD, LOST)
    decision = here.decide()
    assert holder(here) == LOST, "two of one rank would write to one checkpoint"
    assert "r1-n2 is confirmed dead, but not failed yet: heartbeat at the head 1 s ago" in decision.status_message
    here.orders.clear()
    here.silent(LOST, heard=9.0)
    here.decide()
    assert holder(here) == "r1-n3"
