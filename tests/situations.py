"""Runs and observations for tests of the kernel, built by hand in few words."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from launcher.core.control.reconcile import Decision, reconcile
from launcher.core.model.action_key import ActionKey, key_of
from launcher.core.model.actions import Action
from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import (
    AgentReport,
    GroupReport,
    GroupState,
    Head,
    HeadSeen,
    HeadView,
    Health,
    NodeView,
    Observation,
    Phase,
    RankReport,
    RayNode,
    Reached,
    Seen,
    Sign,
    Step,
    Symptom,
    Unseen,
)
from launcher.core.model.operator_requests import OperatorRequest, RequestKind
from launcher.core.model.placement import Placement, Slice
from launcher.core.model.receipt import Answer, Bundle, Receipt, Result
from launcher.core.model.record import Gang, Record
from launcher.core.model.run import GangName, MemberName, Run, RunId, RunName, Slot, spare_label
from launcher.core.model.run_index import index_of
from launcher.core.model.task import Group, RecoveryPolicy, Task, TopologyRule

PATIENT = RecoveryPolicy(max_restarts=3)
RUN = GangName("run")
UP = Step(phase=Phase.RUNNING)
DONE = Step(phase=Phase.DONE, exit_code=0)


def name(rack: int, node: int) -> NodeName:
    """The name of a node: r1-n1."""
    return NodeName(f"r{rack}-n{node}")


def make_run(
    *,
    slices: int = 2,
    nodes: int = 2,
    spares: int = 1,
    recovery: RecoveryPolicy = PATIENT,
    grace: float = 60.0,
    driver: str | None = None,
    reserve: bool = False,
) -> Run:
    """A run of one group `main`: slice k in rack k+1, on n1.. in rank order, its spares after them."""
    parts = tuple(
        Slice(
            group="main",
            index=at,
            place=f"r{at + 1}",
            rack=RackName(f"r{at + 1}"),
            domain=f"r{at + 1}",
            nodes=tuple(name(at + 1, n + 1) for n in range(nodes)),
            spares=tuple(name(at + 1, nodes + n + 1) for n in range(spares)),
        )
        for at in range(slices)
    )
    fleet = Inventory(
        name="fleet",
        transport=Transport.SIM,
        nodes=tuple(
            Node(name=node, rack=part.rack or RackName(""), domain=part.domain, access=Access(address=node))
            for part in parts
            for node in (*part.nodes, *part.spares)
        ),
    )
    group = Group(
        name="main",
        topology=TopologyRule(slices=slices, nodes_per_slice=nodes, spares=spares),
        gpus=4,
        run="" if driver else "true",
        driver=driver,
        reserve=reserve,
        recovery=recovery,
    )
    task = Task(name="job", groups=(group,), stop_grace=grace)
    return Run(id=RunId("job-1"), name=RunName("job"), task=task, placement=Placement(slices=parts), fleet=fleet)


class Situation:
    """What is seen of a run, changed word by word; `decide()` asks the kernel and keeps its record."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.at = 100.0
        self.views: dict[NodeName, NodeView] = {node: Seen() for node in run.placement.nodes}
        self.head: HeadView = HeadSeen()
        self.record = Record()
        self.receipts: list[Receipt] = []
        self.in_flight: frozenset[ActionKey] = frozenset()
        self.health: dict[NodeName, Health | None] = {}
        self.reached: dict[NodeName, Reached] = {}
        self.orders: list[OperatorRequest] = []
        self.drained: dict[NodeName, str] = {}
        self.suspects: dict[NodeName, str] = {}
        self.room: frozenset[str] = frozenset()
        self.kept_out: frozenset[NodeName] = frozenset()
        self.seq = 0

    def decide(self, *, after: float = 0.3) -> Decision:
        """One tick, `after` seconds later."""
        self.at += after
        decision = reconcile(self.run, self.observation(), self.record)
        self.record, self.receipts = decision.record, []
        return decision

    def observation(self) -> Observation:
        """What the kernel is shown now."""
        return Observation(
            at=self.at,
            nodes=dict(self.views),
            head=self.head,
            receipts=tuple(self.receipts),
            in_flight=self.in_flight,
            reached=dict(self.reached),
            health=self._health(),
            requests=tuple(self.orders),
            drained=dict(self.drained),
            suspects=dict(self.suspects),
            room=self.room,
            kept_out=self.kept_out,
            wall=self.at,
        )

    def _health(self) -> dict[NodeName, Health]:
        """Every node that is seen has just said that it is well, unless a test says otherwise."""
        well = {node: Health(at=self.at) for node, view in self.views.items() if isinstance(view, Seen)}
        return {node: found for node, found in {**well, **self.health}.items() if found is not None}

    def sign(self, node: NodeName, symptom: Symptom, words: str) -> None:
        """A node shows something from now on, each time that it is asked."""
        known = self.health.get(node)
        signs = (*(known.signs if known else ()), Sign(symptom=symptom, message=words))
        self.health[node] = Health(at=float("inf"), signs=signs)

    def order(self, kind: RequestKind, subject: str = "") -> None:
        """An operator asks something of the run."""
        self.orders.append(OperatorRequest(seq=len(self.orders) + 1, at=0.0, kind=kind, subject=subject, by="ann"))

    def silent(self, *nodes: NodeName, heard: float | None = None) -> None:
        """Nodes answer neither us nor the others; the head has not heard them for so long (s), if it says so."""
        for node in nodes:
            self.views[node] = Unseen(message="no answer")
            self.reached[node] = Reached(by=NodeName("another"), answers=False)
        if heard is not None:
            assert isinstance(self.head, HeadSeen)
            assert self.head.head is not None
            unheard = {**self.head.head.heard, **dict.fromkeys(nodes, heard)}
            self.head = HeadSeen(head=replace(self.head.head, heard=unheard))

    def receive(self, action: Action, result: Result = Result.DONE, **answer: object) -> None:
        """A receipt comes back."""
        self.seq += 1
        got = replace(Answer(result=result), **answer)  # type: ignore[arg-type]
        self.receipts.append(Receipt(seq=self.seq, at=self.at, action=action, answer=got))

    def agent(self, node: NodeName, **changes: object) -> None:
        """The agent of a node says something new."""
        view = self.views[node]
        before = view.agent if isinstance(view, Seen) and view.agent else AgentReport()
        self.views[node] = Seen(agent=replace(before, **changes))  # type: ignore[arg-type]

    def leased(self) -> None:
        """Every lease was asked for and is ours."""
        self.decide()
        for node in self.views:
            self.agent(node)

    def ready(self, *, generations: Mapping[MemberName, int] | None = None) -> None:
        """Every slot is prepared and alive in Ray; every slice is placed where it should be."""
        self.leased()
        self.show_ready(self.record.slots or {})

    def show_ready(self, slots: Mapping[MemberName, Slot]) -> None:
        """What is seen when the given holders are up: setups done, raylets alive, groups created."""
        for slot in slots.values():
            self.agent(slot.node, setup=DONE, ray=replace(UP, generation=slot.generation))
        members = list(self.run.members())
        rays = tuple(
            RayNode(
                slot=member.label,
                generation=slots[member.name].generation,
                domain=index_of(self.run).slices[member.slice_key].domain,
                alive=True,
            )
            for member in members
        )
        groups = tuple(
            GroupReport(slice=part.key, state=GroupState.CREATED, bundles=self.bundles(part.key))
            for part in self.run.placement.slices
            if self.run.group(part.group).reserved
        )
        self.head = HeadSeen(head=Head(ray=replace(UP, generation=1), ready=True, nodes=rays, groups=groups))

    def bundles(self, key: str, *, domain: str | None = None) -> tuple[Bundle, ...]:
        """The bundles of a slice where they should be, or all in another domain."""
        return tuple(
            Bundle(
                index=member.slice_rank,
                slot=member.label,
                domain=domain or index_of(self.run).slices[member.slice_key].domain,
                generation=self.record.slots[member.name].generation,
            )
            for member in self.run.members()
            if member.slice_key == key
        )

    def verify(self, actions: Iterable[Action]) -> None:
        """Answer every Verify among the actions: all is where it should be."""
        for action in actions:
            if action.kind == "verify":
                self.receive(action, bundles=self.bundles(action.slice))

    def serving(self) -> None:
        """The first attempt runs on every slot."""
        self.ready()
        started = self.decide()
        if any(action.kind == "verify" for action in started.actions):
            self.verify(started.actions)
            started = self.decide()
        assert {action.kind for action in started.actions} == {"start"}
        self.run_ranks(1)
        self.decide()

    def park_spares(self) -> None:
        """Every spare is prepared, alive in Ray and held there."""
        held = {slot.node for slot in self.record.slots.values()}
        idle = [node for node, view in self.views.items() if isinstance(view, Seen) and node not in held]
        for node in idle:
            self.agent(node, setup=DONE)
        self.decide()
        assert isinstance(self.head, HeadSeen)
        assert self.head.head is not None
        rays, groups = list(self.head.head.nodes), list(self.head.head.groups)
        for node, generation in self.record.spares.items():
            self.agent(node, ray=replace(UP, generation=generation))
            label, domain = spare_label(generation), index_of(self.run).nodes[node].domain
            rays.append(RayNode(slot=label, generation=generation, domain=domain, alive=True))
            groups.append(GroupReport(slice=label, state=GroupState.CREATED))
        self.head = HeadSeen(head=replace(self.head.head, nodes=tuple(rays), groups=tuple(groups)))

    def run_ranks(self, attempt: int) -> None:
        """Every rank of an attempt runs; of a group with a driver that of slot 0 only."""
        index = index_of(self.run)
        ranks = [member for member in index.members if index.driver(member) in (None, member)]
        for member in ranks:
            node = self.record.slots[member.name].node
            self.agent(node, ranks=(RankReport(member=member.name, attempt=attempt, running=True),))

    def end_rank(self, rank: int, code: int | None, *, attempt: int = 1, at: float = 0.0) -> None:
        """A rank of an attempt has ended."""
        member = MemberName(f"main/{rank}")
        node = self.record.slots[member].node
        ago = self.at - at
        tail = ("the end",)
        report = RankReport(member=member, attempt=attempt, running=False, exit_code=code, ended_ago=ago, tail=tail)
        self.agent(node, ranks=(report,))

    def gang(self) -> Gang:
        """The one gang of the run."""
        return self.record.gangs[RUN]


def kinds(decision: Decision) -> list[str]:
    """What a decision does, in words: kind and subject of each action."""
    return sorted(key(action) for action in decision.actions)


def key(action: Action) -> str:
    """The key of an action, as the journal shows it."""
    return str(key_of(action))
