"""What a tick decides at most once, and what a slot is given with its node."""

from dataclasses import replace

from launcher.core.model.action_key import ActionKey
from launcher.core.model.run import MemberName
from tests.situations import Situation, kinds, make_run, name
from tests.unit.core.control.kernel import LOST, serving, wait


def test_a_node_that_had_another_slot_gets_a_raylet_newer_than_the_one_of_then() -> None:
    here = serving(make_run(slices=1, nodes=2, spares=1))
    slots = dict(here.record.slots)
    slots[MemberName("main/0")] = replace(slots[MemberName("main/0")], generation=4)
    here.record = replace(here.record, slots=slots)
    here.silent(LOST, heard=18.0)
    wait(here, 9)
    assert here.record.slots[MemberName("main/1")].generation == 5


def test_what_is_under_way_is_not_asked_for_again() -> None:
    here = Situation(make_run())
    here.in_flight = frozenset({ActionKey("acquire", node=name(1, 1))})
    assert "acquire:r1-n1" not in kinds(here.decide())
