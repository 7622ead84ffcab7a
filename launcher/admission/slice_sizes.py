"""How large the slices of a job should be, on a real or an imaginary fleet."""

import os
import time
from dataclasses import dataclass

from launcher.admission.context import AdmissionContext
from launcher.admission.domains import guessed
from launcher.admission.listener import InventoryRead
from launcher.admission.observed_faults import observed_faults
from launcher.admission.request import RequestSource, read_request
from launcher.config.inventory.read import find_inventory
from launcher.config.task.envs import Overrides
from launcher.config.task.read import read_task
from launcher.core.model.inventory import Inventory
from launcher.core.model.task import Task
from launcher.core.model.text import count
from launcher.core.planner.faults import PUBLISHED, FaultModel, PublishedRate, rate_of, share_down
from launcher.core.planner.fleet_shape import CountedFleet, counted_fleet
from launcher.core.planner.observed import FEWEST, ObservedFaults
from launcher.core.planner.size_advice import SizeAdvice, advise, main_group, own_size
from launcher.core.planner.sizing import FleetShape, JobShape
from launcher.errors import refuse

INCIDENTS = "incidents"
"""The name of the rate that the inventory's own incidents come to."""

MAX_RACK_NODES = 1_000
"""The most nodes of a rack: binomials of more are beyond floating-point numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeRequest:
    """A job, its fleet, and the faults to reckon with.

    The job is `task`, or a number of GPUs. The fleet is `imaginary`, or the inventory: as after `-i`, and for a task
    that of its source.
    `rate` is a published name, a time between faults of a node, or `incidents`. Times are in seconds.
    """

    task: RequestSource | None
    gpus: int | None
    inventory: str | None
    imaginary: FleetShape | None
    rate: str
    write_s: float
    restart_s: float
    requeue_s: float
    least_gpus: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeReport:
    """Advice with its faults, and where fleet and rate come from. `observed`: the incidents that the rate is from."""

    advice: SizeAdvice
    model: FaultModel
    inventory: str | None
    accelerator: str | None
    notes: tuple[str, ...]
    observed: ObservedFaults | None

    @property
    def node_days(self) -> float:
        """Return a node's mean time between faults (days)."""
        return 1 / self.model.rate.per_day(self.advice.fleet.gpus_per_node)

    @property
    def days_between(self) -> tuple[float, float] | None:
        """Return the 95 % interval of the same, where the rate was observed."""
        return None if self.observed is None else self.observed.days_between(self.advice.fleet.gpus_per_node)

    @property
    def down(self) -> float:
        """Return the share of nodes in repair."""
        return share_down(self.model, self.advice.fleet.gpus_per_node)


def size_slices(context: AdmissionContext, request: SizeRequest) -> SizeReport:
    """Return the choices for a job; SpecError where it, its fleet or the rate cannot be used."""
    task, inventory = _read(context, request)
    fleet = _fleet(context, request, inventory, task)
    shape = fleet.shape
    if shape.nodes_per_rack > MAX_RACK_NODES:
        refuse(f"racks of {shape.nodes_per_rack} nodes are too large: `size` takes up to {MAX_RACK_NODES}")
    observed = _observed(context, request, inventory)
    model = FaultModel(rate=_rate(request, observed, shape.gpus_per_node))
    job = JobShape(
        nodes=_nodes(request, task, shape, inventory),
        write_s=request.write_s,
        in_place_s=request.restart_s,
        requeue_s=request.requeue_s,
    )
    own = own_size(task) if task else None
    return SizeReport(
        advice=advise(job, shape, model, least_gpus=request.least_gpus, own=own),
        model=model,
        inventory=inventory.name if inventory else None,
        accelerator=fleet.accelerator,
        notes=(*fleet.notes, *_task_notes(task, shape), *_least_notes(request.least_gpus, shape)),
        observed=observed,
    )


def _read(context: AdmissionContext, request: SizeRequest) -> tuple[Task | None, Inventory | None]:
    source = request.task
    if request.imaginary is not None:
        return None if source is None else _task(source), None
    if source is not None:
        found = read_request(context, source)
        return found.task, found.fleet
    fleet = find_inventory(request.inventory, os.environ, context.store.home)
    context.listener.notify(InventoryRead(fleet=fleet))
    return None, fleet


def _task(source: RequestSource) -> Task:
    given = Overrides(envs=source.envs, secrets=frozenset(source.secrets), values_later=True)
    return read_task(source.task, overrides=given).task


def _fleet(
    context: AdmissionContext, request: SizeRequest, inventory: Inventory | None, task: Task | None
) -> CountedFleet:
    if inventory is None:
        assert request.imaginary is not None
        return CountedFleet(shape=request.imaginary)
    wanted = main_group(task).accelerator if task else None
    known = guessed(inventory, context.store.domains.of(inventory.name))
    fleet = counted_fleet(known, wanted)
    if fleet is None:
        what = f"node with {wanted}" if wanted else "node with GPUs"
        hint = "name another inventory with `-i`, or an imaginary fleet with `--racks`"
        refuse(f"inventory `{inventory.name}` has no {what}", hint=hint)
    return fleet


def _observed(context: AdmissionContext, request: SizeRequest, inventory: Inventory | None) -> ObservedFaults | None:
    if request.rate != INCIDENTS:
        return None
    hint = f"use a published rate such as `--faults {next(iter(PUBLISHED))}`, or `--mtbf`"
    if inventory is None or inventory.capabilities.imaginary:
        refuse("imaginary racks have no incidents of their own", hint=hint, where="--faults")
    return observed_faults(context.store, inventory.name, time.time())


def _rate(request: SizeRequest, observed: ObservedFaults | None, gpus_per_node: int) -> PublishedRate:
    try:
        return observed.rate(gpus_per_node) if observed else rate_of(request.rate, gpus_per_node)
    except ValueError as error:
        if observed is None:
            refuse(str(error), hint="`--mtbf` is the mean time between faults of one node", where="--mtbf")
        refuse(str(error), hint=f"at least {FEWEST} are needed; use a published rate or `--mtbf`", where="--faults")


def _nodes(request: SizeRequest, task: Task | None, shape: FleetShape, inventory: Inventory | None) -> int:
    """Return the nodes of the job."""
    each, total = shape.gpus_per_node, shape.racks * shape.nodes_per_rack
    if task is not None:
        group = main_group(task)
        nodes = group.topology.nodes
        if group.gpus == 0:
            refuse(f"task `{task.name}` uses no GPUs", hint="name its GPUs in `resources`, or use `--gpus`")
    else:
        assert request.gpus is not None
        nodes, rest = divmod(request.gpus, each)
        if rest:
            hint = f"use {(nodes + 1) * each}"
            refuse(f"{request.gpus} is not a multiple of the {each} GPUs of a node", hint=hint, where="--gpus")
    if nodes > total:
        where = f"inventory `{inventory.name}`" if inventory else "the fleet"
        racks = f"{count(shape.racks, 'rack')} of {count(shape.nodes_per_rack, 'node')}"
        what = f"the job needs {count(nodes * each, 'GPU')}, and {where} has {total * each} in {racks}"
        refuse(what, hint="name another inventory with `-i`, or an imaginary fleet with `--racks`")
    return nodes


def _least_notes(least_gpus: int | None, shape: FleetShape) -> tuple[str, ...]:
    """Return what the fewest GPUs of a slice are rounded up to: slices have whole nodes."""
    each = shape.gpus_per_node
    if least_gpus is None or least_gpus % each == 0:
        return ()
    used = -(-least_gpus // each) * each
    return (f"{least_gpus} GPUs are no whole nodes of {count(each, 'GPU')}: slices have at least {used} GPUs",)


def _task_notes(task: Task | None, shape: FleetShape) -> tuple[str, ...]:
    """Return what the advice does not cover of a task."""
    if task is None:
        return ()
    group = main_group(task)
    rule, notes = group.topology, []
    if len(task.groups) > 1:
        notes.append(f"only group `{group.name}` is sized, which has the most GPUs of `{task.name}`")
    if own_size(task) is None:
        notes.append(f"slices of `{group.name}` may span racks (`within: {rule.within}`)")
    elif rule.nodes_per_slice + rule.spares > shape.nodes_per_rack:
        segment = count(rule.nodes_per_slice + rule.spares, "node")
        notes.append(f"slices of `{group.name}` do not fit a rack: {segment} with spares, of {shape.nodes_per_rack}")
    if rule.spares_per_rack:
        notes.append("`spares_per_rack` is left out: slices have spares of their own here")
    return tuple(notes)
