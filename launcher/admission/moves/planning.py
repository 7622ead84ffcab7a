"""Plans of moves for a task on the fleet as it is stored now, and how a plan is reserved before anything moves."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from launcher.admission.current_inventory import whole
from launcher.admission.domains import guessed
from launcher.admission.moves.placed_tasks import placed_tasks, undisturbed
from launcher.core.model.inventory import Inventory
from launcher.core.model.move_order import SliceNodes
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Slice, UnavailableNodes
from launcher.core.model.run import Run, RunId, RunName
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.planner.defragment import MovePlan, MoveStep, NoMovePlan, after, defragment, nodes_of
from launcher.core.queue.timeline import free_to, with_unhealthy
from launcher.store.move_plans import LEASE_S
from launcher.store.owner import Owner
from launcher.store.store import Store
from launcher.store.stored_plan import PlanState, StoredPlan, StoredStep, fresh_plan_id
from launcher.store.user import User


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomRequest:
    """Room that is wanted: for a task on an inventory. `queued` is the id of the run that waits for it, if one does.

    `kept`: the room is kept for a run of the task's name; else it is free to all once the moves are done. `unfit` are
    nodes that failed the checks of the queued run.
    """

    task: Task
    fleet: Inventory
    queued: RunId | None = None
    kept: bool = True
    unfit: UnavailableNodes = field(default_factory=dict)

    def free_to_it(self, unavailable: UnavailableNodes) -> UnavailableNodes:
        """Return the nodes that are not free to the task; those reserved for its name are, if room is kept for it."""
        return free_to(unavailable, self.task.name) if self.kept else unavailable


def room_for_run(store: Store, run: Run) -> RoomRequest:
    """Return the request for room for a queued run."""
    fleet = guessed(whole(store, run.fleet), store.domains.of(run.fleet.name))
    waiting = store.queue.state(run.fleet.name, time.time()).waiting
    unfit = next((one.unavailable for one in waiting if one.id == run.id), {})
    return RoomRequest(task=replace(run.task, name=run.name), fleet=fleet, queued=run.id, unfit=unfit)


def room_for_slices(fleet: Inventory, slices: int, nodes: int) -> RoomRequest:
    """Return the request for room for slices of so many nodes, on the inventory's nodes with GPUs if it has any."""
    gpus = [node.gpus for node in fleet.nodes if node.gpus]
    group = Group(name="room", topology=TopologyRule(slices=slices, nodes_per_slice=nodes), gpus=min(gpus, default=0))
    return RoomRequest(task=Task(name="room", groups=(group,)), fleet=fleet, kept=False)


def plan_moves(store: Store, room: RoomRequest) -> MovePlan | NoMovePlan:
    """Return the cheapest moves found that make room, or why there are none. Nothing is stored.

    Nodes that did not get ready for a plan lately are left out.
    """
    unfit = {**store.ledger.unready(room.fleet.name, time.time()), **room.unfit}
    unavailable = with_unhealthy(room.free_to_it(store.unavailable(room.fleet)), unfit)
    return defragment(room.task, room.fleet, unavailable, placed_tasks(store, room.fleet.name)[0])


def reserve(store: Store, room: RoomRequest, plan: MovePlan, user: User) -> StoredPlan:
    """Store a plan, and reserve all of its nodes, in one transaction that checks it again.

    ConflictError while another plan of the inventory is carried out, LaunchError where the fleet has changed.
    """
    now, plan_id = time.time(), fresh_plan_id()
    ids = {row.name: row.id for row in store.live()[0]}
    stored = StoredPlan(
        id=plan_id,
        fleet=room.fleet.name,
        beneficiary=RunName(room.task.name if room.kept else plan_id),
        user=user,
        created=now,
        expires=now + LEASE_S,
        state=PlanState.ACTIVE,
        message="",
        spent=0.0,
        steps=tuple(_planned(ids, step) for step in plan.steps),
        owner=Owner.current(),
    )
    nodes = {node: move.run for move in plan.moves for node in nodes_of(move.new)}
    nodes |= dict.fromkeys((*plan.placement.nodes, *plan.placement.exclusive_nodes), stored.beneficiary)

    def check(unavailable: UnavailableNodes) -> str | None:
        return _outdated(store, stored, plan, room.free_to_it(unavailable))

    store.move_plans.begin(stored, nodes, lambda: store.unavailable(room.fleet), check)
    return stored


def _planned(ids: Mapping[RunName, RunId], step: MoveStep) -> StoredStep:
    run = step.moves[0].run
    return StoredStep(
        id=ids.get(run, RunId("")),
        run=run,
        gang=step.gang,
        old=tuple(SliceNodes(slice=move.old.key, nodes=nodes_of(move.old)) for move in step.moves),
        new=tuple(SliceNodes(slice=move.new.key, nodes=nodes_of(move.new)) for move in step.moves),
        gpu_hours=step.gpu_hours,
    )


def _outdated(store: Store, stored: StoredPlan, plan: MovePlan, unavailable: UnavailableNodes) -> str | None:
    """Return what has changed so that a plan does not hold any more; None where it holds."""
    for planned in stored.steps:
        row = next((row for row in store.live()[0] if row.id == planned.id), None)
        run, record = store.load(planned.id) if row else (None, None)
        if run is None or record is None or not undisturbed(run, record):
            return f"`{planned.run}` does not run undisturbed any more"
        if set(_placed(run.placement.slices, planned)) != {(one.slice, one.nodes) for one in planned.old}:
            return f"`{planned.run}` has moved"
    for at, step in enumerate(plan.steps):
        now = after(unavailable, plan.steps[:at])
        if busy := [node for move in step.moves for node in nodes_of(move.new) if node in now]:
            return f"{busy[0]} is not free any more"
    now = after(unavailable, plan.steps)
    busy = [node for node in plan.placement.nodes if node in now]
    return f"{busy[0]} is not free any more" if busy else None


def _placed(slices: Sequence[Slice], step: StoredStep) -> Iterator[tuple[str, tuple[NodeName, ...]]]:
    keys = {part.slice for part in step.old}
    return ((part.key, nodes_of(part)) for part in slices if part.key in keys)
