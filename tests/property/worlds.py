"""Small imaginary fleets for property tests: strategies for a placed run with faults, and a play of it in memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle

from hypothesis import strategies as st

from launcher.admission.node_choice import NoChoice, NodeChoice, choose_growth, choose_return, shrunk_run
from launcher.core.control.reconcile import Decision, reconcile
from launcher.core.control.resized_record import hindrance
from launcher.core.control.slice_count import small_groups
from launcher.core.model.action_key import key_of
from launcher.core.model.actions import (
    Acquire,
    Action,
    AddSpare,
    AllotAction,
    Grow,
    Join,
    Prepare,
    Relocate,
    Resize,
    ReturnSpare,
)
from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Health, Observation
from launcher.core.model.operator_requests import OperatorRequest, RequestKind
from launcher.core.model.placement import Placement, Shortfall, Slice, Unavailable
from launcher.core.model.receipt import Answer, Receipt, Result
from launcher.core.model.record import Record
from launcher.core.model.run import Run, RunId, RunName, Target, Wanted
from launcher.core.model.simulation import Fault, FaultKind, SimSettings
from launcher.core.model.task import Group, OnNoSpare, RecoveryPolicy, RestartWith, Task, TopologyRule
from launcher.core.placement.colocation import max_colocated_slices, with_colocated_slices
from launcher.core.placement.replacement import find_spare, lost_together, replace_slice
from launcher.core.placement.resize import resize
from launcher.core.placement.slice_range import as_placed
from launcher.drive.execute import execute
from launcher.sim.clock import SimClock
from launcher.sim.nodes import SimNodes
from launcher.sim.world import MemoryRows


@st.composite
def runs(draw: st.DrawFn, *, max_faults: int = 4, kinds: tuple[FaultKind, ...] = tuple(FaultKind)) -> Run:
    """Runs of 1 or 2 groups of 1 to 3 rack-local slices on 1 to 3 racks of 2 to 6 nodes, with faults on their nodes."""
    racks = draw(st.integers(1, 3))
    free = {
        RackName(f"r{rack}"): [NodeName(f"r{rack}-n{node}") for node in range(draw(st.integers(2, 6)))]
        for rack in range(racks)
    }
    groups: list[Group] = []
    parts: list[Slice] = []
    for name in ("main", "side")[: draw(st.integers(1, 2))]:
        per_slice, spares = draw(st.integers(1, 3)), draw(st.integers(0, 2))
        found = _slices(free, name, draw(st.integers(1, 3)), per_slice, spares)
        if not found and not parts:
            per_slice, spares = 1, 0
            found = _slices(free, name, 1, per_slice, spares)
        if found:
            rule = TopologyRule(slices=len(found), nodes_per_slice=per_slice, spares=spares)
            groups.append(draw(programs(Group(name=name, topology=rule, gpus=4, recovery=draw(recoveries())))))
            parts += found
    hosts = [group for group in groups if group.driver is None]
    if hosts and draw(st.sampled_from((False, False, True))):
        groups.append(draw(guests(hosts)))
    shared = {group.topology.nodes_of for group in groups}
    groups = [group if group.name in shared else draw(ranges(group)) for group in groups]
    placement = Placement(slices=with_colocated_slices(Task(name="job", groups=tuple(groups)), parts))
    settings = draw(sims(placement.nodes, max_faults=max_faults, kinds=kinds))
    task = Task(name="job", groups=tuple(groups), stop_grace=draw(st.sampled_from((0.0, 10.0))))
    head = draw(st.sampled_from((None, Access(address="10.9.9.9"))))
    fence = draw(st.sampled_from((None, "fence {node}")))
    query = draw(st.sampled_from((None, "query {node}")))
    nodes = tuple(_node(name) for name in placement.nodes)
    fleet = Inventory(
        name="hall",
        transport=Transport.SIM,
        nodes=nodes,
        head=head,
        fence_command=fence,
        power_query=query,
        sim=settings,
    )
    return Run(id=RunId("job-1"), name=RunName("job"), task=task, placement=placement, fleet=fleet)


@st.composite
def programs(draw: st.DrawFn, group: Group) -> Group:
    """A group whose slots each have a rank, or which has a driver, with its nodes reserved or not."""
    driven = draw(st.sampled_from((False, False, True))) and group.recovery.restart_with is not RestartWith.MEMBER
    return replace(group, driver="true", reserve=draw(st.booleans())) if driven else replace(group, run="true")


@st.composite
def ranges(draw: st.DrawFn, group: Group) -> Group:
    """A group that may have fewer slices, where its policy says that it shrinks."""
    policy, rule = group.recovery, group.topology
    if policy.on_no_spare is not OnNoSpare.SHRINK or policy.restart_with is RestartWith.MEMBER or rule.nodes_of:
        return group
    least, most = draw(st.integers(1, rule.slices)), rule.slices + draw(st.integers(0, 1))
    recovery = replace(policy, grow_after=draw(st.sampled_from((5.0, 30.0))))
    return replace(group, topology=replace(rule, min_slices=least, max_slices=most), recovery=recovery)


@st.composite
def guests(draw: st.DrawFn, groups: Sequence[Group]) -> Group:
    """A group that sits on nodes of another, in as many slices as fit there, or in fewer."""
    host = draw(st.sampled_from(groups))
    size = draw(st.integers(1, host.topology.nodes_per_slice))
    rule = TopologyRule(nodes_per_slice=size, nodes_of=host.name)
    rule = replace(rule, slices=draw(st.integers(1, max_colocated_slices(rule, host.topology))))
    return Group(name="guest", topology=rule, gpus=draw(st.integers(0, 1)), run="true", recovery=draw(recoveries()))


def recoveries() -> st.SearchStrategy[RecoveryPolicy]:
    """Policies with small budgets, of every kind."""
    return st.builds(
        RecoveryPolicy,
        max_restarts=st.integers(0, 3),
        node_attempts=st.integers(0, 2),
        restart_with=st.sampled_from(RestartWith),
        on_no_spare=st.sampled_from(OnNoSpare),
        hang_after=st.sampled_from((None, 20.0)),
    )


def hall(run: Run) -> Inventory:
    """The whole inventory that a run is placed on: two more nodes in each of its racks, and a rack that it has not."""
    racks = sorted({node.rack for node in run.fleet.nodes})
    more = [_node(NodeName(f"{rack}-x{at}")) for rack in racks for at in range(2)]
    more += [_node(NodeName(f"r9-n{at}")) for at in range(6)]
    return replace(run.fleet, nodes=(*run.fleet.nodes, *more))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What an operator does in the tick of a number, to the node or slice of a number."""

    tick: int
    what: str
    at: int


wishes = st.lists(
    st.builds(
        Wish,
        tick=st.integers(0, 250),
        what=st.sampled_from(("drain", "undrain", "confirm_dead", "resume", "relocate", "readmit")),
        at=st.integers(0, 11),
    ),
    max_size=4,
)


@st.composite
def sims(draw: st.DrawFn, nodes: tuple[NodeName, ...], *, max_faults: int, kinds: tuple[FaultKind, ...]) -> SimSettings:
    """Settings under which a run without faults takes about a minute, and faults that fall into its first minutes."""
    fault = st.builds(
        Fault,
        at=st.integers(0, 150).map(float),
        node=st.sampled_from(nodes),
        fault=st.sampled_from(kinds),
        duration=st.sampled_from((None, 5.0, 20.0, 90.0)),
        code=st.integers(1, 9),
    )
    faults = draw(st.lists(fault, max_size=max_faults))
    # Troubles come together: a node that is just being dealt with breaks once more.
    for first in tuple(faults[:2]):
        kind = draw(st.none() | st.sampled_from(kinds))
        if kind is not None:
            faults.append(replace(first, at=first.at + draw(st.integers(0, 8)), fault=kind))
    return SimSettings(seed=draw(st.integers(0, 9)), start_s=3.0, run_s=60.0, faults=tuple(faults))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How many ticks an action takes until it has its effect, and from then on until its receipt is there.

    `timed_out`: the receipt of a rung says FAILED, whatever the effect, and of some that the node is to blame.
    """

    effect: int = 0
    receipt: int = 0
    timed_out: bool = False


AT_ONCE = Pace()


@dataclass(slots=True, kw_only=True)
class UnderWay:
    """An action that was begun, the ticks that are left of its pace, and its answer once it had its effect.

    `run` is the run as it was then: it may have other slices by the time of the effect.
    """

    run: Run
    action: Action
    keep: bool
    effect: int
    receipt: int
    timed_out: bool
    answer: Answer | None = None


def _failed(one: UnderWay, answer: Answer) -> Answer:
    """A failure in place of an answer: of every second one the node says that it takes no file or process any more."""
    node = one.action.slot.node if isinstance(one.action, Join) else getattr(one.action, "node", None)
    unfit = (node,) if node is not None and sum(map(ord, node)) % 2 else ()
    return replace(answer, result=Result.FAILED, message="timed out", unfit=unfit)


class MemoryAllotter:
    """Gives the run of a play more nodes of a whole inventory, of which it and others have some."""

    def __init__(self, play: "Play", whole: Inventory, taken: Sequence[str] = ()) -> None:
        self._play, self.whole = play, whole
        self.taken = {NodeName(name): Unavailable(used_by="another") for name in taken}
        self.given = {part.key: {*part.nodes, *part.spares} for part in play.run.placement.slices}

    def perform(self, run: Run, action: AllotAction) -> Answer:
        """Give nodes, a place or slices."""
        match action:
            case AddSpare():
                return self.add_spare(run, action)
            case ReturnSpare():
                return self.return_spare(action)
            case Relocate():
                return self.relocate(run, action)
            case Resize():
                return self.resize(run, action)
            case Grow():
                return self.grow()

    def room(self, run: Run) -> frozenset[str]:
        """The groups that could have one more slice now: asked once in a tick."""
        found = self._grown() if any(small_groups(run.task)) else None
        target = found.run.target if isinstance(found, NodeChoice) else None
        return frozenset(part.group for part in target.comes) if target else frozenset()

    def grow(self) -> Answer:
        """Claim nodes for more slices."""
        found = self._grown()
        if isinstance(found, NoChoice):
            return Answer(result=Result.FAILED, message=found.message)
        self._play.run = found.run
        return Answer(result=Result.DONE, nodes=tuple(node.name for node in found.nodes))

    def _grown(self) -> NodeChoice | NoChoice:
        now, record = self._play.run, self._play.record
        left = {*record.requested} - set(now.placement.nodes)
        taken = {
            **self.taken,
            **{name: Unavailable(used_by="given up") for name in left},
            **{name: Unavailable(drained=reason) for name, reason in self._play.drained.items()},
        }
        return choose_growth(now, record, taken, self.whole)

    def add_spare(self, run: Run, action: AddSpare) -> Answer:
        """Give a slice one more spare; the one that it has and does not use, where an answer was lost."""
        del run
        now, record = self._play.run, self._play.record
        part = next((part for part in now.placement.slices if part.key == action.slice), None)
        if part is None:
            return Answer(result=Result.FAILED, message="it went meanwhile")
        held = {slot.node for slot in record.slots.values()}
        idle = [name for name in part.spares if name not in held and name not in record.failed_nodes]
        if idle:
            return Answer(result=Result.DONE, nodes=(idle[0],))
        found = find_spare(now.task, self.whole, self._barred(record, ()), now.placement, part)
        if found is None:
            return Answer(result=Result.FAILED, message=f"no free node in {part.place}")
        return self._give(replace(part, spares=(*part.spares, found)))

    def return_spare(self, action: ReturnSpare) -> Answer:
        """Take a node out of the run."""
        found = choose_return(action, self._play.run, self._play.record, self.whole)
        if isinstance(found, NoChoice):
            return Answer(result=Result.FAILED, message=found.message)
        self._play.run = found.run
        return Answer(result=Result.DONE)

    def relocate(self, run: Run, action: Relocate) -> Answer:
        """Place a slice again."""
        del run
        now, record = self._play.run, self._play.record
        part = next((part for part in now.placement.slices if part.key == action.slice), None)
        if part is None:
            return Answer(result=Result.FAILED, message="it went meanwhile")
        if not set(part.nodes) & {*record.requested, *record.failed_nodes, *action.without}:
            return Answer(result=Result.DONE, nodes=part.nodes)
        left = tuple(node.name for node in self.whole.nodes if node.rack in action.without_racks)
        barred = self._barred(record, (*action.without, *left))
        lost = lost_together(now.task, now.placement, record.failed_nodes)
        found = replace_slice(now.task, self.whole, barred, now.placement, part, lost)
        if isinstance(found, Shortfall):
            return Answer(result=Result.FAILED, message=f"{part.key} fits nowhere else")
        return self._give(found)

    def resize(self, run: Run, action: Resize) -> Answer:
        """Make the run what it is to become."""
        del run
        now = self._play.run
        if action.drop is not None:
            found = shrunk_run(now, self._play.record, action.drop, self.whole)
            if isinstance(found, NoChoice):
                return Answer(result=Result.FAILED, message=found.message)
            for part in found.placement.slices:
                self.given[part.key] |= {*part.nodes, *part.spares}
            self._play.run = found
            return Answer(result=Result.DONE)
        if now.target is None:
            return Answer(result=Result.DONE)
        if (words := hindrance(now, self._play.record)) is not None:
            self._play.run = replace(now, target=None)
            return Answer(result=Result.FAILED, message=words)
        stay = [part for part in now.placement.slices if part.key not in now.target.goes]
        slices = tuple(sorted((*stay, *now.target.comes), key=lambda part: (part.group, part.index)))
        slices = with_colocated_slices(now.target.task, slices)
        for part in now.target.comes:
            self.given[part.key] = {*part.nodes, *part.spares}
        names = {node.name for node in (*now.fleet.nodes, *now.target.fleet.nodes)}
        self._play.run = replace(
            now,
            task=now.target.task,
            placement=Placement(slices=slices),
            fleet=self.whole.cut_down(names),
            target=None,
        )
        return Answer(result=Result.DONE)

    def _barred(self, record: Record, without: Sequence[NodeName]) -> dict[NodeName, Unavailable]:
        target = self._play.run.target
        coming = [name for part in (target.comes if target else ()) for name in (*part.nodes, *part.spares)]
        return {
            **self.taken,
            **{name: Unavailable(unhealthy="not free") for name in (*record.failed_nodes, *without, *coming)},
        }

    def _give(self, part: Slice) -> Answer:
        run = self._play.run
        self.given[part.key] |= {*part.nodes, *part.spares}
        slices = tuple(part if part.key == other.key else other for other in run.placement.slices)
        names = {node.name for node in run.fleet.nodes}
        new = tuple(n for n in self.whole.nodes if n.name in (*part.nodes, *part.spares) and n.name not in names)
        fleet = replace(run.fleet, nodes=(*run.fleet.nodes, *new))
        self._play.run = replace(run, placement=Placement(slices=with_colocated_slices(run.task, slices)), fleet=fleet)
        return Answer(result=Result.DONE, nodes=(*part.nodes, *part.spares))


class Play:
    """A run driven over an imaginary fleet by the kernel, one tick at a time, in memory and without waiting.

    `record` and `journal` are what a controller would have kept: `crash()` loses all that is not in them. The actions
    take the paces given, in turn.
    """

    def __init__(
        self, run: Run, paces: Sequence[Pace] = (AT_ONCE,), whole: Inventory | None = None, taken: Sequence[str] = ()
    ) -> None:
        self.run = run
        self.allotter = MemoryAllotter(self, whole or run.fleet, taken)
        self.decided = run
        self.paces = cycle(paces)
        self.rows = MemoryRows()
        self.record = Record()
        self.journal: list[Receipt] = []
        self.health: dict[NodeName, Health] = {}
        self.doubted: frozenset[NodeName] = frozenset()
        self.orders: list[OperatorRequest] = []
        self.drained: dict[NodeName, str] = {}
        self.ticks = 0
        self.crash()

    def crash(self) -> None:
        """Go on as a new controller does, with what was kept."""
        self.nodes = SimNodes(self.rows)
        self.clock = SimClock(self.rows, self.run)
        self.under_way: list[UnderWay] = []

    def observe(self) -> Observation:
        """Answer what the kernel may know now."""
        self.run = replace(self.run, head_at=self.record.head)
        self._inspect()
        receipts = [receipt for receipt in self.journal if receipt.seq > self.record.receipts_seen]
        in_flight = frozenset(key_of(one.action) for one in self.under_way)
        look = self.nodes.look(self.run)
        return Observation(
            at=self.clock.now(),
            nodes=look.nodes,
            head=look.head,
            reached=look.reached,
            receipts=tuple(receipts),
            in_flight=in_flight,
            health=dict(self.health),
            requests=tuple(order for order in self.orders if order.seq > self.record.requests_seen),
            drained=dict(self.drained),
            room=self.allotter.room(self.run),
            wall=self.clock.wall(),
        )

    def _inspect(self) -> None:
        """Ask nodes about their health: those that are doubted, and each of the others once a minute."""
        now = self.clock.now()
        for node in self.run.fleet.nodes:
            known = self.health.get(node.name)
            if node.name in self.doubted or known is None or known.at + 60.0 <= now:
                found = self.nodes.inspect(self.run, node.name)
                if isinstance(found, Health):
                    self.health[node.name] = replace(found, at=now)

    def tick(self, *, seen: Observation | None = None, until: int | None = None, lose: bool = False) -> Decision:
        """Go round once, on what was `seen`, or on what is seen now. `until` stops before that many actions are carried
        out, as a killed controller would; `lose` also loses the receipt of the last one."""
        self.ticks += 1
        seen = seen or self.observe()
        decision = reconcile(self.run, seen, self.record)
        self.record, self.doubted, self.decided = decision.record, decision.doubted, self.run
        self.run = replace(self.run, head_at=self.record.head)
        done = decision.actions[:until]
        for at, action in enumerate(done):
            pace, keep = next(self.paces), not (lose and at == len(done) - 1)
            late = pace.timed_out and isinstance(action, Acquire | Prepare | Join)
            self.under_way.append(
                UnderWay(
                    run=self.run, action=action, keep=keep, effect=pace.effect, receipt=pace.receipt, timed_out=late
                )
            )
        for one in self.under_way:
            self._go_on(one)
        self.under_way = [one for one in self.under_way if one.receipt >= 0]
        return decision

    def _go_on(self, one: UnderWay) -> None:
        one.effect -= 1
        if one.effect >= 0:
            return
        if one.answer is None:
            answer = execute(one.run, self.nodes, one.action, self.allotter)
            one.answer = _failed(one, answer) if one.timed_out else answer
        one.receipt -= 1
        if one.receipt < 0 and one.keep:
            seq = len(self.journal) + 1
            self.journal.append(Receipt(seq=seq, at=self.clock.now(), action=one.action, answer=one.answer))

    def drive(self, stop: Callable[[Decision], bool], *, ticks: int = 4000) -> Decision:
        """Go round until `stop`, or for so many ticks, waiting as each decision asks; answer the last decision."""
        decision = self.tick()
        for _ in range(ticks):
            if stop(decision):
                break
            self.clock.wait(decision.wake_at, lambda: False)
            decision = self.tick()
        return decision

    def wish(self, wish: Wish) -> None:
        """Let an operator have a wish; nobody confirms the death of what still runs."""
        nodes, slices = self.run.fleet.nodes, self.run.placement.slices
        node, now = nodes[wish.at % len(nodes)].name, self.clock.now()
        if wish.what == "resize":
            self.resize(wish.at)
        elif wish.what == "drain":
            self.drained[node] = "maintenance"
        elif wish.what == "undrain":
            self.drained.clear()
        else:
            kind = RequestKind(wish.what)
            life = self.nodes._open(self.run)[0].life(node)
            runs = any(one.alive(now) for one in life.ranks) or any(one.alive(now) for one in life.raylets)
            subject = slices[wish.at % len(slices)].key if kind is RequestKind.RELOCATE else node
            if kind is not RequestKind.CONFIRM_DEAD or not runs:
                seq = len(self.orders) + 1
                self.orders.append(OperatorRequest(seq=seq, at=now, kind=kind, subject=subject, by="ann"))

    def resize(self, at: int) -> None:
        """Ask for another number of slices of a group, where that can be had."""
        now = self.run
        group = now.task.groups[at % len(now.task.groups)]
        rule = replace(group.topology, slices=1 + at % 4)
        if rule.max_slices is not None:
            rule = replace(rule, min_slices=1, max_slices=rule.slices)
        kept = [
            max_colocated_slices(one.topology, rule) >= one.topology.slices
            for one in now.task.colocated_groups(group.name)
        ]
        if group.topology.nodes_of is not None or not all(kept):
            return
        groups = tuple(replace(one, topology=rule) if one is group else one for one in now.task.groups)
        task, ours = replace(now.task, groups=groups), set(now.placement.nodes)
        barred = {
            name: Unavailable(used_by="given up") for name in {*self.record.failed_nodes, *self.record.requested} - ours
        }
        found = resize(task, self.allotter.whole, {**self.allotter.taken, **barred}, now.placement)
        if isinstance(found, Shortfall) or any(old.nodes != new.nodes for old, new in found.moved) or now.target:
            return
        names = [name for part in found.added for name in (*part.nodes, *part.spares)]
        aimed = replace(
            now,
            target=Target(
                task=as_placed(task, found.placement.slices),
                comes=found.added,
                goes=tuple(part.key for part in found.removed),
                fleet=self.allotter.whole.cut_down(names),
            ),
        )
        if hindrance(aimed, self.record) is not None:
            return
        self.run = aimed
        seq = len(self.orders) + 1
        self.orders.append(OperatorRequest(seq=seq, at=self.clock.now(), kind=RequestKind.RESIZE, by="ann"))

    def take_down(self) -> None:
        """Want nothing of the run from now on."""
        self.run = replace(self.run, wanted=Wanted.NOTHING)


def _slices(free: dict[RackName, list[NodeName]], group: str, count: int, per_slice: int, spares: int) -> list[Slice]:
    found: list[Slice] = []
    while len(found) < count:
        rack = next((rack for rack, names in free.items() if len(names) >= per_slice + spares), None)
        if rack is None:
            break
        taken, free[rack] = free[rack][: per_slice + spares], free[rack][per_slice + spares :]
        part = Slice(
            group=group,
            index=len(found),
            place=rack,
            rack=rack,
            domain=rack,
            nodes=tuple(taken[:per_slice]),
            spares=tuple(taken[per_slice:]),
        )
        found.append(part)
    return found


def _node(name: NodeName) -> Node:
    rack = RackName(name.split("-")[0])
    return Node(name=name, rack=rack, domain=rack, access=Access(address=f"10.0.{name}"))
