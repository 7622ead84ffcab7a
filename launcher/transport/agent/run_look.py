"""The looks at one run: what the head's agent tells of the nodes, and what nodes reply that are asked directly.

Each look asks the head's agent what has changed, and at the same time the nodes that are in doubt; then those that turn
out to be in doubt by what the head has told.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import NodeView
from launcher.core.model.run import Run
from launcher.runtime.protocol import StatusReply, StatusRequest, ViewsRequest
from launcher.runtime.protocol_views import CALM_S
from launcher.transport.agent import decode
from launcher.transport.agent.addresses import Addresses
from launcher.transport.agent.direct import SILENT_S, DirectQuestions
from launcher.transport.agent.poller import LookRequest
from launcher.transport.agent.stream import HeadStream, StreamedStatus
from launcher.transport.agent.unit_view import KEPT_S, UnitStanding

TOPIC = "#nodes"
"""Beside the look at the head itself, whose supervisor may be slow."""

PARTS = 32
"""How often the head's agent is asked in one look for what is left: it tells some MiB at a time."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a look was told: by the head's agent of itself, and by nodes directly.

    `streamed` are the nodes that are shown by the head's word.
    """

    head: StatusReply
    direct: Mapping[NodeName, StatusReply]
    streamed: frozenset[NodeName]


class RunLook:
    """Looks at one run while its head is in one place."""

    def __init__(self, run: Run, addresses: Addresses, clock: Callable[[], float]) -> None:
        self._poller = addresses.poller
        self._addresses = addresses
        self._clock = clock
        self._place = run.head
        self.head = addresses.head(run)
        self._stream = HeadStream((), clock)
        self._taken = -math.inf
        self._silent = False
        self._asked: dict[NodeName, float] = {}
        self._wanted: set[NodeName] = set()
        self._known: dict[NodeName, tuple[StreamedStatus, tuple[object, ...], NodeView]] = {}
        self._follow(run)

    def _follow(self, run: Run) -> None:
        self._run = run
        self._clients = {node.name: self._addresses.slot(run, node.name) for node in run.fleet.nodes}
        self.names = tuple(self._clients)
        self._stream.nodes = frozenset(self.names)
        self._questions = DirectQuestions(self.names, self._clock())
        limits = [group.recovery.hang_after for group in run.task.groups]
        self._exact = any(limit is not None and limit < CALM_S for limit in limits)

    def keep_up(self, run: Run) -> bool:
        """Take in the nodes that a run has now; return whether its head is where it was."""
        if self._run.fleet is not run.fleet or self._run.task is not run.task:
            self._follow(run)
        return self._place == run.head

    def warnings(self) -> tuple[str, ...]:
        """Return what people should know, once."""
        found, self._stream.warnings = tuple(self._stream.warnings), []
        return found

    def look(self, requests: Mapping[NodeName, StatusRequest], of_head: StatusRequest) -> Told:
        """Return the newest reply of the head's agent, and of each node that has one of its own or none at all."""
        begun = self._clock()
        direct = self._doubtful()
        direct |= {name for name, request in requests.items() if "probe" in request}
        self._ask_in_turn(direct, requests, begun)
        head = self._ask(direct, requests, of_head)
        self._silent = self._clock() - self._stream.asked > SILENT_S
        late = self._doubtful() - direct
        if late:
            self._poller.look([self._clients[name] for name in late], [requests[name] for name in late])
        self._asked.update(dict.fromkeys(direct | late, begun))
        self._questions.note(direct | late, begun)
        self._compare()
        return self._choose(head)

    def also_ask(self, node: NodeName) -> None:
        """Ask a node directly with the next look: there is a connection anyway."""
        self._wanted.add(node)

    def _ask_in_turn(
        self, direct: Collection[NodeName], requests: Mapping[NodeName, StatusRequest], begun: float
    ) -> None:
        """Ask nodes that nobody waits for; their replies are compared with what the head says once they are there."""
        wanted, self._wanted = self._wanted & self._clients.keys(), set()
        names = [name for name in {*self._questions.due(begun), *wanted} if name not in direct]
        self._poller.begin([self._clients[name] for name in names], [requests[name] for name in names])
        self._asked.update(dict.fromkeys(names, begun))
        self._questions.note(names, begun)

    def _doubtful(self) -> set[NodeName]:
        standings = self._poller.standing(list(self._clients.values()))
        return self._questions.doubtful(self._stream, standings, silent=self._silent or self._exact)

    def _ask(
        self, direct: Collection[NodeName], requests: Mapping[NodeName, StatusRequest], of_head: StatusRequest
    ) -> StatusReply:
        """Ask the head's agent and some nodes; return what the head's agent says of itself."""
        stream = replace(self.head, topic=TOPIC)
        asked: list[LookRequest] = [*(requests[name] for name in direct), self._since(), of_head]
        *_, told, head = self._poller.look([*(self._clients[name] for name in direct), stream, self.head], asked)
        for _ in range(PARTS):
            ((of, *_),) = self._poller.standing([stream])
            # The last reply may be shown again, and what it says of the nodes is of its own time.
            if "views" not in told or of <= self._taken:
                break
            self._taken = of
            if not self._stream.take(told["views"], of):
                break
            (told,) = self._poller.look([stream], [self._since()])
        return head

    def _since(self) -> ViewsRequest:
        return {"op": "views", "since": self._stream.position}

    def _compare(self) -> None:
        """Compare the replies that have come since the last look."""
        names = [name for name in self._asked if name in self._clients]
        for name, unit in zip(names, self._poller.standing([self._clients[name] for name in names]), strict=True):
            if unit.of >= self._asked[name]:
                del self._asked[name]
                reply = self._poller.newest(self._clients[name])
                self._questions.settle(name, reply)
                self._stream.compare(name, reply, unit.of)

    def _choose(self, head: StatusReply) -> Told:
        """Return which word counts for each node: the newest one that is not older than the last action."""
        now, own, streamed = self._clock(), list[NodeName](), list[NodeName]()
        for name, unit in zip(self.names, self._poller.standing(list(self._clients.values())), strict=True):
            (streamed if self._is_streamed(name, unit, now) else own).append(name)
        direct = {name: self._poller.newest(self._clients[name]) for name in own}
        return Told(head=head, direct=direct, streamed=frozenset(streamed))

    def _is_streamed(self, name: NodeName, unit: UnitStanding, now: float) -> bool:
        """Whether a node is shown by the head's word.

        One whose own word is missing is: what the head says of it, however old that is, until we have asked it.
        """
        status = self._stream.status(name)
        if status is None:
            return False
        at = self._stream.confirmed(name)
        own = unit.of if unit.of >= unit.touched and now - unit.of <= KEPT_S else -math.inf
        if own > -math.inf and self._stream.is_ahead(name):
            return True
        if at <= unit.touched or unit.failing >= KEPT_S or own >= at:
            return False
        return now - at <= KEPT_S or (own == -math.inf and not unit.missed)

    def views(self, told: Told, head: str, *, ending: bool) -> dict[NodeName, NodeView]:
        """Return the view of each node."""
        return {
            name: self._streamed_view(name, head, ending=ending)
            if name in told.streamed
            else decode.node_view(told.direct[name], head=head, ending=ending)
            for name in self.names
        }

    def _streamed_view(self, name: NodeName, head: str, *, ending: bool) -> NodeView:
        """Return the view of a status, which is the same object while nothing in it changes."""
        status = self._stream.status(name)
        assert status is not None
        fresh = self._clock() - self._stream.confirmed(name) <= KEPT_S
        how, known = (fresh, head, ending), self._known.get(name)
        if known is not None and known[0] is status and known[1] == how and status.constant:
            return known[2]
        reply = self._questions.with_texts(name, status, self._stream.reply(name))
        view = decode.node_view(reply, head=head, ending=ending)
        self._known[name] = (status, how, view)
        return view
