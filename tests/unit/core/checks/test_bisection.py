"""The search for what is slow: what it names, and how many tests it needs."""

import itertools
import random
import statistics

import pytest

from launcher.core.checks.bisection import next_step, quarter_best
from tests.bench import bench_bisection
from tests.unit.core.checks.builders import World, search, slices

NAMES = [f"r2-n{tray:02d}" for tray in range(1, 19)]


def test_where_all_are_good_each_slice_and_a_few_groups_across_are_tested_once() -> None:
    done = search(slices(3, 18), World())
    assert done.found == []
    assert (len(done.outcomes), done.rounds) == (3 + 4, 2)


@pytest.mark.parametrize("slow", NAMES)
def test_any_slow_node_of_a_rack_is_named(slow: str) -> None:
    assert search(slices(3, 18), World(slow={slow: 0.5})).found == [("node", (slow,))]


@pytest.mark.parametrize("pair", list(itertools.combinations(NAMES[::2], 2)))
def test_two_slow_nodes_of_one_rack_are_named(pair: tuple[str, str]) -> None:
    world = World(slow={pair[0]: 0.5, pair[1]: 0.7})
    assert search(slices(3, 18), world).found == [("node", (pair[0],)), ("node", (pair[1],))]


@pytest.mark.parametrize("pair", list(itertools.combinations(NAMES[::2], 2)))
def test_a_slow_link_of_a_rack_is_named_and_neither_of_its_nodes(pair: tuple[str, str]) -> None:
    assert search(slices(3, 18), World(links={pair: 0.4})).found == [("link", pair)]


@pytest.mark.parametrize("slow", ["r1-n01", "r2-n09", "r4-n18"])
def test_a_node_that_is_slow_across_racks_only_is_named(slow: str) -> None:
    assert search(slices(4, 18), World(outside={slow: 0.5})).found == [("node", (slow,))]


@pytest.mark.parametrize("slow", NAMES)
def test_one_rack_without_history_is_enough(slow: str) -> None:
    assert search(slices(1, 18), World(slow={slow.replace("r2", "r1"): 0.5})).found == [
        ("node", (slow.replace("r2", "r1"),))
    ]


def test_one_good_rack_without_history_takes_its_two_halves_to_say_so() -> None:
    done = search(slices(1, 18), World())
    assert (done.found, len(done.outcomes)) == ([], 3)


def test_history_shows_that_all_of_a_rack_is_slow_although_its_nodes_agree() -> None:
    everything = {name.replace("r2", "r1"): 0.5 for name in NAMES}
    done = search(slices(1, 18, usual=100.0), World(slow=everything))
    assert {part for part, _ in done.found} == {"unclear"}  # none is left that is known to be good
    assert {name for _, names in done.found for name in names} == set(everything)


@pytest.mark.parametrize("slow", ["r1-n01", "r2-n17", "r2-n18", "r1-n08"])
def test_pairs_find_a_slow_node_with_partners_of_good_pairs(slow: str) -> None:
    assert search(slices(2, 18, size=2), World(slow={slow: 0.5})).found == [("node", (slow,))]


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("numbers", [True, False])
def test_a_node_that_fails_is_named_whether_or_not_its_partners_fail_with_it(*, alone: bool, numbers: bool) -> None:
    world = World(broken=("r2-n07",), alone=alone, numbers=numbers)
    done = search(slices(3, 18), world)
    assert done.found == [("node", ("r2-n07",))]
    assert len(done.outcomes) < (12 if alone else 18)


def test_a_node_that_cannot_tell_is_reported_and_the_rest_is_searched_without_it() -> None:
    world = World(slow={"r2-n07": 0.5}, without=("r2-n03", "r1-n01"))
    assert search(slices(3, 18), world).found == [
        ("no-answer", ("r1-n01",)),
        ("no-answer", ("r2-n03",)),
        ("node", ("r2-n07",)),
    ]


def test_small_groups_that_are_slower_by_nature_blame_nobody() -> None:
    world = World(slow={"r2-n07": 0.5}, small=0.7)
    assert search(slices(3, 18), world).found == [("node", ("r2-n07",))]


def test_a_step_is_the_same_for_the_same_results_in_any_order() -> None:
    done = search(slices(3, 18), World(slow={"r2-n07": 0.5}))
    mixed = list(done.outcomes.items())
    random.Random(3).shuffle(mixed)
    assert next_step(slices(3, 18), dict(mixed)).tests == ()


def test_what_is_usual_is_what_a_quarter_reaches() -> None:
    assert quarter_best([]) is None
    assert quarter_best([3.0]) == 3.0
    assert quarter_best([1.0, 9.0, 8.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == 6.0


def test_of_232_nodes_the_slow_ones_are_named_with_no_more_tests_than_the_public_figure() -> None:
    most = {"nothing slow": 28, "one slow node": 30, "two slow nodes": 57}  # public: 28, 22 to 57
    for name, found in bench_bisection.measure(20).items():
        tests = [one.tests for one in found]
        assert all(one.right for one in found), name
        assert statistics.median(tests) <= most.get(name, 40), name
        assert bench_bisection.p95(tests) <= 57, name
