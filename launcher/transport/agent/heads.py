"""Requests about a run's Ray: its head, its raylets and its placement groups."""

from typing import cast

from launcher.core.model.actions import Announce, Park, Reserve
from launcher.core.model.address import endpoint
from launcher.core.model.receipt import Answer, Result
from launcher.core.model.run import Run, Slot, spare_label
from launcher.errors import RemoteError
from launcher.runtime.protocol import (
    DrainRequest,
    RayRequest,
    ReserveRequest,
    SupervisorQuestion,
    SupervisorRequest,
    TablesReply,
)
from launcher.runtime.protocol_files import RendezvousQuestion
from launcher.setup import ray
from launcher.setup.ports import Ports
from launcher.transport.agent import decode
from launcher.transport.agent.addresses import Addresses
from launcher.transport.agent.answers import done
from launcher.transport.agent.client import AgentClient

ASK_S = 10.0
RESERVE_S = 20.0


class RayHeads:
    """Asks the agents of heads, and through them their supervisors."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses

    def ports(self, client: AgentClient) -> Ports:
        """Return the ports of a unit's agent; RemoteError where there is no agent.

        An agent is asked once: not again for each node that joins a head.
        """
        block = self._addresses.block(client)
        if block is None:
            reply = client.ask({"op": "hello"}, timeout=ASK_S)
            if reply.get("absent"):
                message = f"the {client.unit.value} on `{client.name}` has no agent"
                raise RemoteError(message, node=client.name, stage="ports")
            block = self._addresses.note_block(client, reply)
        return client.blocks.ports(block)

    def rendezvous(self, client: AgentClient, question: RendezvousQuestion) -> int:
        """Return a port on which rank 0 can listen; RemoteError names who has them all.

        An agent of the version before does not choose.
        """
        reply = client.ask({"op": "hello", "rendezvous": question}, timeout=ASK_S)
        if "port" not in reply and reply.get("message"):
            raise RemoteError(reply["message"], node=client.name, stage="rendezvous")
        return reply.get("port", question["ports"][0])

    def start(self, run: Run, cluster: int) -> Answer:
        """Start the Ray head of a cluster under its agent."""
        client = self._addresses.head(run)
        at = self._at(client)
        request: RayRequest = {
            "op": "ray",
            "generation": cluster,
            "argv": list(ray.head_argv(at, dashboard=run.task.dashboard)),
            "client": at.ports.client,
            "env": ray.environment(head=True, tls=run.fleet.ray_tls),
            "supervisor": endpoint(at.address, at.ports.gcs),
        }
        return done(client.ask(request, timeout=ASK_S), client)

    def join(self, run: Run, slot: Slot) -> Answer:
        """Start the raylet of a slot under its node's agent."""
        client, head = self._addresses.slot(run, slot.node), self._addresses.head(run)
        index, ports = self._addresses.environment(run).index, self.ports(head)
        member, node = index.by_name[slot.member], index.nodes[slot.node]
        argv = ray.slot_argv(
            self._at(client),
            endpoint(head.access.address, ports.gcs),
            node,
            ray.labels(run.fleet.levels, node, slot, member),
            driven=run.group(member.group).driver is not None,
            groups=1 + len(run.task.colocated_groups(member.group)),
        )
        request: RayRequest = {
            "op": "ray",
            "generation": slot.generation,
            "member": slot.member,
            "argv": list(argv),
            "env": ray.environment(head=False, tls=run.fleet.ray_tls),
            "head": (head.access.address, ports.heartbeat),
        }
        if client.access.address == head.access.address:
            request["head_scratch"] = head.layout.scratch
        group = run.group(member.group)
        if group.driver is not None:
            variables = self._addresses.environment(run).setup(node, member)
            request["workers"] = {"variables": variables, "secrets": list(run.task.secrets_of(group))}
        return done(client.ask(request, timeout=ASK_S), client)

    def _at(self, client: AgentClient) -> ray.At:
        address, temp_dir = client.access.address, client.layout.ray
        return ray.At(address=address, ports=self.ports(client), temp_dir=temp_dir, shared=client.shared)

    def park(self, run: Run, action: Park) -> Answer:
        """Create the placement group that takes all of the raylet of a spare."""
        label = spare_label(action.slot.generation)
        question: ReserveRequest = {"op": "reserve", "slice": label, "bundles": [], "slots": [label], "within": {}}
        return done(self.ask(run, question, timeout=RESERVE_S))

    def reserve(self, run: Run, action: Reserve) -> Answer:
        """Create the placement group of a slice: one bundle for each slot."""
        index, key = self._addresses.environment(run).index, action.slice
        part, members = index.slices[key], index.by_slice[key]
        bundle = ray.bundle(run.group(part.group))
        question: ReserveRequest = {
            "op": "reserve",
            "slice": key,
            "bundles": [bundle for _ in members],
            "slots": list(action.labels) or [member.slot for member in members],
            "within": ray.within(run, part),
        }
        return done(self.ask(run, question, timeout=RESERVE_S))

    def unreserve(self, run: Run, key: str) -> Answer:
        """Remove the placement group of a slice."""
        return done(self.ask(run, {"op": "unreserve", "slice": key}, timeout=RESERVE_S))

    def drain(self, run: Run, action: Announce) -> Answer:
        """Tell Ray that the raylet of a slot is drained."""
        member = self._addresses.environment(run).index.by_name[action.slot.member]
        question: DrainRequest = {
            "op": "drain",
            "slot": action.slot.label(member),
            "generation": action.slot.generation,
            "deadline": action.deadline,
            "reason": action.reason.message,
        }
        return done(self.ask(run, question, timeout=ASK_S))

    def verify(self, run: Run, key: str) -> Answer:
        """Return where Ray, asked anew, has the bundles of a slice."""
        tables = self.ask(run, {"op": "verify", "timeout": ASK_S, "slice": key}, timeout=ASK_S + 2)
        if not tables["ok"]:
            return done(tables)
        row = next((row for row in tables.get("groups", ()) if row["slice"] == key), None)
        if row is None or row["state"] == "REMOVED":
            return Answer(result=Result.FAILED, message=f"Ray has no placement group for slice `{key}`")
        return Answer(result=Result.DONE, bundles=decode.bundles(row["bundles"]))

    def ask(self, run: Run, question: SupervisorQuestion, timeout: float) -> TablesReply:
        """Return the reply of the run's supervisor."""
        request: SupervisorRequest = {"op": "supervisor", "question": question, "timeout": timeout}
        reply = self._addresses.head(run).ask(request, timeout=timeout + 2)
        if reply.get("absent"):
            return {"ok": False, "message": "the head has no agent"}
        return cast("TablesReply", reply)
