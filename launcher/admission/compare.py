"""One task at several levels of `within`, side by side; no node is asked."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from launcher.admission.context import AdmissionContext
from launcher.admission.plan import known_fleet, unavailable
from launcher.admission.request import Request
from launcher.config.task.levels import check_compared
from launcher.core.model.inventory import Inventory
from launcher.core.model.placement import Placement, Shortfall, Slice, UnavailableNodes
from launcher.core.model.task import Task
from launcher.core.model.text import count
from launcher.core.placement.place import place
from launcher.core.planner.compare import at_level, comparable, contradiction
from launcher.core.planner.placement_cost import SliceCosts, slice_costs
from launcher.errors import refuse


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChoice:
    """A task with slices `within` a level.

    `placement` is None where it does not fit, and `reason` says why. `compared` are the slices that the level is about,
    `costs` those of all slices.
    """

    within: str
    placement: Placement | None = None
    compared: tuple[Slice, ...] = ()
    costs: SliceCosts = field(default_factory=SliceCosts)
    reason: str | None = None


def compare_levels(context: AdmissionContext, request: Request, levels: Sequence[str]) -> tuple[PlanChoice, ...]:
    """Return a choice for each level; SpecError for unknown levels, or a task without slices to compare."""
    check_compared(levels, request.fleet)
    if not levels:
        refuse("no level is named", hint="write levels such as `rack,any`", where="--compare")
    if not comparable(request.task):
        hint = "`--compare` changes groups with GPUs and at least 2 nodes in each slice"
        refuse("the task has no slices to compare", hint=hint, where="--compare")
    fleet, blocked = known_fleet(context, request), unavailable(context, request)
    return tuple(_choice(request.task, level, fleet, blocked) for level in dict.fromkeys(levels))


def _choice(task: Task, level: str, fleet: Inventory, blocked: UnavailableNodes) -> PlanChoice:
    changed = at_level(task, level, fleet.levels)
    if (reason := contradiction(changed, fleet.levels)) is not None:
        return PlanChoice(within=level, reason=reason)
    found = place(changed, fleet, blocked)
    if isinstance(found, Shortfall):
        return PlanChoice(within=level, reason=_reason(found))
    groups = comparable(task)
    return PlanChoice(
        within=level,
        placement=found,
        compared=tuple(part for part in found.slices if part.group in groups),
        costs=slice_costs(changed, found.slices, fleet),
    )


def _reason(shortfall: Shortfall) -> str:
    need = shortfall.nodes_per_slice + shortfall.spares
    fits = f"{shortfall.placed} of {count(shortfall.slices, 'slice')} of `{shortfall.group}` placed"
    best = f", the best place has {shortfall.largest} of {count(need, 'node')}" if shortfall.largest < need else ""
    return fits + best + ("" if shortfall.proven else ", search limit reached")
