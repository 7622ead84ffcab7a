"""Moves in counts of nodes: which are cheapest, in which order they go, and what is proven about their cost."""

import math
from collections.abc import Sequence

import pytest

from launcher.core.planner.bound import hopeless, relax
from launcher.core.planner.exact import GaveUpError, cheapest, gang_sets
from launcher.core.planner.moves import Assignment, MovableSlice, MoveProblem, WantedSlice, order_steps
from launcher.core.planner.relaxation import MOST_KINDS, MOST_LISTED
from launcher.core.planner.search import most_room, room_now, solve


def problem(
    free: Sequence[int], slices: Sequence[tuple[int, int, int]], costs: Sequence[float], wanted: Sequence[int]
) -> MoveProblem:
    """`slices` are (nodes, pool, gang), `wanted` nodes."""
    return MoveProblem(
        free=tuple(free),
        slices=tuple(MovableSlice(size=size, pool=pool, gang=gang) for size, pool, gang in slices),
        gang_costs=tuple(costs),
        wanted=tuple(WantedSlice(size=size) for size in wanted),
    )


def test_room_that_is_there_costs_nothing() -> None:
    found = solve(problem((4, 2), [(2, 1, 0)], (5.0,), (4,)))
    assert (found.cost, found.bound, found.order, found.proven) == (0.0, 0.0, (), True)
    assert found.assignment == Assignment(moved={}, wanted=(0,))


def test_the_cheapest_slices_of_a_crowded_pool_leave() -> None:
    costs = [float(cost) for cost in range(18, 0, -1)]
    crowded = problem((0, 1, 1, 1, 1, 1, 1), [(1, 0, gang) for gang in range(18)], costs, (6,))
    assert len(crowded.slices) > MOST_LISTED
    found = solve(crowded)
    assert found.cost == sum(range(1, 7))
    assert found.bound == pytest.approx(found.cost, rel=0.01)


def test_slices_of_many_kinds_go_where_each_may() -> None:
    pools = 2 * (MOST_KINDS + 6)
    slices = tuple(
        MovableSlice(size=2, pool=pool, gang=pool // 2, allowed=frozenset({pool, pool + 1}))
        for pool in range(0, pools, 2)
    )
    costs = tuple(float(1 + gang) for gang in range(pools // 2))
    many = MoveProblem(free=(2,) * pools, slices=slices, gang_costs=costs, wanted=(WantedSlice(size=4),) * 3)
    found = solve(many)
    assert found.cost == 1 + 2 + 3
    assert found.assignment is not None
    assert dict(found.assignment.moved) == {0: 1, 1: 3, 2: 5}


def test_two_slices_cannot_change_places_in_full_pools() -> None:
    swap = problem((0, 0), [(2, 0, 0), (2, 1, 1)], (1.0, 1.0), ())
    assert order_steps(swap, Assignment(moved={0: 1, 1: 0}, wanted=())) is None


def test_a_gang_does_not_move_into_its_own_old_room() -> None:
    """Its new nodes are reserved before it stops."""
    follow = problem((0, 0, 2), [(2, 0, 0), (2, 1, 0)], (1.0,), ())
    assert order_steps(follow, Assignment(moved={0: 1, 1: 2}, wanted=())) is None
    apart = problem((0, 0, 2), [(2, 0, 0), (2, 1, 1)], (1.0, 1.0), ())
    assert order_steps(apart, Assignment(moved={0: 1, 1: 2}, wanted=())) == (1, 0)


def test_an_order_that_leads_nowhere_is_taken_back() -> None:
    """If gang 0 takes the free room, gang 1 has none, and gang 2 waits for its nodes."""
    three = problem((0, 0, 2), [(2, 0, 0), (2, 1, 1), (2, 2, 2)], (1.0,) * 3, ())
    assert order_steps(three, Assignment(moved={0: 2, 1: 2, 2: 1}, wanted=())) == (1, 2, 0)


def test_sets_of_gangs_come_in_order_of_cost() -> None:
    found = list(gang_sets(problem((0,), [(1, 0, gang) for gang in range(4)], (3.0, 1.0, 0.5, 2.0), ())))
    costs = [cost for cost, _ in found]
    assert costs == sorted(costs)
    assert len({frozenset(gangs) for _, gangs in found}) == 16
    assert found[0] == (0.0, ())


def test_the_exact_search_gives_up_after_its_work() -> None:
    long = problem((2,) * 10, [(2, pool, pool) for pool in range(10)], (1.0,) * 10, (3,) * 6)
    with pytest.raises(GaveUpError):
        cheapest(long, math.inf, work=1_000)


def test_what_no_moves_can_free_is_proven_to_be_hopeless() -> None:
    assert hopeless(problem((1, 1, 1), [(2, 0, 0), (2, 1, 1), (2, 2, 2)], (1.0,) * 3, (3, 3)), 50)
    assert not hopeless(problem((2, 2), [(2, 0, 0)], (1.0,), (4,)), 50)


def test_the_bound_pays_a_gang_once() -> None:
    """Two slices of one gang have to leave two pools: it costs what one restart does."""
    pair = problem((2, 2, 2, 2), [(2, 0, 0), (2, 1, 0)], (8.0,), (4, 4))
    assert relax(pair, 8.0, 200).bound == pytest.approx(8.0, rel=0.05)
    assert solve(pair).cost == 8.0


def test_room_now_and_after_moves() -> None:
    halves = problem((2, 2, 2, 2), [(2, pool, pool) for pool in range(4)], (1.0,) * 4, ())
    assert (room_now(halves, WantedSlice(size=4)), most_room(halves, WantedSlice(size=4))) == (0, 2)
    assert (room_now(halves, WantedSlice(size=2)), most_room(halves, WantedSlice(size=2))) == (4, 4)
    inside = WantedSlice(size=4, allowed=frozenset({0}))
    assert (room_now(halves, inside), most_room(halves, inside)) == (0, 1)
