"""One run under the real kernel: `reconcile` drives it over imaginary nodes, in virtual time.

The kernel is asked only while something happens to a run, a tick after the other as each decision asks. In between,
the clock of the run jumps.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from launcher.admission.node_choice import NoChoice, NodeChoice, choose_place, choose_return, choose_spare
from launcher.core.control.reconcile import Decision, reconcile
from launcher.core.model.actions import Action, AddSpare, Grow, Join, Move, Park, Prepare, Relocate, Resize, ReturnSpare
from launcher.core.model.inventory import Inventory, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Health, Observation, Unseen
from launcher.core.model.operator_requests import OperatorRequest, RequestKind
from launcher.core.model.placement import Placement, Unavailable, UnavailableNodes
from launcher.core.model.receipt import Answer, Receipt, Result
from launcher.core.model.record import Record
from launcher.core.model.run import Run, RunId, RunName, RunState
from launcher.core.model.simulation import Fault, SimSettings
from launcher.core.model.task import Task
from launcher.sim.clock import SimClock
from launcher.sim.nodes import SimNodes
from launcher.sim.world import MemoryRows

HEALTH_S = 60.0
"""How often a node is asked about its health (`drive/health_polling`)."""

MAX_TICKS = 5000
"""The most ticks until a run settles; recoveries take 10 to 150."""

HOLD_STILL_S = 15.0
STILL_S = 60.0
"""After so long without an action a run is settled, on hold and otherwise: `timing.UNPROVEN_S` is the longest that the
kernel waits for evidence before it asks for a person."""

ENDLESS_S = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What has become of a run: its state, after how long (s), and what the kernel said."""

    state: RunState
    took_s: float
    message: str

    @property
    def runs(self) -> bool:
        """Whether all ranks run again."""
        return self.state is RunState.RUNNING


class KernelRun:
    """A placed run, its imaginary nodes, and what its controller remembers."""

    def __init__(self, task: Task, placement: Placement, fleet: Inventory) -> None:
        own = {*placement.nodes}
        whole = replace(fleet, transport=Transport.SIM, sim=SimSettings(run_s=ENDLESS_S), fence_command=None)
        self._faults: list[Fault] = []
        self._run = Run(
            id=RunId(task.name),
            name=RunName(task.name),
            task=replace(task, time_limit=None),
            placement=placement,
            fleet=replace(whole, nodes=tuple(node for node in fleet.nodes if node.name in own)),
        )
        self._whole = whole
        self._unavailable: Callable[[], UnavailableNodes] = dict
        self._rows = MemoryRows()
        self._record = Record()
        self._receipts: list[Receipt] = []
        self._requests: list[OperatorRequest] = []
        self._health: dict[NodeName, Health] = {}
        self._doubted: frozenset[NodeName] = frozenset()
        self._drained: dict[NodeName, str] = {}
        self._open()
        self.start_s = self._settle(self._clock.now()).took_s

    @property
    def placement(self) -> Placement:
        """Return the placement as it is now."""
        return self._run.placement

    @property
    def now(self) -> float:
        """Return the time of the run: seconds since its launch."""
        return self._clock.now()

    @property
    def working(self) -> frozenset[NodeName]:
        """Return the nodes that have a rank."""
        return frozenset(slot.node for slot in self._record.slots.values())

    @property
    def held(self) -> frozenset[NodeName]:
        """Return the nodes that are of no use to others: those of the placement, and those that still have a rank."""
        return frozenset(self._run.placement.nodes) | self.working

    def advance(self, until: float) -> None:
        """Let the time pass in which nothing happens to the run."""
        if until > self.now:
            self._clock.wait(until, lambda: False)

    def strike(self, faults: Iterable[Fault]) -> None:
        """Let faults befall nodes; their times are those of the run."""
        self._faults += faults
        settings = replace(self._run.fleet.sim or SimSettings(), faults=tuple(self._faults))
        self._run = replace(self._run, fleet=replace(self._run.fleet, sim=settings))
        self._open()

    def drain(self, nodes: Collection[NodeName], reason: str) -> None:
        """Drain nodes, or with no reason undrain them."""
        for name in nodes:
            if reason:
                self._drained[name] = reason
            else:
                self._drained.pop(name, None)

    def confirm_dead(self, nodes: Iterable[NodeName]) -> None:
        """Confirm, as an operator, that nodes out of sight are powered off."""
        for name in nodes:
            seq = len(self._requests) + 1
            request = OperatorRequest(
                seq=seq, at=self.now, kind=RequestKind.CONFIRM_DEAD, subject=name, by="an operator"
            )
            self._requests.append(request)

    def settle(self, unavailable: Callable[[], UnavailableNodes]) -> Settled:
        """Drive the run until it runs, has ended, or can do nothing but wait, and return which.

        `unavailable` returns the nodes of the fleet that the run cannot be given.
        """
        self._unavailable = unavailable
        return self._settle(self.now)

    def _settle(self, begun: float) -> Settled:
        acted, decision = begun, self._tick()
        for _ in range(MAX_TICKS):
            over = decision.record.outcome is not None
            if self._doubted or not all(self._for_spares(action) for action in decision.actions):
                acted = self.now
            elif decision.state is RunState.RUNNING and not self._troubled():
                break
            held = decision.state is RunState.ON_HOLD and not self._record.since.well
            if over or self.now - acted >= (HOLD_STILL_S if held else STILL_S):
                break
            self._clock.wait(decision.wake_at, lambda: False)
            decision = self._tick()
        state = RunState.FAILED if decision.record.outcome is not None else decision.state
        return Settled(state=state, took_s=self.now - begun, message=decision.status_message)

    def _for_spares(self, action: Action) -> bool:
        """Whether an action only makes a spare ready: no rank waits for it."""
        if isinstance(action, Prepare):
            return action.node not in self.working
        return isinstance(action, Park) or (isinstance(action, Join) and action.slot.node not in self.working)

    def _troubled(self) -> bool:
        """Whether a node that has a rank is out of sight or about to be left, so that the run will not stay so."""
        if self._record.since.draining:
            return True
        views = self._nodes.look(self._run).nodes
        return any(isinstance(views.get(name), Unseen) for name in self.working)

    def _open(self) -> None:
        self._nodes = SimNodes(self._rows)
        self._clock = SimClock(self._rows, self._run)

    def _tick(self) -> Decision:
        self._inspect()
        look, now = self._nodes.look(self._run), self._clock.now()
        seen = Observation(
            at=now,
            nodes=look.nodes,
            head=look.head,
            reached=look.reached,
            receipts=tuple(one for one in self._receipts if one.seq > self._record.receipts_seen),
            in_flight=frozenset(),
            health=dict(self._health),
            requests=tuple(one for one in self._requests if one.seq > self._record.requests_seen),
            drained=dict(self._drained),
            wall=self._clock.wall(),
        )
        decision = reconcile(self._run, seen, self._record)
        self._record, self._doubted = decision.record, decision.doubted
        self._run = replace(self._run, head_at=self._record.head)
        first = self._receipts[-1].seq + 1 if self._receipts else 1
        self._receipts = [
            Receipt(seq=first + at, at=self.now, action=action, answer=self._perform(action))
            for at, action in enumerate(decision.actions)
        ] or self._receipts[-1:]
        return decision

    def _inspect(self) -> None:
        now = self._clock.now()
        for node in self._run.fleet.nodes:
            known = self._health.get(node.name)
            if node.name in self._doubted or known is None or known.at + HEALTH_S <= now:
                found = self._nodes.inspect(self._run, node.name)
                if isinstance(found, Health):
                    self._health[node.name] = replace(found, at=now)

    def _perform(self, action: Action) -> Answer:
        match action:
            case AddSpare():
                return self._add_spare(action)
            case ReturnSpare():
                return self._take(choose_return(action, self._run, self._record, self._whole))
            case Relocate():
                return self._take(choose_place(action, self._run, self._record, self._unavailable(), self._whole))
            case Move() | Resize() | Grow():
                return Answer(result=Result.FAILED, stage="allot", message="nobody asks for this in a simulation")
            case _:
                return self._nodes.perform(self._run, action)

    def _add_spare(self, action: AddSpare) -> Answer:
        unavailable = self._unavailable()
        own = {name for part in self._run.placement.slices if part.key == action.slice for name in part.spares}
        # What is wrong with a spare of its own, the run learns from the node itself.
        others = {name: use for name, use in unavailable.items() if name not in own}
        drained = {name: Unavailable(drained=self._drained[name]) for name in own & self._drained.keys()}
        return self._take(choose_spare(action, self._run, self._record, {**others, **drained}, self._whole))

    def _take(self, found: NodeChoice | NoChoice) -> Answer:
        if isinstance(found, NoChoice):
            return Answer(result=Result.FAILED, stage="allot", message=found.message)
        self._run = found.run
        return Answer(result=Result.DONE, nodes=tuple(node.name for node in found.nodes))
