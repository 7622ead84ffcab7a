"""Moves that free room, on small drawn fleets: as cheap as the best of all ways, and feasible step by step."""

import math
from collections.abc import Iterator, Mapping
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from launcher.core.planner.bound import hopeless, relax
from launcher.core.planner.moves import Assignment, MovableSlice, MoveProblem, WantedSlice, order_steps
from launcher.core.planner.search import solve
from tests.effort import drawn


@st.composite
def problems(draw: st.DrawFn) -> MoveProblem:
    """Fleets of 3 or 4 pools of up to 6 nodes, with up to 6 movable slices, where a large slice finds no room."""
    pools = draw(st.integers(3, 4))
    some = st.frozensets(st.integers(0, pools - 1), min_size=2)
    allowed = st.sampled_from((False, False, False, False, True)).flatmap(lambda few: some if few else st.none())
    gangs = draw(st.integers(2, 5))
    free, slices = [draw(st.integers(4, 6)) for _ in range(pools)], []
    for at in range(draw(st.integers(pools, 6))):
        size, pool = draw(st.integers(1, 3)), at % pools
        if size <= free[pool]:
            free[pool] -= size
            gang = draw(st.integers(0, gangs - 1))
            slices.append(MovableSlice(size=size, pool=pool, gang=gang, allowed=draw(allowed)))
    free = [room - draw(st.integers(0, min(1, room))) for room in free]
    largest = max(free) + draw(st.sampled_from((1, 1, 1, 0, 2)))
    wanted = [WantedSlice(size=max(1, largest), allowed=draw(allowed))]
    if draw(st.booleans()):
        wanted.append(WantedSlice(size=draw(st.integers(1, 2)), allowed=draw(allowed)))
    costs = tuple(float(draw(st.integers(0, 8))) for _ in range(gangs))
    return MoveProblem(free=tuple(free), slices=tuple(slices), gang_costs=costs, wanted=tuple(wanted))


def every_assignment(problem: MoveProblem) -> Iterator[Mapping[int, int]]:
    """Return every choice of new pools for any of the slices."""
    every = range(len(problem.free))
    ways = [
        [part.pool, *(pool for pool in (every if part.allowed is None else part.allowed) if pool != part.pool)]
        for part in problem.slices
    ]
    for pools in product(*ways):
        yield {at: pool for at, pool in enumerate(pools) if pool != problem.slices[at].pool}


def after(problem: MoveProblem, moved: Mapping[int, int]) -> list[int]:
    free = list(problem.free)
    for at, pool in moved.items():
        free[problem.slices[at].pool] += problem.slices[at].size
        free[pool] -= problem.slices[at].size
    return free


def holds_wanted(problem: MoveProblem, free: list[int], at: int = 0) -> bool:
    """Whether all wanted slices from this one on fit, tried in every way."""
    if at == len(problem.wanted):
        return True
    part = problem.wanted[at]
    for pool, room in enumerate(free):
        if room >= part.size and (part.allowed is None or pool in part.allowed):
            free[pool] -= part.size
            found = holds_wanted(problem, free, at + 1)
            free[pool] += part.size
            if found:
                return True
    return False


def can_be_ordered(problem: MoveProblem, moved: Mapping[int, int]) -> bool:
    """Whether the gangs of these moves can go in some order, tried in every way."""

    def go(left: frozenset[int], free: list[int]) -> bool:
        if not left:
            return True
        for gang in left:
            own = [at for at in moved if problem.slices[at].gang == gang]
            new = list(free)
            for at in own:
                new[moved[at]] -= problem.slices[at].size
            if min(new) < 0:
                continue
            for at in own:
                new[problem.slices[at].pool] += problem.slices[at].size
            if go(left - {gang}, new):
                return True
        return False

    return go(frozenset(problem.slices[at].gang for at in moved), list(problem.free))


def least_cost(problem: MoveProblem) -> float:
    """Return the least cost of all ways; infinity where there is none."""
    best = math.inf
    for moved in every_assignment(problem):
        cost = problem.cost(moved)
        if cost < best:
            free = after(problem, moved)
            if min(free) >= 0 and holds_wanted(problem, free) and can_be_ordered(problem, moved):
                best = cost
    return best


def check(problem: MoveProblem, assignment: Assignment, order: tuple[int, ...]) -> None:
    """Play an assignment step by step: each slice goes where it may, into nodes that are free by then."""
    free = list(problem.free)
    assert sorted(order) == sorted({problem.slices[at].gang for at in assignment.moved})
    for gang in order:
        own = {at: pool for at, pool in assignment.moved.items() if problem.slices[at].gang == gang}
        for at, pool in own.items():
            part = problem.slices[at]
            assert pool != part.pool
            assert part.allowed is None or pool in part.allowed
            free[pool] -= part.size
        assert min(free) >= 0
        for at in own:
            free[problem.slices[at].pool] += problem.slices[at].size
    for part, pool in zip(problem.wanted, assignment.wanted, strict=True):
        assert part.allowed is None or pool in part.allowed
        free[pool] -= part.size
    assert min(free) >= 0


@drawn(80)
@given(problems())
def test_moves_cost_as_little_as_the_best_of_all_ways(problem: MoveProblem) -> None:
    found = solve(problem)
    assert found.cost == least_cost(problem)
    assert found.proven
    assert (found.assignment is None) == (found.cost == math.inf)
    if found.assignment is not None:
        assert problem.cost(found.assignment.moved) == found.cost
        check(problem, found.assignment, found.order)
    assert solve(problem) == found


@drawn(80)
@given(problems(), st.integers(0, 60))
def test_the_bound_is_never_above_the_least_cost(problem: MoveProblem, rounds: int) -> None:
    least = least_cost(problem)
    assert relax(problem, sum(problem.gang_costs) + 1, rounds).bound <= least + 1e-6
    assert not hopeless(problem, rounds) or least == math.inf


@drawn(80)
@given(problems(), st.data())
def test_an_order_of_steps_is_found_where_there_is_one(problem: MoveProblem, data: st.DataObject) -> None:
    moved = data.draw(st.sampled_from(list(every_assignment(problem))))
    assignment = Assignment(moved=moved, wanted=())
    order = order_steps(problem, assignment)
    assert (order is not None) == (min(after(problem, moved)) >= 0 and can_be_ordered(problem, moved))
