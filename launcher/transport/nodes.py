"""The `Nodes` port over a shell: most actions are a request to an agent."""

import errno
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import ClassVar, Literal

from launcher.core.model.actions import (
    Acquire,
    Announce,
    Join,
    Kill,
    Level,
    NodeAction,
    Park,
    PowerOff,
    PowerQuery,
    Prepare,
    Release,
    Reserve,
    Signal,
    Start,
    StartHead,
    Unit,
    Unreserve,
    Verify,
)
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Health, Sighting, Unseen
from launcher.core.model.receipt import Answer, Result
from launcher.core.model.run import MemberName, Run
from launcher.errors import LaunchError, RemoteError, StoreError
from launcher.ports import Command, Hear, LogName, LogPart, Shell, Take
from launcher.runtime.protocol import KillRequest, PlainRequest, Reply, SignalRequest
from launcher.runtime.protocol_files import OrphansRequest
from launcher.setup import gpus
from launcher.transport import fence, inspect
from launcher.transport.agent import commands, ranks
from launcher.transport.agent.addresses import Addresses
from launcher.transport.agent.answers import done, failed, free, killed
from launcher.transport.agent.client import AgentClient
from launcher.transport.agent.heads import RayHeads
from launcher.transport.agent.observe import Observer
from launcher.transport.agent.provision import Provisioner

ASK_S = 10.0
KILL_S = 30.0
END_S = 25.0
"""Seconds in which an agent has killed everything and says so: a kill takes 20 at most."""
STOP_S = 60.0
# Errors of the disk of this machine, which a person can fix.
_OUR_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


_LEVELS: Mapping[Level, Literal["node", "generation", "rank"]] = {
    Level.NODE: "node",
    Level.GENERATION: "generation",
    Level.RANK: "rank",
}


class ShellNodes:
    """The machines of runs, reached by a shell.

    See `Nodes` for what each method returns.
    """

    def __init__(self, addresses: Addresses, shell: Shell, owner: str) -> None:
        self._addresses = addresses
        self._shell = shell
        self._provision = Provisioner(addresses, owner)
        self._heads = RayHeads(addresses)
        self._poller = addresses.poller
        self._observer = Observer(addresses)

    def look(self, run: Run) -> Sighting:
        """Return what exists of the run on its nodes and on its head.

        All are asked at once.
        """
        return self._observer.look(run)

    def perform(self, run: Run, action: NodeAction) -> Answer:
        """Carry out an action through the agents of the machines that it concerns."""
        return self.ACTS[type(action)](self, run, action)

    def together(self) -> AbstractContextManager[None]:
        """Return a block that does nothing: each machine changes by itself."""
        return nullcontext()

    def _acquire(self, run: Run, action: Acquire) -> Answer:
        """Take the node's lease and start its agent."""
        client = self._addresses.slot(run, action.node)
        return self._act("acquire", lambda: self._provision.ensure_agent(run, client), client)

    def _prepare(self, run: Run, action: Prepare) -> Answer:
        """Put scripts, secrets and workdir on the node and start its setup."""
        client = self._addresses.slot(run, action.node)
        return self._act("prepare", lambda: self._provision.prepare(run, action), client)

    def _start_head(self, run: Run, action: StartHead) -> Answer:
        """Start the Ray head and the supervisor."""
        client = self._addresses.head(run)

        def act() -> Answer:
            kept = self._provision.ensure_agent(run, client)
            ready = self._provision.prepare_head(run) if kept.result is Result.DONE else kept
            return self._heads.start(run, action.cluster) if ready.result is Result.DONE else ready

        return self._act("start_head", act, client)

    def _join(self, run: Run, action: Join) -> Answer:
        """Start the raylet of a slot."""
        client = self._addresses.slot(run, action.slot.node)
        return self._act("join", lambda: self._heads.join(run, action.slot), client)

    def _park(self, run: Run, action: Park) -> Answer:
        """Hold the raylet of a spare."""
        return self._act("park", lambda: self._heads.park(run, action), self._addresses.head(run))

    def _reserve(self, run: Run, action: Reserve) -> Answer:
        """Ask Ray for the slice's placement group."""
        return self._act("reserve", lambda: self._heads.reserve(run, action), self._addresses.head(run))

    def _unreserve(self, run: Run, action: Unreserve) -> Answer:
        """Remove the slice's placement group."""
        return self._act("unreserve", lambda: self._heads.unreserve(run, action.slice), self._addresses.head(run))

    def _verify(self, run: Run, action: Verify) -> Answer:
        """Return with the bundles of the slice as Ray has them now."""
        return self._act("verify", lambda: self._heads.verify(run, action.slice))

    def _start(self, run: Run, action: Start) -> Answer:
        """Start the ranks of a gang for an attempt."""
        gang = {member.name for member in self._addresses.environment(run).index.by_gang[action.gang]}
        touched = [self._addresses.slot(run, slot.node) for slot in action.slots if slot.member in gang]
        touched.append(self._addresses.head(run))
        return self._act("start", lambda: ranks.start(self._addresses, self._heads, run, action), *touched)

    def _announce(self, run: Run, action: Announce) -> Answer:
        """Tell Ray that the raylet of a slot is drained."""
        return self._act("announce", lambda: self._heads.drain(run, action), self._addresses.head(run))

    def _signal(self, run: Run, action: Signal) -> Answer:
        """Send the stop signal to the ranks on a node."""
        client = self._addresses.slot(run, action.node)
        request: SignalRequest = {"op": "signal", "signal": action.signal}
        if action.gang is not None:
            request["gang"] = action.gang
        return self._act("signal", lambda: done(client.ask(request, timeout=ASK_S)), client)

    def _kill(self, run: Run, action: Kill) -> Answer:
        """Kill by marker at a level; where the slot stays, its GPUs have to be free then."""
        client = self._addresses.slot(run, action.node)
        request: KillRequest = {"op": "kill", "level": _LEVELS[action.level]}
        if action.level is Level.GENERATION:
            request["member"], request["generation"] = action.member, action.generation
        if action.level is Level.RANK:
            request["member"], request["attempt"] = action.member, action.attempt

        def act() -> Answer:
            reply = client.ask(request, timeout=KILL_S)
            if reply.get("absent"):  # no program of ours is there that could scan
                reply = self._without_agent(run, client, request, KILL_S)
            return self._free(run, client, action) if reply["ok"] and action.reused else killed(reply)

        return self._act("kill", act, client)

    def _free(self, run: Run, client: AgentClient, action: Kill) -> Answer:
        """Return whether the GPUs of a killed node are free.

        Only those of one member count where others go on beside it. Programs of an older launcher do not know the
        question.
        """
        index = self._addresses.environment(run).index
        node = index.nodes[action.node]
        some = gpus.of_member(run, index, node, action.member) if action.level is Level.RANK else range(node.gpus)
        try:
            return free(client, node, some)
        except RemoteError:
            return free(client, node, some, from_memory=True)

    def _release(self, run: Run, action: Release) -> Answer:
        """Kill all of the run on a unit, stop its agent, let go of the lease."""
        slot = action.node if action.unit is Unit.SLOT else None
        client = self._addresses.slot(run, slot) if slot is not None else self._addresses.head_on(run, action.node)

        return self._act("release", lambda: killed(self._stop(run, client)), client)

    def _stop(self, run: Run, client: AgentClient) -> Reply:
        """End an agent and all of the run.

        An agent that answers does it itself: nothing has to be started on its node. Else by a program that needs no
        file there.
        """
        request: PlainRequest = {"op": "stop"}
        try:
            reply = client.ask_open(request, timeout=END_S)
        except RemoteError:
            request["force"] = True
        else:
            if reply is not None and reply["ok"] and not reply.get("absent"):
                return reply
        return self._without_agent(run, client, request, STOP_S)

    def _without_agent(
        self, run: Run, client: AgentClient, request: KillRequest | PlainRequest, timeout: float
    ) -> Reply:
        """Return what a program from memory says and does in place of an agent."""
        asked: OrphansRequest = {"spec": self._provision.spec(run, client), "request": dict(request)}
        return client.from_memory(
            "orphans", "for", client.layout.root, stdin=json.dumps(asked).encode(), timeout=timeout
        )

    def _power(self, run: Run, action: PowerOff | PowerQuery) -> Answer:
        """Power a node off, or ask whether it is, by a command of the inventory on this machine."""
        node, home = self._addresses.environment(run).index.nodes[action.node], self._addresses.home
        return self._act(action.kind, lambda: fence.perform(run, action, node, home))

    ACTS: ClassVar[Mapping[type[NodeAction], Callable[..., Answer]]] = {
        Acquire: _acquire,
        Prepare: _prepare,
        StartHead: _start_head,
        Join: _join,
        Park: _park,
        Reserve: _reserve,
        Unreserve: _unreserve,
        Verify: _verify,
        Start: _start,
        Announce: _announce,
        Signal: _signal,
        Kill: _kill,
        Release: _release,
        PowerOff: _power,
        PowerQuery: _power,
    }

    def inspect(self, run: Run, node: NodeName) -> Health | Unseen:
        """Return what a node shows of its own health."""
        found = inspect.inspect(self._addresses.slot(run, node), self._addresses.environment(run).index.nodes[node])
        self._observer.also_ask(run, node)
        return found

    def read_log(self, run: Run, node: NodeName, log: LogName, offset: int) -> LogPart:
        """Return a piece of a log from a byte offset on.

        RemoteError where the node cannot be asked.
        """
        return ranks.read_log(self._addresses.slot(run, node), log, offset)

    def exec_command(self, run: Run, node: NodeName, command: Command, hear: Hear) -> int:
        """Run a command beside a rank until it ends; return its exit status."""
        environment = self._addresses.environment(run)
        return commands.execute(
            self._addresses.slot(run, node), environment, environment.index.nodes[node], command, hear
        )

    def stop_command(self, run: Run, node: NodeName, command: Command) -> None:
        """End a command and all that it started."""
        commands.stop(self._addresses.slot(run, node), command)

    def fetch(self, run: Run, node: NodeName, path: str, take: Take) -> tuple[str, ...]:
        """Send a file or folder of a node to `take`, as a tar stream.

        Return what was left out, and why.
        """
        return commands.fetch(self._addresses.slot(run, node), path, take)

    def visit(self, run: Run, node: NodeName, member: MemberName | None) -> tuple[str, ...]:
        """Return the program that opens a terminal on a node."""
        return commands.visit(self._addresses.slot(run, node), member)

    def _act(self, stage: str, act: Callable[[], Answer], *clients: AgentClient) -> Answer:
        """Return the answer to an action, with its time.

        An error on one machine is an answer too. Earlier replies of these units are out of date then: a look never
        shows less than what was answered. StoreError where it is the launcher's own disk, for which no node is to
        blame.
        """
        begun = time.monotonic()
        try:
            with self._poller.acting(clients):
                answer = act()
        except LaunchError as error:
            answer = failed(error, *clients)
        except OSError as error:
            if error.errno not in _OUR_DISK:
                raise
            what = f"cannot use `{self._addresses.home}`: {os.strerror(error.errno).lower()}"
            raise StoreError(what, hints=("free space on its disk",)) from error
        return replace(answer, stage=stage, elapsed=time.monotonic() - begun)

    def close(self) -> None:
        """Let go of connections; the nodes go on."""
        self._poller.close()
        self._shell.close()
