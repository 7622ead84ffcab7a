"""Local racks for tests: runs on loopback addresses, in a home of their own."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from launcher.core.model.actions import Acquire, Join, Prepare, Reason, Release, StartHead, Unit, Why
from launcher.core.model.inventory import Access, GpuDriver, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import AgentReport, Head, HeadSeen, RankReport, Seen, Sighting
from launcher.core.model.placement import Placement, Slice
from launcher.core.model.receipt import Answer, Result
from launcher.core.model.run import Run, RunId, RunName, Slot
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.ports import Nodes
from launcher.transport.open import open_nodes

REASON = Reason(why=Why.START, message="a test asks for it")
AMPLE_S = 60.0


def inventory(home: Path, *, racks: int, nodes: int) -> Inventory:
    """Return local racks whose leases lie in the test's own home."""
    return Inventory(
        name="local",
        transport=Transport.LOCAL,
        nodes=tuple(
            Node(
                name=NodeName(f"r{rack}-n{at}"),
                rack=RackName(f"r{rack}"),
                access=Access(address=f"127.0.{40 + rack}.{at}"),
                domain=f"r{rack}",
                gpu_driver=GpuDriver.NONE,
            )
            for rack in range(1, racks + 1)
            for at in range(1, nodes + 1)
        ),
        lease_path=str(home / "lease"),
    )


def place(fleet: Inventory, run_id: str, group: Group, *, spares: int = 0, secrets: tuple[str, ...] = ()) -> Run:
    """Return a run of one slice a rack, on the rack's nodes in order, the last ones kept as spares."""
    racks: dict[RackName, list[NodeName]] = {}
    domains = {node.rack: node.domain for node in fleet.nodes}
    for node in fleet.nodes:
        racks.setdefault(node.rack, []).append(node.name)
    slices = tuple(
        Slice(
            group=group.name,
            index=at,
            place=rack,
            rack=rack,
            domain=domains[rack],
            nodes=tuple(names[: len(names) - spares]),
            spares=tuple(names[len(names) - spares :]),
        )
        for at, (rack, names) in enumerate(racks.items())
    )
    rule = TopologyRule(slices=len(slices), nodes_per_slice=len(slices[0].nodes), spares=spares)
    task = Task(name="job", groups=(replace(group, topology=rule),), secrets=secrets)
    return Run(id=RunId(run_id), name=RunName("job"), task=task, placement=Placement(slices=slices), fleet=fleet)


class Stand:
    """A run and the way to its nodes, with the steps that tests take again and again."""

    def __init__(self, home: Path, run: Run) -> None:
        self.home = home
        self.run = run
        self.nodes: Nodes = open_nodes(home, run.fleet, "somebody@here")
        self.slots = slots(run)

    def bring_up(self) -> None:
        """Take the run to where its slices can be reserved: every raylet alive in Ray's table."""
        with ThreadPoolExecutor() as pool:
            each = pool.map(self._make_ready, self.slots)
            ok(self.nodes.perform(self.run, StartHead(reason=REASON)))
            list(each)
            self.until(lambda seen: head(seen).ready)
            list(pool.map(self.join, self.slots))
        self.until(lambda seen: alive(seen) == {(self.label(slot), slot.generation) for slot in self.slots})

    def _make_ready(self, slot: Slot) -> None:
        ok(self.nodes.perform(self.run, Acquire(reason=REASON, node=slot.node)))
        ok(self.nodes.perform(self.run, Prepare(reason=REASON, node=slot.node, member=slot.member)))

    def join(self, slot: Slot) -> None:
        """Start a slot's raylet."""
        ok(self.nodes.perform(self.run, Join(reason=REASON, slot=slot)))

    def label(self, slot: Slot) -> str:
        """Return how Ray calls a slot."""
        return next(member.label for member in self.run.members() if member.name == slot.member)

    def until(self, holds: Callable[[Sighting], bool], limit: float = AMPLE_S) -> Sighting:
        """Look until what is seen holds, and answer it; fails with the last look."""
        deadline = time.monotonic() + limit
        while True:
            seen = self.nodes.look(self.run)
            if holds(seen):
                return seen
            assert time.monotonic() < deadline, seen
            time.sleep(0.1)

    def take_down(self) -> list[Answer]:
        """Let go of every node and of the head; return what came of it."""
        with ThreadPoolExecutor() as pool:
            nodes = [Release(reason=REASON, node=node) for node in self.run.placement.nodes]
            head_too = [*nodes, Release(reason=REASON, node=self.run.head, unit=Unit.HEAD)]
            return list(pool.map(lambda action: self.nodes.perform(self.run, action), head_too))


def ok(answer: Answer) -> Answer:
    """Check that an action went well."""
    assert answer.result in (Result.DONE, Result.KILLED), answer
    return answer


def slots(run: Run, generation: int = 0) -> tuple[Slot, ...]:
    """Return who holds what at first."""
    members = list(run.members())
    nodes = [name for part in run.placement.slices for name in part.nodes]
    return tuple(Slot(member=m.name, node=n, generation=generation) for m, n in zip(members, nodes, strict=True))


def agent(seen: Sighting, node: NodeName) -> AgentReport:
    """Return what the agent of a node says; an empty one where there is none."""
    view = seen.nodes[node]
    return (view.agent if isinstance(view, Seen) else None) or AgentReport()


def head(seen: Sighting) -> Head:
    """Return what the head says; an empty one where there is none."""
    return (seen.head.head if isinstance(seen.head, HeadSeen) else None) or Head()


def alive(seen: Sighting) -> set[tuple[str, int]]:
    """Return the slots that are alive in Ray's table, with their generations."""
    return {(node.slot, node.generation) for node in head(seen).nodes if node.alive}


def rank(seen: Sighting, slot: Slot, attempt: int) -> RankReport | None:
    """Return what is seen of a slot's rank of an attempt."""
    reports = agent(seen, slot.node).ranks
    return next((one for one in reports if one.member == slot.member and one.attempt == attempt), None)


def runs(seen: Sighting, slot: Slot, attempt: int) -> bool:
    """Whether a slot's rank of an attempt runs."""
    report = rank(seen, slot, attempt)
    return report is not None and report.running


def raylets(address: str) -> list[int]:
    """Return the raylets that live on a node, by the address in their arguments."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdecimal() else [b""]
        except OSError:
            continue
        if words[0].endswith(b"/raylet") and f"--node_ip_address={address}".encode() in words:
            found.append(int(entry.name))
    return found
