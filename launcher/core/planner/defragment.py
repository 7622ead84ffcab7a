"""Defragmentation: which slices to move where, and in which order, so that a task fits that does not fit now.

The plan is a preview: nothing here moves anything. Every step has room when its turn comes, and restarts one gang.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from launcher.core.model.inventory import RACK_LEVEL, Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Slice, Unavailable, UnavailableNodes
from launcher.core.model.run import RunName
from launcher.core.model.task import Task
from launcher.core.model.text import count
from launcher.core.placement.colocation import placed_groups
from launcher.core.placement.slice_range import fewest_slices
from launcher.core.planner.moves import MoveProblem
from launcher.core.planner.relocation import Fleet, PlacedTask, Relocations, relocations, unsupported, ways_to_want
from launcher.core.planner.search import CLOSE, MoveSolution, most_room, room_now, solve
from launcher.core.queue.timeline import fit

GPU_HOUR_S = 3600.0

MAX_ROUNDS = 8
"""How often a plan is made anew without moves that turned out to break a rule between slices that move together."""

MAX_PLACES = 8
"""The most places tried for a task whose slices have to be in one (`all_within`)."""


NO_MOVES = "no moves make room"
NONE_FOUND = "no moves were found that make room"


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceMove:
    """One slice of a run, before and after."""

    run: RunName
    old: Slice
    new: Slice


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveStep:
    """The moves of one gang, which restarts once, and the GPU-hours that costs."""

    gang: str
    moves: tuple[SliceMove, ...]
    gpu_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """Steps in order, after which the task has its placement. Without steps it fits now.

    No plan costs less than `bound_gpu_hours` (0: not known); `proven`: none costs less than this one. Both are said of
    moves of slices that may move, each to one pool of equal nodes that its rules allow while its run stays.
    """

    steps: tuple[MoveStep, ...]
    placement: Placement
    bound_gpu_hours: float
    proven: bool

    @property
    def gpu_hours(self) -> float:
        """Return the GPU-hours that all steps cost."""
        return sum(step.gpu_hours for step in self.steps)

    @property
    def moves(self) -> tuple[SliceMove, ...]:
        """Return all moves in order."""
        return tuple(move for step in self.steps for move in step.moves)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoMovePlan:
    """Why no moves make a task fit. `proven`: none do. `fixed` counts the slices that may not move, by reason."""

    reason: str
    proven: bool
    fixed: Mapping[str, int]


def defragment(
    wanted: Task, inventory: Inventory, unavailable: UnavailableNodes, placed: Sequence[PlacedTask]
) -> MovePlan | NoMovePlan:
    """Return the cheapest moves found after which a task fits, or why there are none.

    `unavailable` has all nodes that are not free, those of `placed` too. Rules of runs that move hold at every step;
    soft ones (`prefer`, `balance`) are not weighed.
    """
    now = fit(wanted, inventory, unavailable)
    if now is not None:
        return MovePlan(steps=(), placement=now, bound_gpu_hours=0.0, proven=True)
    if (reason := unsupported(wanted)) is not None:
        return NoMovePlan(reason=reason, proven=False, fixed={})
    if (reason := _too_large(wanted, inventory)) is not None:
        return NoMovePlan(reason=reason, proven=True, fixed={})
    fleet = Fleet(inventory, unavailable, wanted)
    ways = ways_to_want(fleet, wanted)
    found = [_one_way(wanted, unavailable, fleet, relocations(fleet, placed, way)) for way in ways[:MAX_PLACES]]
    plans = [one for one in found if isinstance(one, MovePlan)]
    if not plans:
        none = next(iter(found), NoMovePlan(reason="no place at the level asked", proven=True, fixed={}))
        return replace(none, proven=none.proven and len(ways) <= MAX_PLACES and all(one.proven for one in found))
    best = min(plans, key=lambda plan: plan.gpu_hours)
    if len(found) == len(ways) and all(isinstance(one, MovePlan) or one.proven for one in found):
        bound = min(plan.bound_gpu_hours for plan in plans)
        return replace(best, bound_gpu_hours=bound, proven=best.gpu_hours <= bound * (1 + CLOSE))
    return replace(best, bound_gpu_hours=0.0, proven=False)


def _too_large(wanted: Task, inventory: Inventory) -> str | None:
    """Return why a task would not fit if every node were free, by counts of nodes alone; None where it may fit."""
    rules = [group.topology for group in fewest_slices(placed_groups(wanted)).groups]
    nodes, total = sum(rule.nodes for rule in rules), len(inventory.nodes)
    prefix = "it does not fit even on the empty inventory"
    largest = max(Counter(node.rack for node in inventory.nodes).values(), default=0)
    if any(rule.within == RACK_LEVEL and rule.nodes_per_slice + rule.spares > largest for rule in rules):
        return f"{prefix}: the largest rack has {count(largest, 'node')}"
    return f"{prefix}: it needs {nodes} nodes of {total}" if nodes > total else None


def _one_way(wanted: Task, unavailable: UnavailableNodes, fleet: Fleet, found: Relocations) -> MovePlan | NoMovePlan:
    """Return the plan of one problem, made anew while slices that move together break a rule of their run."""
    # Spares that slices of a rack share are counted for each, and a slice on unequal nodes of a domain not at all.
    exact = fleet.uniform and not any(group.topology.spares_per_rack for group in wanted.groups)
    problem, bound = found.problem, math.inf
    for _ in range(MAX_ROUNDS):
        solution = solve(problem)
        bound = min(bound, solution.bound if exact else 0.0)
        if solution.assignment is None:
            proven = bound == math.inf
            return NoMovePlan(reason=NO_MOVES if proven else NONE_FOUND, proven=proven, fixed=found.fixed)
        steps = _steps(fleet, found, solution)
        broken = _broken(fleet, found, steps)
        if broken is None:
            return _plan(wanted, unavailable, fleet, found, steps, bound / GPU_HOUR_S)
        problem = _without(problem, *broken)
    return NoMovePlan(reason="slices of a run that move together break its rules", proven=False, fixed=found.fixed)


def _plan(
    wanted: Task,
    unavailable: UnavailableNodes,
    fleet: Fleet,
    found: Relocations,
    steps: tuple[MoveStep, ...],
    bound: float,
) -> MovePlan | NoMovePlan:
    """Return the plan with the task placed on what is free after it."""
    placement = fit(wanted, fleet.inventory, after(unavailable, steps))
    if placement is None:
        return NoMovePlan(reason="rules between slices of the task", proven=False, fixed=found.fixed)
    cost = sum(step.gpu_hours for step in steps)
    return MovePlan(steps=steps, placement=placement, bound_gpu_hours=bound, proven=cost <= bound * (1 + CLOSE))


def after(unavailable: UnavailableNodes, steps: Sequence[MoveStep]) -> UnavailableNodes:
    """Return what is not free after some steps."""
    now = dict(unavailable)
    for step in steps:
        for move in step.moves:
            for name in nodes_of(move.old):
                del now[name]
            now.update(dict.fromkeys(nodes_of(move.new), Unavailable(used_by=move.run)))
    return now


def nodes_of(part: Slice) -> tuple[NodeName, ...]:
    """Return all nodes of a slice, members first."""
    return (*part.nodes, *part.spares)


def _steps(fleet: Fleet, found: Relocations, solution: MoveSolution) -> tuple[MoveStep, ...]:
    """Return the steps of a solution with the nodes that each slice gets: free ones of its new pool, in rank order."""
    assert solution.assignment is not None
    free = [dict.fromkeys(names) for names in fleet.free]
    steps: list[MoveStep] = []
    for gang in solution.order:
        moves: list[SliceMove] = []
        for at, pool in solution.assignment.moved.items():
            run, part = found.parts[at]
            if found.problem.slices[at].gang == gang:
                names = tuple(islice(free[pool], len(nodes_of(part))))
                for name in names:
                    del free[pool][name]
                moves.append(SliceMove(run=run.name, old=part, new=_moved(fleet, part, names)))
        for move in moves:
            for name in nodes_of(move.old):
                free[fleet.pool_of[name]][name] = None
        cost = found.problem.gang_costs[gang] / GPU_HOUR_S
        steps.append(MoveStep(gang=found.gangs[gang], moves=tuple(moves), gpu_hours=cost))
    return tuple(steps)


def _moved(fleet: Fleet, part: Slice, names: Sequence[NodeName]) -> Slice:
    node, members = fleet.nodes[names[0]], len(part.nodes)
    return replace(
        part,
        place=node.rack,
        rack=node.rack,
        domain=node.domain,
        nodes=tuple(names[:members]),
        spares=tuple(names[members:]),
    )


def _broken(fleet: Fleet, found: Relocations, steps: Sequence[MoveStep]) -> tuple[int, int] | None:
    """Return the first slice, with its new pool, that breaks a rule against slices of its run when its step is done."""
    runs = {run.name: run for run, _ in found.parts}
    numbers = {(run.name, part.key): at for at, (run, part) in enumerate(found.parts)}
    own = {name: {part.key: part for part in run.own_slices()} for name, run in runs.items()}
    for step in steps:
        for move in step.moves:
            own[move.run][move.new.key] = move.new
        for move in step.moves:
            task = placed_groups(runs[move.run].task)
            others = [part for key, part in own[move.run].items() if key != move.new.key]
            allowed = fleet.allowed(task.group(move.new.group), fleet.constraints(task, move.new, others))
            pool = fleet.pool_of[move.new.nodes[0]]
            if allowed is not None and pool not in allowed:
                return numbers[move.run, move.new.key], pool
    return None


def _without(problem: MoveProblem, at: int, pool: int) -> MoveProblem:
    """Return a problem in which one slice may not move to one pool."""
    part = problem.slices[at]
    allowed = (frozenset(range(len(problem.free))) if part.allowed is None else part.allowed) - {pool}
    slices = list(problem.slices)
    slices[at] = replace(part, allowed=allowed)
    return replace(problem, slices=tuple(slices))


def slices_with_room(
    inventory: Inventory, unavailable: UnavailableNodes, placed: Sequence[PlacedTask], task: Task
) -> tuple[int, int]:
    """Return how many slices of a task of one slice have room now, and how many after moves at any cost."""
    fleet = Fleet(inventory, unavailable, task)
    problem = relocations(fleet, placed, ways_to_want(fleet, task)[0]).problem
    return room_now(problem, problem.wanted[0]), most_room(problem, problem.wanted[0])
