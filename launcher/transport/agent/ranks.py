"""Starts the ranks of a gang, and reads their logs."""

from dataclasses import replace

from launcher.core.model.actions import Start
from launcher.core.model.address import endpoint
from launcher.core.model.readiness import ReadinessProbe
from launcher.core.model.receipt import Answer, Result
from launcher.core.model.run import Member, MemberName, Run
from launcher.core.placement import colocation
from launcher.errors import RemoteError
from launcher.ports import LogName, LogPart
from launcher.runtime.protocol import DriveRequest, RankStart, StartRequest
from launcher.runtime.protocol_files import LogHeader, RankSpec, ReadinessSpec
from launcher.setup import ray
from launcher.setup.layout import Layout
from launcher.transport.agent import replies
from launcher.transport.agent.addresses import Addresses
from launcher.transport.agent.answers import done
from launcher.transport.agent.client import AgentClient
from launcher.transport.agent.heads import RayHeads
from launcher.transport.bounded import last_lines
from launcher.transport.upload import bundle

BEGIN_S = 30.0
BEGIN_EACH_S = 1.0
DRIVE_S = 20.0
PART_BYTES = 1 << 20
"""Bytes of a piece of a log. The twin of `runtime/logs.PART_BYTES`."""


def start(addresses: Addresses, heads: RayHeads, run: Run, action: Start) -> Answer:
    """Start every rank of a gang in the actor of its slot, and its drivers.

    FAILED names those that did not start.
    """
    gang = _GangStart(addresses, heads, run, action)
    driver = addresses.environment(run).index.driver
    for member in gang.members:
        if driver(member) == member:
            begun = gang.drive(member)
            if begun.result is not Result.DONE:
                return begun
    ranks = [gang.rank(member) for member in gang.members if driver(member) is None]
    if not ranks:
        return Answer(result=Result.DONE)
    addresses.ensure(addresses.head(run), bundle.shared(gang.shared))
    limit = BEGIN_S + BEGIN_EACH_S * len(ranks)
    question: StartRequest = {"op": "start", "shared": gang.shared.name, "ranks": ranks, "timeout": limit}
    reply = heads.ask(run, question, timeout=limit + 5)
    faults = reply.get("faults", {})
    unfit = tuple(slot.node for slot in action.slots if slot.member.replace("/", "-") in faults)
    return replace(done(reply), unfit=tuple(dict.fromkeys(unfit)))


class _GangStart:
    """One start of a gang: the holders of all slots, and what its ranks are told."""

    def __init__(self, addresses: Addresses, heads: RayHeads, run: Run, action: Start) -> None:
        self._addresses = addresses
        self._heads = heads
        self._run = run
        self._action = action
        self._environment = addresses.environment(run)
        self._slots = {slot.member: slot for slot in action.slots}
        self.members = self._environment.index.by_gang[action.gang]
        self.shared = self._environment.shared(action.slots)
        self._masters = {group: self._master_port(group) for group in {member.group for member in self.members}}

    def _master_port(self, group: str) -> int:
        first = self._slots[MemberName(f"{group}/0")]
        lane, lanes = colocation.position_on_node(self._run.task, self._run.group(group))
        client, attempt = self._addresses.slot(self._run, first.node), self._action.attempt
        ports = self._heads.ports(client).master_ports(attempt, lane, lanes)
        return self._heads.rendezvous(client, {"group": group, "attempt": attempt, "ports": list(ports)})

    def rank(self, member: Member) -> RankStart:
        """Return what the actor of a slot needs to start its rank."""
        slot, attempt = self._slots[member.name], self._action.attempt
        variables = self._environment.rank(
            self.shared,
            self._environment.index.nodes[slot.node],
            member,
            attempt=attempt,
            restarts=self._action.restarts,
            master_port=self._masters[member.group],
        )
        group = self._run.group(member.group)
        spec: RankSpec = {
            "member": member.name,
            "gang": self._action.gang,
            "attempt": attempt,
            "script": Layout.run_script(member.group),
            "variables": variables,
            "secrets": list(self._run.task.secrets_of(group)),
        }
        if group.readiness is not None and member.rank == 0:
            spec["readiness"] = _readiness(group.readiness)
        return {
            "slot": member.label,
            "label": member.label,
            "actor": f"{member.label}#{slot.generation}",
            "slice": member.slice_key,
            "index": member.slice_rank,
            "bundle": ray.bundle(group),
            "mark": self._addresses.slot(self._run, slot.node).layout.mark(slot.generation, member, attempt),
            "spec": spec,
        }

    def drive(self, member: Member) -> Answer:
        """Start a driver under the agent of its slot.

        It has the variables of a rank, and those that it needs for Ray.
        """
        rank, head = self.rank(member), self._addresses.head(self._run)
        variables = rank["spec"]["variables"]
        own = {
            **variables["own"],
            **ray.environment(head=False, tls=self._run.fleet.ray_tls),
            "RAY_ADDRESS": endpoint(head.access.address, self._heads.ports(head).gcs),
            "NVLAUNCH_SLICES": self._environment.slices(self._action.slots),
        }
        client = self._addresses.slot(self._run, self._slots[member.name].node)
        self._addresses.ensure(client, bundle.shared(self.shared))
        request: DriveRequest = {
            "op": "drive",
            "label": member.label,
            "spec": {**rank["spec"], "variables": {**variables, "own": own}},
            "mark": rank["mark"],
        }
        return done(client.ask(request, timeout=DRIVE_S), client)


def read_log(client: AgentClient, log: LogName, offset: int) -> LogPart:
    """Return a piece of the log of a rank, or of the provisioning.

    RemoteError where the node cannot be asked.
    """
    member = log.member.replace("/", "-") if log.member else "-"
    ended = client.program("logs", client.layout.root, member, str(log.attempt), str(offset), timeout=20)
    line, _, data = ended.stdout.partition(b"\n")
    data = data[:PART_BYTES]
    if ended.status != 0:
        tail = last_lines(ended.stderr, 5)
        raise RemoteError("cannot read the log", node=client.name, stage="logs", tail=tail)
    try:
        header = replies.read(LogHeader, replies.parse(line, "the header"))
    except replies.OddReplyError as error:
        raise RemoteError(f"cannot read the log: odd reply: {error}", node=client.name, stage="logs") from None
    after = max(0, header["next"])
    return LogPart(data=data, next_offset=after, attempt=header["attempt"], exists=header.get("exists", True))


def _readiness(probe: ReadinessProbe) -> ReadinessSpec:
    spec: ReadinessSpec = {
        "path": probe.path,
        "port": probe.port,
        "timeout": probe.timeout,
        "headers": dict(probe.headers),
    }
    return spec if probe.body is None else {**spec, "body": probe.body}
