"""Results of tests on groups."""

from launcher.core.checks.group_tests import (
    FaultyPart,
    GroupResult,
    GroupShape,
    KnownTests,
    SlowPart,
    culprits,
    halves,
    unclear,
)
from launcher.core.model.nodeset import NodeName

A, B, C = (NodeName(name) for name in "abc")


def test_halves_share_no_node_and_leave_none_out() -> None:
    assert halves((A, B, C)) == ((A,), (B, C))


def test_a_group_is_tested_without_slow_nodes_and_one_end_of_a_slow_link_but_with_what_is_unclear() -> None:
    node = SlowPart(part=FaultyPart.NODE, nodes=(A,), message="")
    link = SlowPart(part=FaultyPart.LINK, nodes=(B, C), message="")
    assert culprits([node, link, unclear((A, B, C), "")]) == (A, B)


def test_missing_tests_that_share_a_node_wait_for_the_next_step() -> None:
    tests = KnownTests({}, 1.25)
    assert tests.outcome((A, B), "first") is None
    assert tests.outcome((B, C), "second") is None
    assert [test.nodes for test in tests.wanted()] == [(A, B)]


def test_a_result_is_slow_beyond_the_factor_or_with_a_failure_and_one_without_a_number_passes() -> None:
    tests, shape = KnownTests({}, 1.25), GroupShape(nodes=(A, B), usual=100.0)
    assert tests.is_fast(shape, GroupResult(speed=80.0))
    assert not tests.is_fast(shape, GroupResult(speed=79.9))
    assert not tests.is_fast(shape, GroupResult(speed=100.0, bad=frozenset((A,))))
    assert tests.is_fast(shape, GroupResult())
