"""Giving a slot to a node: generations, and what is not known any more."""

from dataclasses import replace

from launcher.core.control.slots.handover import give
from launcher.core.control.state import Tick
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import HeadSeen
from launcher.core.model.run import MemberName, Slot, spare_label
from tests.situations import Situation, make_run, name
from tests.unit.core.control.kernel import serving

SECOND = MemberName("main/1")


def given(here: Situation, node: NodeName, raylet: int | None = None) -> Tick:
    """A tick in which the second slot is given to a node."""
    tick = Tick(here.run, here.observation(), here.record)
    give(tick, tick.index.by_name[SECOND], node, raylet)
    here.record = tick.finished_record()
    return tick


def test_a_slot_that_starts_anew_has_a_higher_generation_and_its_own_label() -> None:
    here = serving(make_run(slices=1))
    assert given(here, name(1, 2)).record.slots[SECOND] == Slot(member=SECOND, node=name(1, 2), generation=1)
    assert given(here, name(1, 3)).record.slots[SECOND] == Slot(member=SECOND, node=name(1, 3), generation=2)
    assert not here.record.stale, "its placement group selects that label"


def test_a_slot_goes_on_with_the_raylet_of_a_spare_and_its_group_is_of_no_use_any_more() -> None:
    here = serving(make_run(slices=1))
    here.park_spares()
    given(here, name(1, 2))
    (raylet,) = here.record.spares.values()
    assert here.record.slots[SECOND].generation == raylet, "the case in which only the label tells them apart"
    here.record.verified["main.s0"] = (0, raylet)
    tick = given(here, name(1, 3), raylet)
    assert here.record.slots[SECOND] == Slot(member=SECOND, node=name(1, 3), generation=raylet, spare=True)
    assert (here.record.spares, here.record.verified, here.record.stale) == ({}, {}, {"main.s0"})
    assert tick.holders[name(1, 3)] == SECOND
    assert name(1, 2) not in tick.holders


def test_a_raylet_that_follows_that_of_a_spare_is_younger_than_any_before() -> None:
    here = serving(make_run(slices=1))
    here.park_spares()
    (raylet,) = here.record.spares.values()
    for _ in range(3):
        given(here, name(1, 2))
    given(here, name(1, 3), raylet)
    given(here, name(1, 3))
    assert here.record.slots[SECOND] == Slot(member=SECOND, node=name(1, 3), generation=4)
    assert here.record.stale == {"main.s0"}, "the label is the slot's own again"


def test_a_raylet_that_a_slot_has_from_a_spare_is_seen_dead_in_ray_by_its_label() -> None:
    here = serving(make_run(slices=1))
    here.park_spares()
    (raylet,) = here.record.spares.values()
    given(here, name(1, 3), raylet)
    here.run_ranks(1)
    assert isinstance(here.head, HeadSeen)
    assert here.head.head is not None
    rows = [replace(row, alive=row.slot != spare_label(raylet)) for row in here.head.head.nodes]
    here.head = HeadSeen(head=replace(here.head.head, nodes=tuple(rows)))
    here.decide()
    assert SECOND in here.record.since.dead_in_ray
