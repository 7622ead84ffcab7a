"""Drained nodes, and slices that were placed again: ranks are signalled, and slots leave their nodes."""

from dataclasses import replace

from launcher.core.model.actions import Move
from launcher.core.model.inventory import Access, Node, RackName
from launcher.core.model.observation import Seen
from launcher.core.model.operator_requests import RequestKind
from launcher.core.model.placement import Placement
from launcher.core.model.receipt import Result
from launcher.core.model.run import GangName, RunState, Wanted
from tests.situations import Situation, kinds, make_run, name
from tests.unit.core.control.kernel import driven, holder, serving_slice


def relocated() -> Situation:
    """A run that serves on r1, whose slice has just got r2 instead."""
    run = make_run(slices=1, spares=0, grace=0.0)
    here = Situation(replace(run, fleet=replace(run.fleet, head=Access(address="10.9.9.9"))))
    here.serving()
    (part,) = here.run.placement.slices
    new = (name(2, 1), name(2, 2))
    nodes = tuple(Node(name=node, rack=RackName("r2"), domain="r2", access=Access(address=node)) for node in new)
    moved = replace(part, rack=RackName("r2"), domain="r2", place="r2", nodes=new)
    fleet = replace(here.run.fleet, nodes=(*here.run.fleet.nodes, *nodes))
    here.run = replace(here.run, placement=Placement(slices=(moved,)), fleet=fleet)
    here.views |= {node: Seen() for node in new}
    return here


def settle(here: Situation) -> list[str]:
    """Everything that is asked for succeeds, for some ticks; answer what was asked for."""
    asked: list[str] = []
    for _ in range(6):
        decision = here.decide()
        asked += kinds(decision)
        for action in decision.actions:
            here.receive(action, Result.KILLED if action.kind in ("kill", "release") else Result.DONE)
            if action.kind == "acquire":
                here.agent(action.node)
            if action.kind == "release" and action.node is not None:
                here.views[action.node] = Seen()
            if action.kind == "kill":
                here.agent(action.node, ranks=())
    return asked


def test_slots_follow_their_slice_and_the_old_nodes_are_let_go_of() -> None:
    here = relocated()
    asked = settle(here)
    assert {slot.node for slot in here.record.slots.values()} == {"r2-n1", "r2-n2"}
    assert {"release:slot:r1-n1", "release:slot:r1-n2", "acquire:r2-n1", "acquire:r2-n2"} <= set(asked)
    assert not {"r1-n1", "r1-n2"} & here.record.requested
    assert here.gang().restarts == 0


def test_a_relocation_that_was_refused_is_told_in_the_status() -> None:
    here = serving_slice(nodes=2, spares=0)
    here.order(RequestKind.RELOCATE, "main.s0")
    (asked,) = here.decide().actions
    here.receive(asked, Result.FAILED, message="slice `main.s0` fits nowhere else")
    decision = here.decide()
    assert decision.status_message == "2 of 2 ranks running; main.s0 was not moved: slice `main.s0` fits nowhere else"
    assert decision.actions == ()


def test_rays_group_of_the_old_place_is_taken_back_before_anything_starts_in_the_new_one() -> None:
    here = relocated()
    settle(here)
    here.show_ready(here.record.slots)
    decision = here.decide()
    assert "unreserve:main.s0" in kinds(decision)
    assert not [key for key in kinds(decision) if key.startswith(("start", "verify"))]


def test_down_lets_go_of_every_node_that_the_run_ever_had() -> None:
    here = relocated()
    here.run = replace(here.run, wanted=Wanted.NOTHING)
    assert {"release:slot:r1-n1", "release:slot:r1-n2"} <= set(kinds(here.decide()))


def test_a_drained_node_is_left_after_its_ranks_had_their_time() -> None:
    here = serving_slice(nodes=2, spares=1)
    here.drained = {name(1, 2): "memory to be replaced"}
    told = here.decide()
    assert kinds(told) == ["signal:r1-n1", "signal:r1-n2"]
    for action in told.actions:
        here.receive(action)
    assert kinds(here.decide()) == []
    here.end_rank(0, 143)
    here.end_rank(1, 0)
    here.decide()
    assert (holder(here, 1), here.gang().restarts, here.record.outcome) == ("r1-n3", 0, None)


def test_a_drained_node_without_anywhere_to_go_runs_on() -> None:
    here = serving_slice(nodes=2, spares=0)
    here.drained = {name(1, 2): "memory to be replaced"}
    decision = here.decide()
    assert kinds(decision) == ["add_spare:main.s0"]
    assert decision.state is RunState.RUNNING
    assert "r1-n2 is drained, but has no spare in r1" in decision.status_message


def test_only_the_node_of_the_driver_is_told_to_stop() -> None:
    here = driven(spares=1)
    here.serving()
    here.drained[name(1, 2)] = "maintenance"
    here.decide()
    assert [key for key in kinds(here.decide(after=60.0)) if key.startswith("signal")] == ["signal:r1-n1"]


ORDER = "defrag-ab12cd main.s0=r2-n[1-2]"


def asked_to_move() -> tuple[Situation, Move]:
    """A run that serves on r1 and is asked to move to r2; what it asks for."""
    here = Situation(replace(make_run(slices=1, spares=0, grace=0.0)))
    here.run = replace(here.run, fleet=replace(here.run.fleet, head=Access(address="10.9.9.9")))
    here.serving()
    here.order(RequestKind.RELOCATE, ORDER)
    (action,) = here.decide().actions
    assert isinstance(action, Move)
    return here, action


def given(here: Situation, action: Move) -> None:
    """The slice gets the nodes of an action, at either place."""
    (part,) = here.run.placement.slices
    (wanted,) = action.order.slices
    rack = RackName(wanted.nodes[0].partition("-")[0])
    known = {node.name for node in here.run.fleet.nodes}
    nodes = tuple(
        Node(name=node, rack=rack, domain=rack, access=Access(address=node))
        for node in wanted.nodes
        if node not in known
    )
    moved = replace(part, rack=rack, domain=rack, place=rack, nodes=wanted.nodes)
    fleet = replace(here.run.fleet, nodes=(*here.run.fleet.nodes, *nodes))
    here.run = replace(here.run, placement=Placement(slices=(moved,)), fleet=fleet)
    here.views |= {node.name: Seen() for node in nodes}
    here.receive(action)


def test_ranks_run_on_until_the_new_nodes_are_leased() -> None:
    here, action = asked_to_move()
    given(here, action)
    first = here.decide()
    assert kinds(first) == ["acquire:r2-n1", "acquire:r2-n2"]
    assert first.state is RunState.RUNNING
    here.receive(first.actions[0])
    here.agent(name(2, 1))
    assert not here.decide().record.gangs[GangName("run")].broken
    here.receive(first.actions[1])
    here.agent(name(2, 2))
    here.decide()
    assert {slot.node for slot in here.record.slots.values()} == {"r2-n1", "r2-n2"}
    assert here.gang().restarts == 0


def test_a_new_node_that_fails_sends_the_slice_back() -> None:
    here, action = asked_to_move()
    given(here, action)
    acquire = here.decide().actions[0]
    here.receive(acquire, Result.HELD, message="held by run `far`")
    back = next(one for one in here.decide().actions if isinstance(one, Move))
    assert (back.back, [part.nodes for part in back.order.slices]) == (True, [("r1-n1", "r1-n2")])
    given(here, back)
    here.decide()
    assert (here.record.move, here.gang().attempt, here.gang().broken) == (None, 1, None)


def test_a_move_that_is_refused_leaves_the_run_as_it_is() -> None:
    here, action = asked_to_move()
    here.receive(action, Result.FAILED, message="r2-n1 is in use")
    assert kinds(here.decide()) == []
    assert (here.record.move, here.record.retries) == (None, [])


def test_a_move_is_taken_back_while_the_new_nodes_are_awaited() -> None:
    here, action = asked_to_move()
    given(here, action)
    here.decide()
    here.order(RequestKind.RELOCATE, "defrag-other back")
    assert not [one for one in here.decide().actions if isinstance(one, Move)]
    here.order(RequestKind.RELOCATE, "defrag-ab12cd back")
    assert [one.back for one in here.decide().actions if isinstance(one, Move)] == [True]


def test_a_run_that_recovers_does_not_move() -> None:
    here, _ = asked_to_move()
    here.record.move = None
    here.end_rank(0, 1)
    here.decide()
    assert here.gang().broken
    here.order(RequestKind.RELOCATE, ORDER)
    assert "defrag-ab12cd cannot move main.s0 now" in here.decide().status_message


def test_a_program_that_exits_with_0_when_it_is_told_to_stop_is_resized_and_has_not_ended() -> None:
    here = serving_slice(nodes=2, spares=0)
    here.run = replace(here.run, task=replace(here.run.task, stop_grace=10.0))
    here.order(RequestKind.RESIZE)
    assert {action.kind for action in here.decide().actions} == {"signal"}
    for rank in (0, 1):
        here.end_rank(rank, 0)
    decision = here.decide()
    assert decision.state is not RunState.SUCCEEDED
    assert here.gang().broken is not None
    assert not here.record.exits, "nothing hinders the resize"


def test_a_slice_that_may_be_anywhere_lacks_a_spare_nowhere_in_particular() -> None:
    here = serving_slice(nodes=2, spares=0)
    (part,) = here.run.placement.slices
    here.run = replace(here.run, placement=Placement(slices=(replace(part, place="any"),)))
    here.drained = {name(1, 2): "memory to be replaced"}
    assert "r1-n2 is drained, but has no spare" in (said := here.decide().status_message)
    assert "any" not in said
