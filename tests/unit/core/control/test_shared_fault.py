"""Many nodes of a rack that fail at once: what is behind them is at fault, and an operator decides."""

from launcher.core.model.observation import Symptom
from launcher.core.model.operator_requests import RequestKind
from launcher.core.model.run import RunState
from launcher.core.model.task import OnNoSpare, RecoveryPolicy
from tests.situations import kinds, name
from tests.unit.core.control.kernel import serving_slice


def test_three_nodes_with_the_same_fault_are_none_of_them_replaced_before_somebody_says_so() -> None:
    here = serving_slice()
    for at in (2, 4, 6):
        here.sign(name(1, at), Symptom.FATAL_LINK, "Xid 149")
    here.end_rank(0, 134)
    decision = here.decide()
    assert (decision.actions, decision.state) == ((), RunState.ON_HOLD)
    assert "r1-n[2,4,6] show the same fault at once" in decision.status_message
    assert here.decide(after=600.0).actions == ()
    here.order(RequestKind.RESUME)
    for _ in range(4):
        here.decide()
    assert {"r1-n2", "r1-n4", "r1-n6"} <= set(here.record.failed_nodes)


def test_relocating_the_slice_ends_the_verdict_too() -> None:
    here = serving_slice()
    for at in (2, 4, 6):
        here.sign(name(1, at), Symptom.FATAL_LINK, "Xid 149")
    here.end_rank(0, 134)
    here.decide()
    here.order(RequestKind.RELOCATE, "main.s0")
    assert "relocate:main.s0" in kinds(here.decide())


def test_half_a_rack_that_falls_silent_is_a_riddle_and_a_whole_one_is_lost() -> None:
    here = serving_slice(slices=2, nodes=4, spares=0, policy=RecoveryPolicy(on_no_spare=OnNoSpare.RELOCATE))
    here.silent(*(name(2, at) for at in (1, 2, 3)), heard=18.0)
    here.decide()
    decision = here.decide(after=9.0)
    assert decision.state is RunState.ON_HOLD
    assert "3 of 4 nodes of the run in r2 failed at once" in decision.status_message
    whole = serving_slice(slices=2, nodes=4, spares=0, policy=RecoveryPolicy(on_no_spare=OnNoSpare.RELOCATE))
    whole.silent(*(name(2, at) for at in (1, 2, 3, 4)), heard=18.0)
    whole.decide()
    assert "relocate:main.s1" in kinds(whole.decide(after=9.0))
