"""Timeline: which nodes are free when, and the earliest start of a task."""

import math

from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Unavailable
from launcher.core.queue.timeline import Timeline, fit, free_to, with_unhealthy
from tests.property.test_queue import FLEET, task
from tests.unit.core.queue.builders import held

FIRST = NodeName("r0-n0")


def test_a_node_is_free_once_its_run_has_ended() -> None:
    timeline = Timeline(FLEET, held(r0="a", r1="b"), {"a": 60.0})
    assert {use.used_by for use in timeline.unavailable(0.0, 1.0, "new").values()} == {"a", "b"}
    assert {use.used_by for use in timeline.unavailable(60.0, 1.0, "new").values()} == {"b"}


def test_the_earliest_start_waits_for_a_run_that_ends_and_for_reservations() -> None:
    timeline = Timeline(FLEET, held(r0="a", r1="b", r2="c"), {"a": 60.0, "b": 90.0})
    assert [timeline.earliest(task(slices, 3), 10.0, {}, "new") is None for slices in (1, 2, 3)] == [False, False, True]
    found = timeline.earliest(task(1, 3), 10.0, {}, "new")
    assert found is not None
    assert (found[0], found[1].slices[0].rack) == (60.0, "r0")
    timeline.reserve(found[1].nodes, 60.0, math.inf, "first")
    after = timeline.earliest(task(1, 3), 10.0, {}, "new")
    assert after is not None
    assert after[0] == 90.0


def test_an_unhealthy_node_stays_unavailable_after_its_run() -> None:
    timeline = Timeline(FLEET, {FIRST: Unavailable(used_by="a", unhealthy="Xid 79")}, {"a": 60.0})
    assert timeline.out_of_service == {FIRST: Unavailable(unhealthy="Xid 79")}
    assert timeline.unavailable(60.0, 1.0, "new") == timeline.out_of_service


def test_nodes_that_one_run_knows_to_be_unhealthy_keep_their_user() -> None:
    unfit = {FIRST: Unavailable(unhealthy="no answer")}
    assert with_unhealthy(held(r0_1="a"), unfit) == {FIRST: Unavailable(used_by="a", unhealthy="no answer")}
    assert fit(task(3, 3), FLEET, unfit) is None


def test_only_reserved_nodes_are_free_to_a_run_of_the_name_not_those_that_a_run_uses() -> None:
    kept = Unavailable(used_by="a", reserved_for="a")
    faulty = Unavailable(used_by="a", reserved_for="a", unhealthy="Xid 79")
    in_use = held(r0="a")
    reserved = {NodeName("r1-n0"): kept, NodeName("r1-n1"): faulty}
    assert free_to({**in_use, **reserved}, "a") == {**in_use, NodeName("r1-n1"): Unavailable(unhealthy="Xid 79")}
    assert Timeline(FLEET, reserved, {}).unavailable(0.0, 1.0, "new") == reserved


def test_nodes_that_came_back_lately_are_free_and_the_mark_goes_with_them() -> None:
    marked = {node.name: Unavailable(returned=True) for node in FLEET.nodes if node.rack == "r0"}
    timeline = Timeline(FLEET, {**held(r1="a"), **marked}, {"a": 60.0})
    found = timeline.unavailable(0.0, 1.0, "new")
    assert found[FIRST] == Unavailable(returned=True)
    assert fit(task(2, 3), FLEET, found) is not None
    assert timeline.earliest(task(2, 3), 10.0, {}, "new") is not None
    assert free_to(found, "new")[FIRST].returned
