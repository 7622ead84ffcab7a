"""Runs and slots: the labels by which Ray knows a raylet."""

import pytest

from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import MemberName, Slot, is_spare, spare_label
from launcher.core.model.run_index import index_of
from tests.situations import make_run

SECOND = MemberName("main/1")


def test_a_raylet_has_the_label_of_its_slot_unless_it_was_started_for_a_spare() -> None:
    member = index_of(make_run()).by_name[SECOND]
    own = Slot(member=SECOND, node=NodeName("r1-n2"), generation=3)
    assert own.label(member) == "main-1"
    assert Slot(member=SECOND, node=NodeName("r1-n3"), generation=4, spare=True).label(member) == "spare.4"


@pytest.mark.parametrize("label", ["main-1", "main.s0", "spare-1", "spare.s1", "spare.", "", "my.spare.1"])
def test_no_label_of_a_slot_or_name_of_a_slice_is_that_of_a_spare(label: str) -> None:
    assert not is_spare(label)
    assert is_spare(spare_label(12))
