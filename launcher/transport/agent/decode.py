"""An agent's answers as the types of the observation."""

from collections.abc import Iterable, Mapping
from typing import Any

from launcher.core.model.actions import Bundle
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
    Seen,
    Step,
    Unseen,
)
from launcher.core.model.run import MemberName

Json = dict[str, Any]


def node_view(answer: Json) -> NodeView:
    """Return what a node's agent says, or that there is none."""
    if not answer["ok"]:
        return Unseen(message=answer["message"])
    if not answer.get("agent"):
        return Seen(leftovers=answer.get("leftovers", 0))
    ranks = tuple(_rank(rank) for rank in answer["ranks"])
    agent = AgentReport(
        setup=step(answer["setup"]), ray=step(answer["ray"]), ranks=ranks, head_silent=answer.get("head_silent")
    )
    return Seen(agent=agent)


def head_view(answer: Json, nodes_of_run: Iterable[NodeName]) -> HeadView:
    """Return what the agent of the head says, or that there is none. A node that it never heard has been silent for as
    long as it has listened: nothing of a head is started on a node before the head's host was heard there."""
    if not answer["ok"]:
        return Unseen(message=answer["message"])
    if not answer.get("agent"):
        return HeadSeen(leftovers=answer.get("leftovers", 0))
    told = answer.get("supervisor", {})
    known: Mapping[str, float] = answer.get("heard", {})
    heard = {name: known.get(name, answer["listening"]) for name in nodes_of_run} if "listening" in answer else {}
    if not told.get("ok"):
        return HeadSeen(head=Head(ray=step(answer["ray"]), heard=heard))
    nodes = tuple(_ray_node(row) for row in told.get("nodes", ()))
    groups = tuple(_group(row) for row in told.get("groups", ()))
    head = Head(ray=step(answer["ray"]), ready=told["ready"], nodes=nodes, groups=groups, heard=heard)
    return HeadSeen(head=head)


def step(row: Json) -> Step:
    """Return where a program stands that an agent watches."""
    return Step(
        phase=Phase(row["phase"]),
        exit_code=row.get("exit_code"),
        tail=tuple(row.get("tail", ())),
        generation=row.get("generation", 0),
        message=row.get("message", ""),
    )


def _rank(row: Json) -> RankReport:
    return RankReport(
        member=MemberName(row["member"]),
        attempt=row["attempt"],
        running=row["running"],
        exit_code=row.get("exit_code"),
        at=row.get("at", 0.0),
        tail=tuple(row.get("tail", ())),
        quiet=row.get("quiet", 0.0),
    )


def _ray_node(row: Json) -> RayNode:
    return RayNode(slot=row["slot"], generation=row["generation"], domain=row["domain"], alive=row["alive"])


def _group(row: Json) -> GroupReport:
    return GroupReport(
        slice=row["slice"], state=GroupState(row["state"]), hint=row["hint"], bundles=bundles(row["bundles"])
    )


def bundles(rows: list[Json]) -> tuple[Bundle, ...]:
    """Return where Ray says the bundles of a group are."""
    return tuple(
        Bundle(index=row["index"], slot=row["slot"], domain=row["domain"], generation=row["generation"]) for row in rows
    )
