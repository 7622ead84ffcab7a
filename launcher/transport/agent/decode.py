"""Status replies of agents as the types of an observation."""

from collections.abc import Iterable, Mapping, Sequence

from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import (
    AgentReport,
    GroupReport,
    GroupState,
    Head,
    HeadSeen,
    HeadView,
    NodeView,
    Phase,
    RankReport,
    RayNode,
    Refusal,
    Seen,
    Step,
    Unseen,
)
from launcher.core.model.receipt import Bundle
from launcher.core.model.run import MemberName
from launcher.runtime.protocol import (
    PROTOCOL,
    BundleStatus,
    GroupStatus,
    ProgramStatus,
    RankStatusRow,
    RayNodeStatus,
    StatusReply,
    TablesReply,
)

_NO_TABLES: TablesReply = {"ok": False}


def node_view(reply: StatusReply) -> NodeView:
    """Return the view of a node."""
    if reply.get("protocol", PROTOCOL) != PROTOCOL:
        return Seen(agent=AgentReport())  # of another version, where the run is to end
    if not reply["ok"]:
        return _unseen(reply)
    if not reply.get("agent"):
        return Seen(leftovers=reply.get("leftovers", 0))
    agent = AgentReport(
        setup=step(reply["setup"]),
        ray=step(reply["ray"]),
        ranks=tuple(_rank(rank) for rank in reply["ranks"]),
        head_silent=reply.get("head_silence"),
        head_unheard=reply.get("head_unheard"),
    )
    return Seen(agent=agent)


def head_view(reply: StatusReply, nodes_of_run: Iterable[NodeName]) -> HeadView:
    """Return the view of the head.

    A node without a heartbeat has been silent for as long as the head has listened: nothing is started on a node for a
    head before the head's machine answered it.
    """
    if reply.get("protocol", PROTOCOL) != PROTOCOL:
        return HeadSeen(head=Head())
    if not reply["ok"]:
        return _unseen(reply)
    if not reply.get("agent"):
        return HeadSeen(leftovers=reply.get("leftovers", 0))
    tables = reply.get("supervisor", _NO_TABLES)
    known: Mapping[str, float] = reply.get("heartbeat_ages", {})
    heard = {name: known.get(name, reply["listening"]) for name in nodes_of_run} if "listening" in reply else {}
    if not tables["ok"]:
        return HeadSeen(head=Head(ray=step(reply["ray"]), heard=heard))
    nodes = tuple(_ray_node(row) for row in tables.get("nodes", ()))
    groups = tuple(_group(row) for row in tables.get("groups", ()))
    asked = tuple(tables.get("pending", ()))
    head = Head(ray=step(reply["ray"]), ready=tables["ready"], nodes=nodes, groups=groups, pending=asked, heard=heard)
    return HeadSeen(head=head)


def _unseen(reply: StatusReply) -> Unseen:
    refusal = Refusal.__members__.get(reply.get("refusal", ""))
    return Unseen(message=reply.get("message", ""), refusal=refusal)


def step(row: ProgramStatus) -> Step:
    """Return how a program stands that an agent watches."""
    return Step(
        phase=Phase(row["phase"]),
        exit_code=row.get("exit_code"),
        tail=tuple(row.get("tail", ())),
        generation=row.get("generation", 0),
        message=row.get("message", ""),
    )


def _rank(row: RankStatusRow) -> RankReport:
    return RankReport(
        member=MemberName(row["member"]),
        attempt=row["attempt"],
        running=row["running"],
        exit_code=row.get("exit_code"),
        at=row.get("at", 0.0),
        tail=tuple(row.get("tail", ())),
        quiet=row.get("quiet", 0.0),
    )


def _ray_node(row: RayNodeStatus) -> RayNode:
    return RayNode(slot=row["slot"], generation=row["generation"], domain=row["domain"], alive=row["alive"])


def _group(row: GroupStatus) -> GroupReport:
    return GroupReport(
        slice=row["slice"], state=GroupState(row["state"]), hint=row["hint"], bundles=bundles(row["bundles"])
    )


def bundles(rows: Sequence[BundleStatus]) -> tuple[Bundle, ...]:
    """Return where Ray has the bundles of a group."""
    return tuple(
        Bundle(index=row["index"], slot=row["slot"], domain=row["domain"], generation=row["generation"]) for row in rows
    )
