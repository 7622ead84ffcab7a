"""What the head's agent says of the nodes of a run, and why it may be shown.

In a steady run the launcher asks the head's agent alone: it hears every node twice a second, and has their newest
statuses (`runtime/status_board.py`). That is the word of one machine, so:

* A status comes from the node that it is about, over a connection on which the node has proven itself to the head. It
  is read as strictly as one that comes directly.
* It is shown for as long as a direct reply would be. A node whose status is older, odd or missing is asked directly,
  and so is one whose status says that something has ended (`direct.py`). Only our own question can miss a node.
* Each status has a version, which the agent of a node raises with each change, and which direct replies carry, too. So
  a status is never shown once the node itself has given a later one.
* Some nodes are asked directly in each look, in turn. Where such a reply and the head contradict each other, by more
  than the age that the head gives, the head lies or lags: nothing of it is used for `DISTRUST_S`, and people are told.

Times are of the launcher's own monotonic clock, and lower bounds: the head says how old a status was when it answered,
and it answered after it was asked.
"""

import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

from launcher.core.model.nodeset import NodeName
from launcher.runtime.protocol import StatusReply
from launcher.runtime.protocol_views import CALM_S, DIRECT, FRESH_S, GONE, NodeStatusRow, NodeViews, lasting, unpacked
from launcher.transport.agent import replies
from launcher.transport.agent.unit_view import KEPT_S

DISTRUST_S = 300.0
"""Seconds for which all nodes are asked directly once the head has contradicted one; twice as long each time."""

MOST_DOUBLED = 5


@dataclass(frozen=True, slots=True)
class StreamedStatus:
    """A status that came through the head.

    It was made at `made` or later, and came at `taken`. `steady`: nothing has ended or failed on its node. `constant`:
    nothing in it grows with time.
    """

    reply: StatusReply
    version: tuple[str, int]
    made: float
    taken: float
    steady: bool
    constant: bool


@dataclass(frozen=True, slots=True)
class _DirectReply:
    """The version in the last direct reply of a node, and when that came."""

    version: tuple[str, int]
    came: float


class HeadStream:
    """The statuses of one run's nodes, as its head's agent has told them.

    `nodes` are those of the run now. `asked` is when it was asked for what it told last; `warnings` are for people.
    """

    def __init__(self, nodes: Collection[NodeName], clock: Callable[[], float] = time.monotonic) -> None:
        self.nodes = frozenset(nodes)
        self._clock = clock
        self._epoch, self._number = "", 0
        self.asked = -math.inf
        self._late: Mapping[str, float] = {}
        self._rows: dict[NodeName, StreamedStatus] = {}
        self._direct: dict[NodeName, _DirectReply] = {}
        self._unchecked: set[NodeName] = set()
        self._contradicted, self._distrusted_until = 0, -math.inf
        self.warnings: list[str] = []

    @property
    def position(self) -> tuple[str, int]:
        """Return up to which change of which epoch everything is known."""
        return self._epoch, self._number

    @property
    def is_trusted(self) -> bool:
        """Whether statuses of the head may be shown."""
        return self._clock() >= self._distrusted_until

    def status(self, node: NodeName) -> StreamedStatus | None:
        """Return the newest status of a node; None where there is none, or the node itself has given a later one."""
        found, direct = self._rows.get(node), self._direct.get(node)
        return None if found is None or (direct and _is_older(found.version, direct.version)) else found

    def is_ahead(self, node: NodeName) -> bool:
        """Whether the status of a node is a later one than its last direct reply."""
        found, direct = self._rows.get(node), self._direct.get(node)
        return found is not None and direct is not None and _is_older(direct.version, found.version)

    def confirmed(self, node: NodeName) -> float:
        """Return a time at which or after which the status of a node was still its newest one."""
        return self.asked - self._late.get(node, FRESH_S)

    def unconfirmed(self, node: NodeName) -> float:
        """Return for how long the status of a node had not been confirmed when the head answered (s), at most."""
        return self._late.get(node, FRESH_S)

    def reply(self, node: NodeName) -> StatusReply:
        """Return the status of a node as a reply made now: what grows with time has grown.

        The head hears a node whose status it confirms, so that node hears the head.
        """
        found, now = self._rows[node], self._clock()
        reply = aged(found.reply, max(0.0, now - found.made), calm=CALM_S)
        reply["head_silence"] = reply["head_unheard"] = FRESH_S if now - self.confirmed(node) <= KEPT_S else None
        return reply

    def take(self, views: NodeViews, asked: float) -> bool:
        """Take in what the head told when it was asked at `asked`; return whether there is more to ask for."""
        now = self._clock()
        if not self.is_trusted:
            return False
        if views["epoch"] != self._epoch:
            self._rows.clear()
        self._epoch, self._number = views["epoch"], views["number"]
        for row in views["rows"]:
            node = NodeName(row["name"])
            if node in self.nodes:
                found = _read(row, asked, now)
                self._rows.pop(node, None) if found is None else self._rows.update({node: found})
        if not views["more"]:
            self.asked, self._late = max(self.asked, asked), views["late"]
            self._check_lag()
        return views["more"]

    def _check_lag(self) -> None:
        """Check that the head has what nodes said directly before the time that it vouches for."""
        for node in tuple(self._unchecked):
            if not self.is_trusted:
                return
            found, direct = self._rows.get(node), self._direct[node]
            if found is None or self.confirmed(node) <= direct.came:
                continue
            self._unchecked.discard(node)
            if _is_older(found.version, direct.version):
                self._distrust(node, "vouches for a status that the node has replaced")

    def compare(self, node: NodeName, reply: StatusReply, asked: float) -> None:
        """Compare the direct reply of a node, which was asked at `asked`, with what the head says of it."""
        version = reply.get("version")
        if version is None and reply["ok"]:
            # There is no agent any more: what the head has of it is not ahead of that.
            self._direct.pop(node, None)
            self._unchecked.discard(node)
        if version is None or not self.is_trusted:
            return
        found, former = self._rows.get(node), self._direct.get(node)
        if found is not None and found.version == version and facts(found.reply) != facts(reply):
            self._distrust(node, "changed a status on its way")
        elif found is not None and found.taken < asked and _is_older(version, found.version):
            self._distrust(node, "has a status that the node has never had")
        elif (
            found is not None
            and former is not None
            and found.version[0] != version[0] == former.version[0]
            and found.taken < asked
            and self.confirmed(node) > former.came
        ):
            self._distrust(node, "has the status of another agent")
        self._direct[node] = _DirectReply(version, self._clock())
        self._unchecked.add(node)

    def _distrust(self, node: NodeName, what: str) -> None:
        lasts = DISTRUST_S * 2**self._contradicted
        how = f"for {lasts / 60:.0f} minutes all nodes are asked directly"
        self.warnings.append(f"the head's agent {what} (`{node}`): {how}")
        self._contradicted = min(self._contradicted + 1, MOST_DOUBLED)
        self._distrusted_until = self._clock() + lasts
        self._epoch, self._number, self.asked = "", 0, -math.inf
        self._rows.clear()
        self._unchecked.clear()


def _read(row: NodeStatusRow, asked: float, now: float) -> StreamedStatus | None:
    """Return the status in a row; None where there is none, and its node has to be asked."""
    if row["data"] in (GONE, DIRECT):
        return None
    try:
        reply = replies.read(StatusReply, replies.parse(unpacked(row["data"])))
    except ValueError:
        return None
    version = reply.get("version")
    if version is None or not reply["ok"]:
        return None
    for name in ("reachable", "heartbeat_ages", "listening", "supervisor", "views"):  # never what others say
        cast("dict[str, Any]", reply).pop(name, None)
    grows = any(
        "ended_ago" in one or one.get("quiet", 0.0) >= CALM_S or "unready" in one for one in reply.get("ranks", ())
    )
    made = asked - max(0.0, row["made"])
    return StreamedStatus(reply, version, made, now, steady=is_steady(reply), constant=not grows)


def is_steady(reply: StatusReply) -> bool:
    """Whether nothing has ended or failed on a node, and nothing is being made there."""
    ray, setup = reply.get("ray"), reply.get("setup")
    return (
        ray is not None
        and ray["phase"] == "running"
        and setup is not None
        and setup["phase"] in ("done", "absent")
        and all(rank["running"] for rank in reply.get("ranks", ()))
        and not any(row["message"] for row in reply.get("mounts", ()))
        and "fault" not in reply
        and "images" not in reply
    )


def _is_older(one: tuple[str, int], other: tuple[str, int]) -> bool:
    """Whether a version is known to be older than another: those of two agents cannot be compared."""
    return one[0] == other[0] and one[1] < other[1]


def facts(reply: StatusReply) -> dict[str, Any]:
    """Return what of a reply changes only by an event."""
    return lasting(cast("dict[str, Any]", reply))


def aged(reply: StatusReply, age: float, *, calm: float = math.inf) -> StatusReply:
    """Return a copy that may be added to, of a reply that is so old (s): what ended is longer ago by that.

    So is the last output of a rank that has been quiet for `calm` seconds. The original is returned again later.
    """
    copy = reply.copy()
    if "ranks" in copy:
        copy["ranks"] = [rank.copy() for rank in copy["ranks"]]
    for rank in copy.get("ranks", ()):
        if "ended_ago" in rank:
            rank["ended_ago"] += age
        if rank.get("quiet", 0.0) >= calm:
            rank["quiet"] += age
        if calm < math.inf and rank.get("unready"):
            rank["unready"] += age
    if "supervisor" in copy:
        copy["supervisor"] = copy["supervisor"].copy()
    return copy
