"""Spares: which one takes a slot, and what happens without one."""

from dataclasses import replace

from launcher.core.model.action_key import key_of
from launcher.core.model.inventory import Access, Node, RackName
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Phase, Seen, Step, Symptom, Unseen
from launcher.core.model.receipt import Result
from launcher.core.model.run import Cause, MemberName, RunState
from launcher.core.model.task import OnNoSpare, RecoveryPolicy
from tests.situations import DONE, Situation, kinds, make_run, name
from tests.unit.core.control.kernel import LOST, holder, lose_raylet, serving, serving_slice, wait


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
    assert holder(here, 4) == "r3-n1", "its rack has none"
    here.silent(name(2, 1), heard=18.0)
    wait(here, 9)
    assert holder(here, 2) == "r1-n3"


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


def test_one_spare_serves_one_of_two_lost_nodes_and_the_other_waits() -> None:
    here = Situation(make_run(slices=1, nodes=2, spares=1, recovery=RecoveryPolicy(node_attempts=0)))
    here.serving()
    for rank in (0, 1):
        slot = here.record.slots[MemberName(f"main/{rank}")]
        here.agent(slot.node, ray=Step(phase=Phase.FAILED, exit_code=1, generation=slot.generation))
    decision = here.decide()
    holders = [slot.node for slot in here.record.slots.values()]
    assert sorted(holders) == ["r1-n2", "r1-n3"]
    assert decision.state is RunState.ON_HOLD


def test_a_spare_that_was_failed_is_not_taken() -> None:
    here = Situation(make_run(slices=1, nodes=1, spares=2, recovery=RecoveryPolicy(node_attempts=0)))
    here.serving()
    for spare in ("r1-n2", "r1-n3"):
        slot = here.record.slots[MemberName("main/0")]
        here.agent(slot.node, setup=DONE, ray=Step(phase=Phase.FAILED, exit_code=1, generation=slot.generation))
        here.decide()
        assert here.record.slots[MemberName("main/0")].node == spare
        for kill in here.record.kills:
            here.receive(kill, Result.KILLED)
        here.decide()


def test_without_a_spare_a_started_run_waits_and_says_so() -> None:
    here = Situation(make_run(slices=1, spares=0, recovery=RecoveryPolicy(node_attempts=0)))
    here.serving()
    here.receive(lose_raylet(here), Result.KILLED)
    decision = here.decide()
    assert decision.state is RunState.ON_HOLD
    assert "main/1 waits for a node: r1-n2: raylet exited with 1" in decision.status_message


def test_without_a_spare_a_run_that_may_not_wait_is_given_up() -> None:
    policy = RecoveryPolicy(node_attempts=0, on_no_spare=OnNoSpare.FAIL)
    here = Situation(make_run(slices=1, spares=0, recovery=policy))
    here.serving()
    here.agent(name(1, 2), ray=Step(phase=Phase.FAILED, exit_code=1))
    here.decide()
    assert here.record.outcome is not None
    assert here.record.outcome.cause is Cause.EXHAUSTED


def test_a_spare_that_can_be_seen_is_taken_before_one_that_cannot() -> None:
    here = Situation(make_run(slices=1, nodes=1, spares=2, recovery=RecoveryPolicy(node_attempts=0)))
    here.serving()
    here.views[name(1, 2)] = Unseen(message="timed out")
    here.agent(name(1, 1), ray=Step(phase=Phase.FAILED, exit_code=1))
    here.decide()
    assert here.record.slots[MemberName("main/0")].node == "r1-n3"


def test_a_spare_whose_agent_is_gone_is_claimed_again_and_given_up_in_the_end() -> None:
    here = Situation(make_run(slices=1, recovery=RecoveryPolicy(node_attempts=1)))
    here.serving()
    here.views[name(1, 3)] = Seen()
    again = here.decide()
    assert kinds(again) == ["acquire:r1-n3"]
    here.receive(again.actions[0])
    here.decide()
    assert "r1-n3" in here.record.failed_nodes
    assert here.record.slots[MemberName("main/1")].node == "r1-n2"


def test_a_spare_that_is_sick_is_given_up_and_nobody_notices() -> None:
    here = serving_slice()
    here.park_spares()
    here.sign(name(1, 9), Symptom.GPU_LOST, "3 of 4 GPUs")
    decision = here.decide()
    assert kinds(decision) == ["release:slot:r1-n9"]
    assert decision.state is RunState.RUNNING


def with_another_node(here: Situation) -> NodeName:
    """The slice got one more node than its task asks for, r1-n9: r1-n2 had to be left, and it took the slot."""
    new = name(1, 9)
    here.drained[LOST] = "memory to be replaced"
    (part,) = here.run.placement.slices
    node = Node(name=new, rack=RackName("r1"), domain="r1", access=Access(address=new))
    placement = replace(here.run.placement, slices=(replace(part, spares=(*part.spares, new)),))
    fleet = replace(here.run.fleet, nodes=(*here.run.fleet.nodes, node))
    here.run = replace(here.run, placement=placement, fleet=fleet)
    here.views[new] = Seen()
    return new


def settled(here: Situation) -> list[str]:
    """All that is asked for succeeds until ranks run again; what was asked for."""
    asked: list[str] = []
    for _ in range(8):
        decision = here.decide()
        asked += kinds(decision)
        here.verify(decision.actions)
        for action in decision.actions:
            if action.kind != "verify":
                here.receive(action, Result.KILLED if action.kind in ("kill", "release") else Result.DONE)
            if action.kind == "acquire":
                here.agent(action.node)
            if action.kind == "release" and action.node is not None:
                here.views[action.node] = Seen()
            if action.kind == "kill":
                here.agent(action.node, ranks=())
            if action.kind == "start":
                here.run_ranks(action.attempt)
        if any(action.kind == "join" for action in decision.actions):
            here.show_ready(here.record.slots)
    return asked


def test_a_node_that_comes_back_after_another_took_its_slot_is_given_back_and_not_acquired_again() -> None:
    here = serving(make_run(slices=1, spares=0, grace=0.0))
    new = with_another_node(here)
    settled(here)
    here.show_ready(here.record.slots)
    settled(here)
    assert (holder(here), here.decide().state) == (new, RunState.RUNNING)
    here.drained.clear()
    decision = here.decide()
    assert kinds(decision) == ["return_spare:r1-n2"]
    assert decision.actions[0].reason.message == (
        "r1-n2 is not needed: main.s0 runs with no spare left, as the task asks for"
    )


def test_a_node_that_is_being_given_back_takes_no_slot() -> None:
    here = serving(make_run(slices=1, spares=0, grace=0.0))
    new = with_another_node(here)
    settled(here)
    here.show_ready(here.record.slots)
    settled(here)
    here.drained.clear()
    here.in_flight = frozenset(key_of(action) for action in here.decide().actions)
    here.silent(new, heard=18.0)
    wait(here, 9)
    assert holder(here) == new, "the node that it would take is no longer its own"


def test_a_node_that_waits_for_a_slot_is_not_given_back() -> None:
    here = serving(make_run(slices=1, spares=0, grace=60.0))
    new = with_another_node(here)
    asked = [kind for _ in range(5) for kind in kinds(here.decide(after=1.0))]
    assert f"acquire:{new}" in asked
    assert not [kind for kind in asked if kind.startswith("return_spare")]


def test_a_spare_that_the_task_asks_for_stays_also_where_it_is_the_node_that_was_left() -> None:
    here = serving(make_run(slices=1, spares=1, grace=0.0))
    here.drained[LOST] = "memory to be replaced"
    settled(here)
    here.show_ready(here.record.slots)
    settled(here)
    assert holder(here) == "r1-n3"
    here.drained.clear()
    assert kinds(here.decide()) == ["acquire:r1-n2"], "it is the spare from now on"


def test_a_node_of_the_head_is_not_given_back() -> None:
    here = Situation(make_run(slices=1, spares=0, grace=0.0))
    here.serving()
    new = with_another_node(here)
    settled(here)
    here.show_ready(here.record.slots)
    settled(here)
    here.record.head = LOST
    here.drained.clear()
    assert holder(here) == new
    assert not [kind for kind in kinds(here.decide()) if kind.startswith("return_spare")]
