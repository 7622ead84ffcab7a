"""A placement as `plan -o json` writes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from launcher.admission.checks.execution import budget
from launcher.admission.compare import PlanChoice
from launcher.admission.plan import TaskPlan
from launcher.admission.request import Request
from launcher.api.cost import PlannedCost, describe_cost
from launcher.core.control.slice_count import small_groups
from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Slice
from launcher.core.placement.explain import SurveyedRack
from launcher.core.placement.fragmentation import fragmentation
from launcher.core.planner.placement_cost import SliceCost, SliceCosts


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSlice:
    """Where one slice would run, why there, and what it costs.

    `cost` is None for a slice with fewer than two GPUs, and where the link speeds are unknown.
    """

    group: str
    slice: int
    place: str
    rack: str | None
    domain: str | None
    nodes: tuple[NodeName, ...]
    spares: tuple[NodeName, ...]
    reason: str
    cost: PlannedCost | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentationChange:
    """Slurm's fragmentation score of the inventory before and after the placement.

    0 is best.
    """

    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRack:
    """A rack, or a coarser domain, as a candidate for a group.

    `reason` says why slices of the group went there or not.

    `excluded` counts nodes that are not free by reason, `users` those in use by run, `accelerators` those of another
    kind. `left` is how many nodes are left for the group once the task is placed.
    """

    group: str
    rack: str
    total: int
    free: int
    excluded: Mapping[str, int]
    users: Mapping[str, int]
    accelerators: Mapping[str, int]
    left: int
    slices: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCheck:
    """The check of nodes before the start: what one test covers, and the longest times of a test and of all (s)."""

    scope: str
    time_limit: float
    total: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Where a task would run now.

    `racks` has the candidates, where they were asked for (`-v`). `wanted` is the number of slices of each group that
    may have fewer and does. `before_start` is None where the inventory has no such check.
    """

    name: str
    inventory: str
    slices: tuple[PlannedSlice, ...]
    fragmentation: FragmentationChange
    racks: tuple[CandidateRack, ...] = ()
    wanted: Mapping[str, int] = field(default_factory=dict)
    before_start: PlannedCheck | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChoice:
    """A task with its slices `within` one level; where it does not fit, `reason` says why."""

    within: str
    fits: bool
    reason: str | None
    slices: tuple[PlannedSlice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanComparison:
    """Where a task would run now for each of several levels."""

    name: str
    inventory: str
    choices: tuple[PlannedChoice, ...]


def describe(request: Request, found: TaskPlan, *, verbose: bool = False) -> Plan:
    """Return a plan for users; with `verbose` also all candidate racks."""
    placement = found.placement
    return Plan(
        name=request.task.name,
        inventory=request.fleet.name,
        slices=_slices(placement, found.costs()),
        fragmentation=FragmentationChange(
            before=fragmentation(found.fleet, found.unavailable),
            after=fragmentation(found.fleet, {*found.unavailable, *placement.nodes}),
        ),
        racks=tuple(map(_candidate, found.candidates())) if verbose else (),
        wanted={group.name: group.topology.max_slices or 0 for group in small_groups(found.task)},
        before_start=describe_check(request.fleet),
    )


def describe_check(fleet: Inventory) -> PlannedCheck | None:
    """Return the check that runs before a start on an inventory."""
    check = fleet.checks.before_start
    if check is None:
        return None
    return PlannedCheck(scope=check.on.value, time_limit=check.limit, total=budget(check))


def describe_choices(request: Request, choices: Sequence[PlanChoice]) -> PlanComparison:
    """Return a comparison of levels for users."""
    return PlanComparison(
        name=request.task.name, inventory=request.fleet.name, choices=tuple(_choice(one) for one in choices)
    )


def _choice(one: PlanChoice) -> PlannedChoice:
    fits = one.placement is not None
    slices = () if one.placement is None else _slices(one.placement, one.costs)
    return PlannedChoice(within=one.within, fits=fits, reason=one.reason, slices=slices)


def _slices(placement: Placement, costs: SliceCosts) -> tuple[PlannedSlice, ...]:
    found = zip(placement.slices, placement.reasons, strict=True)
    return tuple(_slice(part, reason, costs.by_slice.get(part.key)) for part, reason in found)


def _slice(part: Slice, reason: str, cost: SliceCost | None) -> PlannedSlice:
    return PlannedSlice(
        group=part.group,
        slice=part.index,
        place=part.place,
        rack=part.rack,
        domain=part.domain,
        nodes=part.nodes,
        spares=part.spares,
        reason=reason,
        cost=None if cost is None else describe_cost(cost),
    )


def _candidate(one: SurveyedRack) -> CandidateRack:
    rack = one.before
    return CandidateRack(
        group=one.group,
        rack=rack.rack,
        total=rack.total,
        free=rack.free,
        excluded={reason.name.lower(): number for reason, number in rack.excluded.items()},
        users=dict(rack.users),
        accelerators=dict(rack.accelerators),
        left=one.left,
        slices=one.slices,
        reason=one.reason,
    )
