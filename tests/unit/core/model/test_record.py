"""The record of a run."""

from launcher.core.model.receipt import Result
from launcher.core.model.record import rebased
from tests.situations import Situation, kinds, make_run


def test_times_of_an_earlier_boot_hold_nothing_up() -> None:
    here = Situation(make_run(slices=1))
    here.ready()
    asked = here.decide()
    here.receive(asked.actions[0], Result.FAILED, message="no answer")
    here.decide()
    here.at, here.record = 5.0, rebased(here.record, 5.0)
    assert "verify:main.s0" in kinds(here.decide())
