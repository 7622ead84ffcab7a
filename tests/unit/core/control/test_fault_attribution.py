"""Evidence of many nodes: one is at fault, or the rack is, or the program."""

from dataclasses import replace

from launcher.core.model.actions import Reason, Start, Why
from launcher.core.model.inventory import GpuDriver
from launcher.core.model.observation import Health, Symptom
from launcher.core.model.receipt import Result
from launcher.core.model.run import Cause
from tests.situations import RUN, Situation, make_run, name
from tests.unit.core.control.kernel import holder, outside, serving_slice


def test_of_a_slice_full_of_errors_the_node_with_the_dead_link_is_replaced_and_no_other() -> None:
    here = serving_slice()
    for at in range(1, 9):
        here.sign(name(1, at), Symptom.SYMPATHETIC, f"Xid 145 on {at}")
        here.end_rank(at - 1, 134, at=float(at))
    here.sign(name(1, 5), Symptom.FATAL_LINK, "Xid 149 Fatal")
    decision = here.decide()
    assert set(here.record.failed_nodes) == {"r1-n5"}
    assert (holder(here, 4), here.gang().restarts) == ("r1-n9", 0)
    assert all("Xid 149 Fatal" in action.reason.message for action in decision.actions if action.kind == "kill")
    assert here.record.failed_nodes[name(1, 5)].tail == ("Xid 149 Fatal",)


def test_nothing_is_decided_before_every_node_was_asked_about_its_health_since() -> None:
    here = serving_slice()
    here.health[name(1, 3)] = Health(at=here.at - 30.0)
    here.end_rank(0, 134)
    waiting = here.decide()
    assert not waiting.actions
    assert waiting.doubted == {"r1-n3"}
    here.sign(name(1, 3), Symptom.GPU_LOST, "3 of 4 GPUs")
    here.decide()
    assert set(here.record.failed_nodes) == {"r1-n3"}
    assert here.gang().restarts == 0


def test_a_node_that_does_not_say_how_it_is_holds_a_restart_up_for_five_seconds() -> None:
    here = serving_slice()
    here.health[name(1, 3)] = None
    here.end_rank(0, 134)
    assert here.decide().actions == ()
    assert here.decide(after=4.0).actions == ()
    assert here.decide(after=2.0).actions
    assert here.gang().restarts == 1


def test_a_restart_of_nodes_without_gpus_waits_for_nobody() -> None:
    run = outside(make_run(slices=1))

    nodes = tuple(replace(node, gpu_driver=GpuDriver.NONE) for node in run.fleet.nodes)
    here = Situation(replace(run, fleet=replace(run.fleet, nodes=nodes)))
    here.serving()
    here.health = dict.fromkeys(here.views, None)
    here.end_rank(0, 1)
    decision = here.decide()
    assert here.gang().restarts == 1
    assert {"r1-n1", "r1-n2"} <= decision.doubted


def test_a_program_that_fails_with_errors_of_its_own_costs_a_restart_and_no_node() -> None:
    here = serving_slice()
    here.sign(name(1, 1), Symptom.APPLICATION, "Xid 31")
    here.end_rank(0, 1)
    here.decide()
    assert (here.gang().restarts, dict(here.record.failed_nodes)) == (1, {})


def test_a_probe_that_hangs_fails_nobody() -> None:
    here = serving_slice()
    here.health[name(1, 1)] = Health(at=float("inf"), hung=("nvidia-smi",))
    here.end_rank(0, 1)
    here.decide()
    assert (here.gang().restarts, dict(here.record.failed_nodes)) == (1, {})


def test_a_sign_of_the_node_itself_is_reason_enough_before_any_rank_fails() -> None:
    here = serving_slice()
    here.sign(name(1, 2), Symptom.NODE, "`/` is full")
    here.decide()
    assert holder(here, 1) == "r1-n9"


def test_of_two_ends_of_a_dead_link_the_one_with_more_signs_goes() -> None:
    here = serving_slice()
    for node, words in ((name(1, 2), ("a",)), (name(1, 6), ("b", "c"))):
        for word in words:
            here.sign(node, Symptom.FATAL_LINK, f"Xid 149 {word}")
    here.end_rank(0, 134)
    here.decide()
    assert set(here.record.failed_nodes) == {"r1-n6"}
    here.decide()
    assert set(here.record.failed_nodes) == {"r1-n6"}, "the other end is not held against its node"


def test_a_rank_that_fails_for_its_node_costs_no_restart_and_keeps_nobody_else_off_the_node() -> None:
    here = serving_slice()
    here.agent(name(1, 3), fault="cannot start anything more: resource temporarily unavailable (EAGAIN)")
    here.end_rank(2, 254)
    here.decide()
    assert (holder(here, 2), here.gang().restarts) == ("r1-n9", 0)
    evidence = here.record.failed_nodes[name(1, 3)]
    assert (evidence.cause, evidence.mends) == (Cause.PROVISION, True)


def test_a_node_on_which_ranks_cannot_be_started_is_left_and_the_start_is_not_counted() -> None:
    here = serving_slice(nodes=2, spares=1)
    start = Start(reason=Reason(why=Why.START, message="run starts"), gang=RUN, attempt=1, restarts=0)
    for _ in range(6):  # more often than a start may fail
        here.receive(start, Result.FAILED, message="no space left on device", unfit=(name(1, 2),))
        here.decide()
    assert here.record.outcome is None
    assert (holder(here), here.gang().restarts) == ("r1-n3", 0)
    assert set(here.record.failed_nodes) == {name(1, 2)}
