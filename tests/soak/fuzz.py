"""Racks that run for weeks while everything breaks at random, under the kernel, each decision held to its rules.

Time jumps from one change of the fleet to the next while nothing happens: a thousand quiet hours cost what one costs.
"""

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

from launcher.core.control.reconcile import Decision
from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.operator_requests import OperatorRequest, RequestKind
from launcher.core.model.placement import Placement
from launcher.core.model.run import Run, RunId, RunName, RunState
from launcher.core.model.simulation import Fault, FaultKind, SimSettings
from launcher.core.model.task import Group, OnNoSpare, RecoveryPolicy, Task, TopologyRule
from launcher.core.placement.place import place
from launcher.sim.faults import window
from tests.property.test_kernel import hold_to_rules
from tests.property.worlds import Play

HOUR = 3600.0
EPISODE_H = 250.0
"""How long one run is watched (hours of the fleet)."""
LONG_ENOUGH = 20.0
"""After so long without a decision nothing more comes of what was (s)."""
HOURS_PER_FAULT = 150.0
"""Hours of one node between two faults on it: some hundred times as many as real racks have."""

# How often each fault comes, among all; and how long it lasts (s), None: struck once.
_FAULTS: tuple[tuple[FaultKind, int, tuple[float, ...]], ...] = (
    (FaultKind.RAYLET_KILLED, 4, (0.0,)),
    (FaultKind.RANK_FAILS, 2, (0.0,)),
    (FaultKind.RANK_KILLED, 2, (0.0,)),
    (FaultKind.AGENT_KILLED, 2, (0.0,)),
    (FaultKind.HEAD_KILLED, 1, (0.0, 90.0)),
    (FaultKind.POWER_CUT, 4, (5.0, 120.0, HOUR, 24 * HOUR)),
    (FaultKind.LINK_DOWN, 6, (5.0, 10.0, 16.0, 20.0, 40.0, 300.0, HOUR)),
    (FaultKind.SSH_DOWN, 3, (10.0, 60.0, 600.0)),
    (FaultKind.BASTION_DOWN, 1, (10.0, 300.0)),
    (FaultKind.RAYLET_STOPPED, 1, (10.0, 60.0)),
    (FaultKind.RANK_HANGS, 1, (0.0,)),
    (FaultKind.GPU_LOST, 3, (HOUR, 24 * HOUR)),
    (FaultKind.XID_FATAL, 2, (HOUR, 24 * HOUR)),
    (FaultKind.XID_SYMPATHETIC, 4, (HOUR,)),
    (FaultKind.MEMORY_ERROR, 2, (24 * HOUR,)),
    (FaultKind.DISK_FULL, 2, (HOUR, 6 * HOUR)),
    (FaultKind.PROBE_HANGS, 2, (600.0,)),
    (FaultKind.SETUP_FAILS, 1, (HOUR,)),
    (FaultKind.SLOW_START, 2, (HOUR,)),
)


@dataclass(slots=True, kw_only=True)
class Totals:
    """What a soak saw: hours of nodes, faults, decisions, and how runs stood at the end of their time."""

    node_hours: float = 0.0
    faults: int = 0
    decisions: int = 0
    attempts: int = 0
    ends: Counter[str] = field(default_factory=Counter)


def soak(node_hours: float, seed: int) -> Totals:
    """Answer what was seen in so many hours of nodes; AssertionError names the episode in which a rule was broken."""
    totals, episode = Totals(), 0
    while totals.node_hours < node_hours:
        episode += 1
        try:
            _episode(Random(f"{seed}:{episode}"), totals)
        except AssertionError as broken:
            raise AssertionError(f"seed {seed}, episode {episode}: {broken}") from broken
    return totals


def _episode(rnd: Random, totals: Totals) -> None:
    run, whole = _run(rnd)
    play, now = Play(run, whole=whole), 0.0
    end = min(EPISODE_H * HOUR, rnd.uniform(20, EPISODE_H) * HOUR)
    moments = sorted(at for fault in run.fleet.sim.faults for at in window(fault)) if run.fleet.sim else []
    asked, pace = 0.0, Pace(moments, end)
    state = RunState.STARTING
    while now < end:
        before, seen = play.record, play.observe()
        crash = rnd.random() < 0.002
        if crash:
            decision = play.tick(seen=seen, until=rnd.randint(0, 3), lose=rnd.random() < 0.5)
        else:
            decision = play.tick(seen=seen)
        hold_to_rules(play, before, seen, decision)
        totals.decisions += 1
        state = decision.state
        if crash:
            play.crash()
        if state is RunState.ON_HOLD and now - asked > HOUR:
            asked = now
            _operate(play, rnd)
        if state.final:
            break
        play.clock.wait(pace.next(play, decision, now), lambda: False)
        now = play.clock.now()
    totals.node_hours += len(whole.nodes) * now / HOUR
    totals.faults += sum(1 for fault in run.fleet.sim.faults if fault.at < now) if run.fleet.sim else 0
    totals.attempts += max((gang.attempt for gang in play.record.gangs.values()), default=0)
    totals.ends[state.value] += 1


class Pace:
    """When to decide next: as asked for, or when something changes, where all has been quiet for a while."""

    def __init__(self, moments: list[float], end: float) -> None:
        self._moments, self._end = moments, end
        self._quiet_since: float | None = None

    def next(self, play: Play, decision: Decision, now: float) -> float:
        """Answer when to decide next."""
        still = decision.state in (RunState.RUNNING, RunState.ON_HOLD) and not decision.actions and not decision.doubted
        if not still or play.under_way:
            self._quiet_since = None
            return decision.wake_at
        self._quiet_since = now if self._quiet_since is None else self._quiet_since
        if now - self._quiet_since < LONG_ENOUGH:
            return decision.wake_at
        fleet, _ = play.nodes._open(play.run)
        began = fleet.world().began_at or 0.0
        at = bisect_right(self._moments, now - began)
        fault = self._moments[at] + began if at < len(self._moments) else self._end
        if fault <= now + 1.0 or (change := fleet.next_change(now)) <= now + 1.0:
            self._quiet_since = None
            return decision.wake_at
        self._quiet_since = now  # and look for a while at what comes of it
        return max(decision.wake_at, min(change, fault + 0.5, now + HOUR, self._end))


def _operate(play: Play, rnd: Random) -> None:
    """Do what a person does about a run that holds: let it go on, and give it back what is well again."""
    seq = len(play.orders)
    kinds = [(RequestKind.RESUME, "")]
    if rnd.random() < 0.5:
        kinds += [(RequestKind.READMIT, node) for node in sorted(play.record.failed_nodes)]
    for kind, subject in kinds:
        seq += 1
        play.orders.append(OperatorRequest(seq=seq, at=play.clock.now(), kind=kind, subject=subject, by="ann"))


def _run(rnd: Random) -> tuple[Run, Inventory]:
    racks, size = rnd.randint(1, 3), rnd.randint(3, 9)
    nodes = tuple(
        Node(
            name=NodeName(f"r{rack}-n{at}"),
            rack=RackName(f"r{rack}"),
            domain=f"domain {rack}",
            access=Access(address=f"10.0.{rack}.{at}"),
        )
        for rack in range(1, racks + 2)
        for at in range(1, size + 1)
    )
    spares = rnd.randint(0, min(2, size - 2))
    per_slice = rnd.randint(1, size - spares)
    policy = RecoveryPolicy(
        max_restarts=1000,
        node_attempts=rnd.randint(0, 3),
        on_no_spare=rnd.choice((OnNoSpare.WAIT, OnNoSpare.WAIT, OnNoSpare.RELOCATE)),
        hang_after=rnd.choice((None, 60.0)),
    )
    rule = TopologyRule(slices=racks, nodes_per_slice=per_slice, spares=spares)
    task = Task(name="job", groups=(Group(name="main", topology=rule, gpus=4, run="true", recovery=policy),))
    sim = SimSettings(seed=rnd.randint(0, 9), start_s=3.0, run_s=1e9, faults=_faults(rnd, nodes))
    whole = Inventory(
        name="hall",
        transport=Transport.SIM,
        nodes=nodes,
        head=rnd.choice((None, Access(address="10.9.9.9"))),
        fence_command=rnd.choice((None, "fence {node}")),
        power_query=rnd.choice((None, "query {node}")),
        sim=sim,
    )
    placement = place(task, whole, {})
    assert isinstance(placement, Placement)
    fleet = replace(whole, nodes=tuple(node for node in nodes if node.name in placement.nodes))
    return Run(id=RunId("job-1"), name=RunName("job"), task=task, placement=placement, fleet=fleet), whole


def _faults(rnd: Random, nodes: tuple[Node, ...]) -> tuple[Fault, ...]:
    """Answer faults on single nodes, and now and then on a whole rack at once."""
    found: list[Fault] = []
    kinds = [row for row in _FAULTS for _ in range(row[1])]
    at = 0.0
    while at < EPISODE_H * HOUR:
        at += rnd.expovariate(len(nodes) / (HOURS_PER_FAULT * HOUR))
        kind, _, lasting = rnd.choice(kinds)
        duration, struck = rnd.choice(lasting) or None, [rnd.choice(nodes)]
        if rnd.random() < 0.05:
            struck = [node for node in nodes if node.rack == struck[0].rack and rnd.random() < 0.8]
        found += [Fault(at=at, node=node.name, fault=kind, duration=duration) for node in struck]
        if rnd.random() < 0.2:  # troubles come together: a node that is just being dealt with breaks once more
            kind, _, lasting = rnd.choice(kinds)
            second, duration = at + rnd.uniform(0.0, 10.0), rnd.choice(lasting) or None
            found.append(
                Fault(at=second, node=struck[0].name if struck else nodes[0].name, fault=kind, duration=duration)
            )
    return tuple(found)
