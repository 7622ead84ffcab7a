"""Which nodes a look asks directly, although the head's agent tells of them.

Nodes in doubt, those with something under way, those that probe others, and a few in turn.
"""

import random
from collections.abc import Iterable, Sequence
from typing import cast

from launcher.core.model.nodeset import NodeName
from launcher.runtime.protocol import RankStatusRow, StatusReply
from launcher.transport.agent.stream import HeadStream, StreamedStatus, facts
from launcher.transport.agent.unit_view import UnitStanding

DOUBT_S = 2.0
"""Seconds without a confirmation of its status after which a node is asked directly: three heartbeats, and the quarter
of a second to which the head's agent knows when they came. It has a second to reply until its last status is 3 s old,
and it is unseen, as if it was always asked."""

SILENT_S = 2.5
"""Seconds without an answer of the head's agent after which all nodes are asked: two looks."""

CROWD = 64
"""Nodes that are asked in one look because an action on them has ended, or something of their programs has: more at
once, as at the start of a gang, are waited for at the head, which has their news within a second."""

SMALL = 100
SMALL_S = 20.0
"""So many nodes at least are asked in turn within so many seconds: their connections stay open."""

TURN_S = 300.0
"""Seconds within which each node is asked in turn, where that is no more than `MOST_A_SECOND`."""

MOST_A_SECOND = 10.0
"""Nodes that are asked in turn each second: a new connection takes some 15 ms of CPU here. As many are asked for their
health (`drive/health_polling.MOST_A_SECOND`); those are asked over the same connection, and are not asked again."""

MOST_OF_A_ROUND = 0.95
"""The part of a round in which nobody is asked in turn who was asked anyway."""


class Turns:
    """Nodes in turn, in an order of each round that nobody knows before; not those that were asked in between."""

    def __init__(self, nodes: Sequence[NodeName], now: float) -> None:
        self._nodes = nodes
        count = len(nodes)
        self._rate = max(min(count, SMALL) / SMALL_S, min(count / TURN_S, MOST_A_SECOND))
        self._recent = MOST_OF_A_ROUND * count / self._rate if count else 0.0
        self._left: list[NodeName] = []
        self._asked: dict[NodeName, float] = {}
        self._owed, self._at = 0.0, now

    def note(self, node: NodeName, now: float) -> None:
        """Take note that a node is asked directly."""
        self._asked[node] = now

    def due(self, now: float) -> list[NodeName]:
        """Return the nodes whose turn has come since the last call."""
        self._owed = min(self._owed + (now - self._at) * self._rate, len(self._nodes), 4 * self._rate + 1)
        self._at = now
        found: list[NodeName] = []
        while self._owed >= 1:
            self._owed -= 1
            if not self._left:
                self._left = random.sample(self._nodes, len(self._nodes))
            node = self._left.pop()
            if now - self._asked.get(node, -self._recent) >= self._recent:
                found.append(node)
        return found


class DirectQuestions:
    """Chooses the nodes of one run that are asked directly."""

    def __init__(self, nodes: Sequence[NodeName], now: float) -> None:
        self._nodes = nodes
        self._turns = Turns(nodes, now)
        self._settled: dict[NodeName, StatusReply] = {}
        self._known: dict[NodeName, StreamedStatus] = {}

    def due(self, now: float) -> list[NodeName]:
        """Return the nodes whose turn has come."""
        return self._turns.due(now)

    def note(self, nodes: Iterable[NodeName], now: float) -> None:
        """Take note that nodes are asked directly."""
        for node in nodes:
            self._turns.note(node, now)

    def settle(self, node: NodeName, reply: StatusReply) -> None:
        """Take note of a direct reply: what it says need not be asked for again."""
        if "version" in reply:
            self._settled[node] = reply

    def _is_settled(self, node: NodeName, status: StreamedStatus) -> bool:
        """Whether the node itself has said the same last."""
        own = self._settled.get(node)
        if self._known.get(node) is not status and own is not None and facts(own) == facts(status.reply):
            self._known[node] = status
        return self._known.get(node) is status

    def with_texts(self, node: NodeName, status: StreamedStatus, reply: StatusReply) -> StatusReply:
        """Return a reply that came through the head with the texts of what the node itself has said of the same."""
        own = self._settled.get(node)
        if status.steady or own is None or not self._is_settled(node, status):
            return reply
        ranks = [_with_tail(rank, one) for rank, one in zip(reply.get("ranks", ()), own.get("ranks", ()), strict=True)]
        texts = {name: own[name] for name in ("ray", "setup", "mounts", "fault") if name in own}
        return cast("StatusReply", {**reply, **texts, "ranks": ranks})

    def doubtful(self, stream: HeadStream, standings: Sequence[UnitStanding], *, silent: bool) -> set[NodeName]:
        """Return the nodes to ask, by what is known; `silent`: the head's agent does not answer."""
        if silent:
            return set(self._nodes)
        asked: set[NodeName] = set()
        touched: list[NodeName] = []
        news: list[NodeName] = []
        for node, unit in zip(self._nodes, standings, strict=True):
            status = stream.status(node)
            if status is None or unit.acting or unit.failing or stream.unconfirmed(node) > DOUBT_S:
                asked.add(node)
            elif unit.touched > unit.of and unit.touched > stream.confirmed(node) - DOUBT_S:
                touched.append(node)
            elif not status.steady and not self._is_settled(node, status):
                news.append(node)
        asked.update(news[:CROWD])
        if len(touched) <= CROWD:
            asked.update(touched)
        return asked


def _with_tail(rank: RankStatusRow, own: RankStatusRow) -> RankStatusRow:
    return {**rank, "tail": own["tail"]} if "tail" in own else rank
