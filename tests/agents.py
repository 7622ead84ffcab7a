"""Stand-in agents behind a shell that counts: the real transport code speaks to them, and no machine is there."""

import json
import os
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from launcher.core.model.actions import Acquire, Prepare, Reason, Release, Start, StartHead, Why
from launcher.core.model.inventory import Access, ImexMode, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Slice
from launcher.core.model.run import GangName, Run, RunId, RunName, Slot
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.ports import Completed
from launcher.runtime.protocol import PROTOCOL
from launcher.transport.agent import relay

TRAYS = 16
REASON = Reason(why=Why.START, message="measured")


def make_run(size: int, *groups: Group) -> Run:
    """Return a run of `size` nodes in slices of 16, one slice a rack; the groups share the slices in equal parts."""
    groups = groups or (Group(name="main", topology=TopologyRule(), gpus=4, run="train", setup="prepare"),)
    racks = [
        [
            Node(
                name=NodeName(f"r{rack:03}-n{tray:02}"),
                rack=RackName(f"r{rack:03}"),
                domain=f"r{rack:03}",
                access=Access(address=f"10.{64 + rack // 250}.{rack % 250}.{10 + tray}", python="/opt/ray/bin/python"),
            )
            for tray in range(TRAYS)
        ]
        for rack in range(size // TRAYS)
    ]
    each = len(racks) // len(groups)
    slices = tuple(
        Slice(
            group=groups[at // each].name,
            index=at % each,
            place=nodes[0].rack,
            rack=nodes[0].rack,
            domain=nodes[0].domain,
            nodes=tuple(node.name for node in nodes),
        )
        for at, nodes in enumerate(racks)
    )
    fleet = Inventory(
        name="hall",
        transport=Transport.SSH,
        nodes=tuple(node for nodes in racks for node in nodes),
        imex=ImexMode.OFF,
        head=Access(address="10.0.0.1", python="/opt/ray/bin/python"),
    )
    task = Task(name="job", groups=groups)
    return Run(id=RunId("job-1"), name=RunName("job"), task=task, placement=Placement(slices=slices), fleet=fleet)


def slots(run: Run) -> tuple[Slot, ...]:
    """Return who holds what at first."""
    holders = [name for part in run.placement.slices for name in part.nodes]
    return tuple(Slot(member=m.name, node=n) for m, n in zip(run.members(), holders, strict=True))


def acquire(slot: Slot) -> Acquire:
    """Return the action that takes the node of a slot."""
    return Acquire(reason=REASON, node=slot.node)


def prepare(slot: Slot) -> Prepare:
    """Return the action that prepares the node of a slot."""
    return Prepare(reason=REASON, node=slot.node, member=slot.member)


def release(slot: Slot) -> Release:
    """Return the action that releases the node of a slot."""
    return Release(reason=REASON, node=slot.node)


def start(run: Run, gang: str = "run", attempt: int = 1) -> Start:
    """Return the action that starts a gang."""
    return Start(reason=REASON, gang=GangName(gang), attempt=attempt, restarts=0, slots=slots(run))


def start_head() -> StartHead:
    """Return the action that starts the head."""
    return StartHead(reason=REASON)


class Agents:
    """A shell to a machine for each address, on each of which an agent can be started; `sent` counts bytes."""

    def __init__(self, run: Run, protocol: int = PROTOCOL) -> None:
        self.sent = 0
        self._protocol = protocol
        self._lock = threading.Lock()
        self._begun: set[str] = set()
        self._head = json.dumps({**_head_status(run), "protocol": protocol}).encode()
        members = {slot.node: slot.member for slot in slots(run)}
        self._nodes = {
            node.access.address: json.dumps({**_node_status(members.get(node.name)), "protocol": protocol}).encode()
            for node in run.fleet.nodes
        }

    def count(self, size: int) -> None:
        """Take note of what was sent."""
        with self._lock:
            self.sent += size

    def run(self, at: Access, argv: Sequence[str], *, stdin: Any = b"", timeout: float, take: Any = None) -> Completed:
        """Answer in place of a program on the machine."""
        del timeout, take
        self.count(len(stdin) + sum(map(len, argv)))
        if "agent_start" in argv:
            self._begun.add(at.address)
            return _said(b'{"ok": true, "block": 6400}')
        return _said(self.reply(at, json.loads(bytes(stdin))) if relay.ONE in argv else b'{"ok": true}')

    def put(self, at: Access, folder: str, files: Mapping[str, tuple[bytes, int]], *, timeout: float) -> None:
        """Take files."""
        del at, folder, timeout
        self.count(sum(len(name) + len(content) for name, (content, _) in files.items()))

    def converse(self, at: Access, argv: Sequence[str], *, timeout: float, knock: float) -> "Wire":
        """Open a connection to the agents of a machine."""
        del timeout, knock
        self.count(sum(map(len, argv)))
        return Wire(self, at)

    def close(self) -> None:
        """Nothing is kept."""

    def reply(self, at: Access, question: dict[str, Any]) -> bytes:
        """Return what the agent of a machine says."""
        match question["op"]:
            case "status":
                return self._nodes.get(at.address, self._head)
            case "hello" if at.address not in self._begun:
                return b'{"ok": true, "absent": true}'
            case "hello":
                return b'{"ok": true, "block": 6400}'
            case _ if self._protocol != PROTOCOL:
                return b'{"ok": false, "protocol": %d, "message": "request refused"}' % self._protocol
            case _:
                return b'{"ok": true}'


class Wire:
    """A connection that is kept: each line is answered at once."""

    def __init__(self, agents: Agents, at: Access) -> None:
        self._agents = agents
        self._at = at
        self._news = os.eventfd(0, os.EFD_SEMAPHORE)
        self._said: deque[bytes] = deque()

    def send(self, data: bytes) -> None:
        """Answer each line."""
        self._agents.count(len(data))
        for line in data.splitlines():
            asked = json.loads(line)
            answer = self._agents.reply(self._at, asked["question"])
            self._say(b'{"key": %s, "answer": %s}\n' % (json.dumps(asked["key"]).encode(), answer))

    def _say(self, data: bytes) -> None:
        self._said.append(data)
        os.eventfd_write(self._news, 1)

    def read(self) -> bytes:
        """Return the next answer."""
        os.eventfd_read(self._news)
        return self._said.popleft()

    def last_words(self) -> str:
        """Return why it ended."""
        return "the connection was closed"

    def give_up(self) -> None:
        """End it."""
        self.close()

    def close(self) -> None:
        """End it."""
        self._say(b"")


def _said(answer: bytes) -> Completed:
    return Completed(status=0, stdout=answer, stderr=b"")


def _node_status(member: str | None) -> dict[str, Any]:
    rank = {"member": member, "attempt": 1, "running": True, "quiet": 1.0}
    step = {"generation": 0, "message": ""}
    return {
        "ok": True,
        "agent": 4711,
        "block": 6400,
        "member": member,
        "ray": {"phase": "running", **step},
        "setup": {"phase": "done", "exit_code": 0, "tail": [], **step},
        "ranks": [rank] if member else [],
        "head_silence": 0.2,
        "reachable": {},
    }


def _head_status(run: Run) -> dict[str, Any]:
    """Return what the head says of a run that is up: a node and a bundle for each slot."""
    domains = {node.name: node.domain for node in run.fleet.nodes}
    members = {member.name: member for member in run.members()}
    groups: dict[str, dict[str, Any]] = {}
    rows = []
    for slot in slots(run):
        member, domain = members[slot.member], domains[slot.node]
        rows.append({"slot": member.slot, "generation": 0, "domain": domain, "alive": True})
        group = groups.setdefault(
            member.slice_key, {"slice": member.slice_key, "state": "CREATED", "hint": "", "bundles": []}
        )
        bundle = {"index": member.slice_rank, "slot": member.slot, "domain": domain, "generation": 0}
        group["bundles"].append(bundle)
    return {
        "ok": True,
        "agent": 4711,
        "block": 7700,
        "member": None,
        "ray": {"phase": "running", "generation": 0, "message": ""},
        "heartbeat_ages": {node.name: 0.3 for node in run.fleet.nodes},
        "listening": 600.0,
        "supervisor": {"ok": True, "ready": True, "nodes": rows, "groups": list(groups.values())},
    }
