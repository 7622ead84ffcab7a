"""Moves of slices as a policy: `core/planner/defragment` plans them for the first run in the queue, within a budget."""

from launcher.core.model.placement import Placement
from launcher.core.model.run import RunName
from launcher.core.planner.defragment import MovePlan, MoveStep, defragment
from launcher.core.planner.faults import DAY_S
from launcher.core.planner.relocation import PlacedTask
from launcher.core.queue.backfill import QueuedRun
from launcher.simulate.admission import Admission
from launcher.simulate.fleet_state import NodeStatus
from launcher.simulate.world import ActiveJob, JobPhase, World

EVERY_S = 900.0
"""How often a plan is looked for, at most (s)."""


class Defragmenter:
    """Moves slices so that the first run in the queue fits.

    All moves of a plan begin at once. A run that moves writes a checkpoint and starts again, which is what they cost;
    unused budget is kept for a day.
    """

    def __init__(self, world: World, admission: Admission) -> None:
        self._world, self._admission = world, admission
        self._budget = 0.0
        self._at = self._next = 0.0

    def turn(self) -> None:
        """Plan and carry out moves for the first run in the queue, where the budget allows it."""
        world, daily = self._world, self._world.policy.defragment_gpu_hours
        if daily <= 0 or not self._admission.waiting or world.now < self._next:
            return
        first = self._admission.waiting[0]
        rule = first.task.groups[0].topology
        if world.fleet.counts[NodeStatus.FREE] < rule.slices * (rule.nodes_per_slice + rule.spares):
            return
        self._next = world.now + EVERY_S
        self._budget = min(daily, self._budget + daily * (world.now - self._at) / DAY_S)
        self._at = world.now
        plan = self._plan(first)
        if plan is not None and plan.gpu_hours <= self._budget:
            self._budget -= plan.gpu_hours
            for step in plan.steps:
                self._carry_out(step)
            self._admission.turn()

    def _plan(self, first: QueuedRun) -> MovePlan | None:
        world = self._world
        placed = [self._placed(run) for run in world.active.values()]
        found = defragment(first.task, world.fleet.inventory, dict(world.fleet.unavailable), placed)
        return found if isinstance(found, MovePlan) else None

    def _placed(self, run: ActiveJob) -> PlacedTask:
        """Return a run as the planner sees it; only one that computes on whole slices may move."""
        names = run.placement.nodes
        whole = run.held == frozenset(names) and all(map(self._world.fleet.up, names))
        fits = all(len(part.spares) == run.task.groups[0].topology.spares for part in run.placement.slices)
        policy = self._world.policy
        return PlacedTask(
            name=RunName(run.name),
            task=run.task,
            placement=run.placement,
            movable=run.phase is JobPhase.COMPUTING and whole and fits,
            restart_s=policy.write_s + policy.program_start_s + self._admission.ranks_start_s(run.task),
        )

    def _carry_out(self, step: MoveStep) -> None:
        """Move slices of one run, which writes a checkpoint and starts again."""
        world = self._world
        run = world.active[step.moves[0].run]
        new = {move.new.key: move.new for move in step.moves}
        placement = Placement(slices=tuple(new.get(part.key, part) for part in run.placement.slices))
        working = frozenset(name for part in placement.slices for name in part.nodes)
        world.stop_computing(run, graceful=True)
        world.hold(run, frozenset(placement.nodes), working)
        run.placement = placement
        run.kernel = None  # the next fault begins with a kernel that knows the new nodes
        world.enter(run, JobPhase.RECOVERING)
        world.incidents.moved += len(step.moves)
        world.incidents.move_gpu_hours += step.gpu_hours
        stop_s = world.policy.stop_grace_s + world.policy.write_s
        self._admission.recovery.starts(run, stop_s + self._admission.ranks_start_s(run.task))
