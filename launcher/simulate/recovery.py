"""Faults, drains and repairs: what befalls the nodes of runs, and what the kernel does about it.

A fault stops the program of a run at once. It shows itself `detection_s` later (drawn); from then on the kernel decides
in virtual time, and its seconds count. Machines without power are noticed by the kernel itself. A fault that strikes
while a run starts or recovers strikes once it computes again.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial

from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import RunState
from launcher.core.model.simulation import Fault, FaultKind
from launcher.core.model.task import OnNoSpare
from launcher.core.planner.faults import Outage, OutageScope
from launcher.simulate.fleet_state import Trouble
from launcher.simulate.kernel_run import KernelRun, Settled
from launcher.simulate.world import ActiveJob, JobPhase, World

SYMPATHY_S = 45.0
"""How long the neighbours of a fault in an NVLink domain show errors of their own."""

ASK_AGAIN_S = 61.0
"""How soon a run on hold asks for a node again: just over `timing.ALLOT_WAIT_S`."""

Finish = Callable[[ActiveJob], None]


class FaultHandling:
    """Lets outages happen, and has the kernel decide about the runs they hit.

    `finish` ends a run that has done its work, `requeue` one that the kernel gives up.
    """

    def __init__(self, world: World, finish: Finish, requeue: Finish) -> None:
        self._world, self._finish, self._requeue = world, finish, requeue

    def plan(self, outages: Iterable[Outage]) -> None:
        """Let outages happen at their times."""
        for outage in outages:
            if outage.scope is OutageScope.MAINTENANCE:
                notice = max(0.0, outage.at_s - self._world.policy.drain_notice_s)
                self._world.at(notice, partial(self._announce, outage))
            else:
                self._world.at(outage.at_s, partial(self._break, outage))

    def computes(self, run: ActiveJob) -> None:
        """Let the program of a run compute; a fault that waited for this strikes now."""
        self._world.compute(run, self._finish)
        if run.struck:
            self._interrupt(run, run.detection_s)

    def starts(self, run: ActiveJob, ranks_s: float) -> None:
        """Let a run start: its ranks after so many seconds, then its program."""
        world = self._world
        world.later(run, world.now + ranks_s + world.policy.program_start_s, self.computes)

    def nodes_came(self) -> None:
        """Let runs on hold ask again, where a node that could help them is free or works again."""
        world = self._world
        for run in tuple(world.on_hold.values()):
            if not run.retry and self._may_help(run):
                run.retry = True
                world.later(run, max(world.now, run.settled_s + ASK_AGAIN_S), self._sign)

    def _announce(self, outage: Outage) -> None:
        """Drain a rack before the work on it."""
        world, names = self._world, self._world.fleet.racks[outage.rack]
        world.trouble(names, Trouble.DRAIN, over=False)
        world.at(outage.at_s, lambda: self._work(outage))
        for run in self._users(names):
            self._drained(run, names)

    def _drained(self, run: ActiveJob, names: Collection[NodeName]) -> None:
        """Let the kernel move a run that computes off drained nodes, where it can."""
        if run.phase is not JobPhase.COMPUTING:
            return
        kernel = self._kernel(run)
        kernel.drain(tuple(set(names) & run.held), "planned maintenance")
        before = kernel.placement
        settled = kernel.settle(lambda: self._world.fleet.without_user(run.name))
        kernel.drain(names, "")
        if kernel.placement is not before or not settled.runs or kernel.working != run.working:
            self._world.stop_computing(run, graceful=True)
            self._apply(run, settled)

    def _work(self, outage: Outage) -> None:
        """Begin the work on a drained rack: what still runs there loses its power."""
        names = self._world.fleet.racks[outage.rack]
        self._world.trouble(names, Trouble.DRAIN, over=True)
        self._lose_rack(outage, names, Trouble.WORK)

    def _break(self, outage: Outage) -> None:
        """Let a fault begin."""
        self._world.incidents.faults += 1
        rack = self._world.fleet.racks[outage.rack]
        if outage.node is None:
            self._lose_rack(outage, rack, Trouble.FAULT)
            return
        names = (outage.node,)
        self._world.trouble(names, Trouble.FAULT, over=False)
        self._world.at(outage.back_s, lambda: self._world.trouble(names, Trouble.FAULT, over=True))
        for run in self._users(rack if outage.scope is OutageScope.DOMAIN else names):
            self._strike(run, outage, rack)

    def _strike(self, run: ActiveJob, outage: Outage, rack: Iterable[NodeName]) -> None:
        """Let a fault of one node befall a run that has it, or that has other nodes in its NVLink domain."""
        assert outage.node is not None
        sign = outage.at_s + outage.detection_s
        mine = outage.node in run.held
        if mine:
            lasts = outage.back_s - sign
            run.faults.append(Fault(at=sign, node=outage.node, fault=FaultKind.GPU_LOST, duration=lasts))
        hit = run.working & ({outage.node} if outage.scope is OutageScope.NODE else set(rack))
        if not hit:
            return
        for name in sorted(hit):
            run.faults.append(Fault(at=sign, node=name, fault=FaultKind.RANK_FAILS))
            if name != outage.node:
                fault = Fault(at=sign, node=name, fault=FaultKind.XID_SYMPATHETIC, duration=SYMPATHY_S)
                run.faults.append(fault)
        self._interrupt(run, outage.detection_s)

    def _lose_rack(self, outage: Outage, names: tuple[NodeName, ...], kind: Trouble) -> None:
        world = self._world
        world.trouble(names, kind, over=False)
        world.at(outage.back_s, lambda: world.trouble(names, kind, over=True))
        for run in self._users(names):
            lost = set(names) & run.held
            lasts = outage.back_s - world.now
            run.faults += (
                Fault(at=world.now, node=name, fault=FaultKind.POWER_CUT, duration=lasts) for name in sorted(lost)
            )
            if lost & run.working:
                self._interrupt(run, 0.0)

    def _users(self, names: Iterable[NodeName]) -> list[ActiveJob]:
        users = self._world.fleet.users
        found = dict.fromkeys(users[name] for name in names if name in users)
        return [self._world.active[name] for name in found]

    def _interrupt(self, run: ActiveJob, detection_s: float) -> None:
        """Stop the program of a run; its kernel learns of it after a time (s)."""
        world = self._world
        if run.phase in (JobPhase.STARTING, JobPhase.RECOVERING):
            run.struck, run.detection_s = True, detection_s
        elif run.phase is JobPhase.COMPUTING:
            run.struck = False
            world.incidents.hits += 1
            world.stop_computing(run, graceful=False)
            world.enter(run, JobPhase.UNDETECTED)
            world.later(run, world.now + detection_s, self._sign)

    def _sign(self, run: ActiveJob) -> None:
        """Let the kernel decide about a run."""
        world, run.retry = self._world, False
        kernel = self._kernel(run)
        self._apply(run, kernel.settle(lambda: world.fleet.without_user(run.name)))

    def _kernel(self, run: ActiveJob) -> KernelRun:
        """Return the kernel of a run, at this time and with all that befell the run."""
        now = self._world.now
        if run.kernel is None:
            run.kernel = KernelRun(run.task, run.placement, self._world.fleet.inventory)
            run.origin_s = min(run.started_s, now - run.kernel.now)
        kernel = run.kernel
        kernel.advance(now - run.origin_s)
        if run.faults:
            kernel.strike(_by_clock(fault, run.origin_s, kernel.now) for fault in run.faults)
            run.faults.clear()
        return kernel

    def _apply(self, run: ActiveJob, settled: Settled) -> None:
        """Do with the nodes and the time of a run what its kernel has decided."""
        world, kernel = self._world, run.kernel
        assert kernel is not None
        waited = run.phase is JobPhase.WAITING
        if settled.state is RunState.FAILED:
            world.enter(run, JobPhase.RECOVERING)
            world.incidents.requeued += 1
            world.end(run)
            self._requeue(run)
            return
        world.hold(run, kernel.held, kernel.working)
        run.placement = kernel.placement
        run.settled_s = world.now + settled.took_s
        if settled.runs:
            world.enter(run, JobPhase.RECOVERING)
            world.incidents.recovered += 1
            world.incidents.recovery_s.append(settled.took_s)
            self.starts(run, settled.took_s)
            return
        world.enter(run, JobPhase.WAITING)
        if not waited:
            world.incidents.waited += 1
            world.later(run, world.now + settled.took_s + world.policy.operator_s, self._confirm)

    def _confirm(self, run: ActiveJob) -> None:
        """Let an operator confirm that machines without power are off, and let the kernel decide again."""
        kernel = self._kernel(run)
        kernel.confirm_dead(name for name in sorted(run.held) if not self._world.fleet.up(name))
        self._sign(run)

    def _may_help(self, run: ActiveJob) -> bool:
        """Whether a run on hold has reason to ask again: all of its nodes are up, or free nodes may serve it."""
        fleet = self._world.fleet
        missing = [name for name in run.working if not fleet.up(name)]
        if not missing or any(fleet.free[fleet.rack_of[name]] for name in missing):
            return True
        rule = run.task.groups[0].topology
        need = rule.nodes_per_slice + rule.spares
        relocates = run.task.groups[0].recovery.on_no_spare is OnNoSpare.RELOCATE
        return relocates and any(free >= need for free in fleet.free.values())


def _by_clock(fault: Fault, origin: float, now: float) -> Fault:
    """Return a fault in the time of a run, not before now; one that lasts ends when it would."""
    at = fault.at - origin
    if at >= now:
        return replace(fault, at=at)
    lasts = None if fault.duration is None else max(0.0, fault.duration - (now - at))
    return replace(fault, at=now, duration=lasts)
