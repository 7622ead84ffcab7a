"""A look at a run: the status of its agents, and of unreachable machines."""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from launcher.core.model.inventory import Node, RackName
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import NodeView, Reached, Seen, Sighting, Unseen
from launcher.core.model.run import Run, RunId, Wanted
from launcher.errors import LaunchError
from launcher.runtime.protocol import StatusReply, StatusRequest, mismatch
from launcher.setup.ports import FIRST
from launcher.transport.agent import containers, decode
from launcher.transport.agent.addresses import Addresses
from launcher.transport.agent.client import OTHER_VERSION, AgentClient
from launcher.transport.agent.run_look import RunLook

PROBERS = 2
"""The number of agents that probe a machine which the launcher cannot reach."""

SSH_PORT = 22


class Observer:
    """Looks at runs.

    It remembers of each run which nodes the last look did not reach, where its head listens, and what that tells.
    """

    def __init__(self, addresses: Addresses, clock: Callable[[], float] = time.monotonic) -> None:
        self._addresses = addresses
        self._clock = clock
        self._views: dict[RunId, Mapping[NodeName, NodeView]] = {}
        self._heartbeat_servers: dict[RunId, tuple[str, int]] = {}
        self._looks: dict[RunId, RunLook] = {}

    def look(self, run: Run) -> Sighting:
        """Return what exists of the run on its nodes and on its head."""
        look = self._run_look(run)
        head, told = look.head, look.look(self._requests(run), self._of_head(run))
        _check_protocol(run, [*told.direct.values(), told.head])
        containers.fix_identities(self._addresses.home, run, [*told.direct.values(), told.head])
        ending = run.wanted is Wanted.NOTHING
        views = look.views(told, head.access.address, ending=ending)
        self._views[run.id] = views
        self._note_head(run, head, told.head)
        reached = _reached(views, told.direct)
        seen = decode.head_view(told.head, look.names, ending=ending)
        return Sighting(nodes=views, head=seen, reached=reached, warnings=look.warnings())

    def also_ask(self, run: Run, node: NodeName) -> None:
        """Ask a node directly with the next look at its run, if there was one: there is a connection anyway."""
        if (look := self._looks.get(run.id)) is not None:
            look.also_ask(node)

    def _run_look(self, run: Run) -> RunLook:
        """Return what is known of the looks at a run, begun anew with the head elsewhere."""
        found = self._looks.get(run.id)
        if found is None or not found.keep_up(run):
            found = self._looks[run.id] = RunLook(run, self._addresses, self._clock)
        return found

    def _note_head(self, run: Run, head: AgentClient, reply: StatusReply) -> None:
        if reply["ok"] and head.blocks.has(reply.get("block", 0)):
            self._heartbeat_servers[run.id] = (head.access.address, head.blocks.ports(reply["block"]).heartbeat)

    def _of_head(self, run: Run) -> StatusRequest:
        """Return the request to the agent of the head, which has a container where its Ray is that of an image."""
        images = containers.identities(self._addresses.home, run)
        return {"op": "status", "images": images} if images else {"op": "status"}

    def _requests(self, run: Run) -> dict[NodeName, StatusRequest]:
        """Return the request to each agent, with the machines that it is to probe."""
        base: StatusRequest = {"op": "status"}
        if images := containers.identities(self._addresses.home, run):
            base["images"] = images
        if run.id in self._heartbeat_servers:
            base["head"] = self._heartbeat_servers[run.id]
        asked = {node.name: base.copy() for node in run.fleet.nodes}
        views = self._views.get(run.id, {})
        able = [node for node in run.fleet.nodes if _has_agent(views.get(node.name))]
        unseen = [node for node in run.fleet.nodes if isinstance(views.get(node.name), Unseen)]
        by_rack = {rack: probers(able, rack) for rack in {node.rack for node in unseen}}
        for node in unseen:
            ports = [node.access.port or SSH_PORT, FIRST]
            for name in by_rack[node.rack]:
                asked[name].setdefault("probe", {})[node.name] = (node.access.address, ports)
        return asked


def probers(able: Sequence[Node], rack: RackName) -> Sequence[NodeName]:
    """Return the nodes with an agent that probe a node of a rack.

    Nodes of other racks come first, because they use another path.
    """
    others = islice((node for node in able if node.rack != rack), PROBERS)
    own = islice((node for node in able if node.rack == rack), PROBERS)
    return [node.name for node in (*others, *own)][:PROBERS]


def _check_protocol(run: Run, told: Sequence[StatusReply]) -> None:
    """Raise LaunchError where the agents are of another version: all that answer, for one alone may be broken.

    They must not be taken for silent ones. A run that is to end needs no status of its agents.
    """
    if run.wanted is Wanted.NOTHING:
        return
    wrong = [mismatch(reply["protocol"]) for reply in told if "protocol" in reply]
    if wrong and all(wrong):
        raise LaunchError(f"agents of run `{run.name}`: {wrong[0]}", hints=(OTHER_VERSION,))


def _has_agent(view: NodeView | None) -> bool:
    return isinstance(view, Seen) and view.agent is not None


def _reached(views: Mapping[NodeName, NodeView], told: Mapping[NodeName, StatusReply]) -> dict[NodeName, Reached]:
    """Return the probes of unseen nodes.

    Where two agents disagree, the one counts that got an answer.
    """
    found: dict[NodeName, Reached] = {}
    for by, reply in told.items():
        for name, answers in reply.get("reachable", {}).items():
            node = NodeName(name)
            if isinstance(views.get(node), Unseen) and (answers or node not in found):
                found[node] = Reached(by=by, answers=answers)
    return found
