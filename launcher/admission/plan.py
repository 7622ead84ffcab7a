"""Where a task would run now, by what is known of the nodes; no node is asked."""

import time
from dataclasses import dataclass

from launcher.admission.context import AdmissionContext
from launcher.admission.domains import guessed, unknown_domains, with_domains
from launcher.admission.listener import DomainsUnknown
from launcher.admission.preflight import place_without
from launcher.admission.queue.explain import not_free
from launcher.admission.request import Request
from launcher.core.model.inventory import Inventory
from launcher.core.model.placement import Placement, Shortfall, UnavailableNodes
from launcher.core.model.task import Task
from launcher.core.placement.explain import SurveyedRack, survey
from launcher.core.placement.place import place
from launcher.core.placement.slice_range import as_placed
from launcher.core.planner.placement_cost import SliceCosts, slice_costs
from launcher.core.planner.straddle import straddling
from launcher.errors import NoCapacityError


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlan:
    """A placement of a task, and its basis.

    The inventory with known domains, and the nodes that are not free.
    """

    task: Task
    placement: Placement
    fleet: Inventory
    unavailable: UnavailableNodes

    def costs(self) -> SliceCosts:
        """Return what each slice costs."""
        return slice_costs(self.task, self.placement.slices, self.fleet)

    def candidates(self) -> tuple[SurveyedRack, ...]:
        """Return all candidate racks for each group."""
        return survey(self.task, self.fleet, self.unavailable, self.placement)


def plan(context: AdmissionContext, request: Request) -> TaskPlan:
    """Return where a task would run now; NoCapacityError where nowhere.

    Where it fits only with NVLink domains that no node has reported yet, racks are taken for them, as `up` does before
    it asks; that is a notice.
    """
    domains = context.store.domains.of(request.fleet.name)
    fleet, blocked = with_domains(request.fleet, domains), unavailable(context, request)
    avoided = context.store.ledger.avoided(fleet.name, request.task.name, time.time())
    answer = place_without(request.task, fleet, blocked, avoided)
    missing, assumed = unknown_domains(fleet), False
    if missing and isinstance(answer, Shortfall):
        fleet, assumed = guessed(request.fleet, domains), True
        answer = place_without(request.task, fleet, blocked, avoided)
    if missing:
        context.listener.notify(DomainsUnknown(nodes=missing, assumed=assumed))
    if isinstance(answer, Shortfall):
        raise NoCapacityError(answer, straddling(request.task, fleet, blocked, answer))
    in_use = context.store.unavailable(request.fleet)
    task = as_placed(request.task, answer.slices)
    return TaskPlan(task=task, placement=answer, fleet=fleet, unavailable=in_use)


def known_fleet(context: AdmissionContext, request: Request) -> Inventory:
    """Return the inventory with the NVLink domains that nodes reported; those still unknown are a notice."""
    fleet = with_domains(request.fleet, context.store.domains.of(request.fleet.name))
    if missing := unknown_domains(fleet):
        context.listener.notify(DomainsUnknown(nodes=missing))
    return fleet


def unavailable(context: AdmissionContext, request: Request) -> UnavailableNodes:
    """Return the nodes that are not free to a task that starts now.

    Used by runs, or needed by queued runs.
    """
    fleet = guessed(request.fleet, context.store.domains.of(request.fleet.name))
    return not_free(context.store, fleet, request.task)


def never_fits(context: AdmissionContext, request: Request) -> Shortfall | None:
    """Return why a task would not fit even if all nodes were free and well.

    None where it would.
    """
    answer = place(request.task, guessed(request.fleet, context.store.domains.of(request.fleet.name)), {})
    return answer if isinstance(answer, Shortfall) else None
