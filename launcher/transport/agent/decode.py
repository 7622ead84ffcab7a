"""Status replies of agents as the types of an observation.

Their fields have the right types (`replies.py`). Where one is missing, or its value is none that we know, the node is
unseen, and the message says why.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

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
    RankStep,
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
    ProgramStatus,
    RankStatusRow,
    StatusReply,
    TablesReply,
    mismatch,
)
from launcher.runtime.protocol_files import (
    NODE_ERRORS,
    StepStatus,
    described,
)
from launcher.runtime.protocol_ray import BundleStatus, GroupStatus, RayNodeStatus
from launcher.transport.agent.replies import OddReplyError

SHOWN_S = 4.0
"""How long a silent unit is shown as it was (s), at most (`unit_view.KEPT_S` and a look): more takes looks to tell."""

LONGEST = 500
"""Characters of a fault that are shown: a path may be long."""

_NO_TABLES: TablesReply = {"ok": False}
_STATES = {state.value for state in GroupState}

T = TypeVar("T")


def node_view(reply: StatusReply, *, head: str | None = None, ending: bool = False) -> NodeView:
    """Return the view of a node; of a run that is `ending`, an agent of another version counts as one.

    `head` is the address of the head's machine: what an agent that follows another head says of that one is dropped.
    """
    return _whole(lambda: _node_view(reply, head, ending=ending))


def _node_view(reply: StatusReply, head: str | None, *, ending: bool) -> NodeView:
    if wrong := mismatch(reply.get("protocol", PROTOCOL)):
        return Seen(agent=AgentReport()) if ending else Unseen(message=f"odd reply: {wrong}", odd=True)
    if not reply["ok"]:
        return _unseen(reply)
    if not reply.get("agent"):
        return Seen(leftovers=reply.get("leftovers", 0))
    follows = reply.get("followed") in (None, head)  # an agent of 0.4 does not say
    agent = AgentReport(
        setup=step(reply["setup"]),
        ray=step(reply["ray"]),
        ranks=tuple(_rank(rank) for rank in reply["ranks"]),
        head_silent=reply.get("head_silence") if follows else None,
        head_unheard=reply.get("head_unheard") if follows else None,
        head_bound=reply.get("head_bound", False),
        fault=_fault(reply),
        mounts=tuple(f"{row['to']}: {row['message']}"[:LONGEST] for row in reply.get("mounts", ()) if row["message"]),
    )
    return Seen(agent=agent)


def _unseen(reply: StatusReply) -> Unseen:
    refusal = Refusal.__members__.get(reply.get("refusal", ""))
    silent = min(max(0.0, reply.get("silent", 0.0)), SHOWN_S)
    return Unseen(message=reply.get("message", ""), refusal=refusal, odd=reply.get("odd", False), silent=silent)


def _whole(view: Callable[[], T]) -> T | Unseen:
    try:
        return view()
    except KeyError as error:
        return Unseen(message=f"odd reply: no `{error.args[0]}`", odd=True)
    except OddReplyError as error:
        return Unseen(message=f"odd reply: {error}", odd=True)


def head_view(reply: StatusReply, nodes_of_run: Iterable[NodeName], *, ending: bool = False) -> HeadView:
    """Return the view of the head.

    A node without a heartbeat has been silent for as long as the head has listened: nothing is started on a node for a
    head before the head's machine answered it.
    """
    return _whole(lambda: _head_view(reply, nodes_of_run, ending=ending))


def _head_view(reply: StatusReply, nodes_of_run: Iterable[NodeName], *, ending: bool) -> HeadView:
    if wrong := mismatch(reply.get("protocol", PROTOCOL)):
        return HeadSeen(head=Head()) if ending else Unseen(message=f"odd reply: {wrong}", odd=True)
    if not reply["ok"]:
        return _unseen(reply)
    if not reply.get("agent"):
        return HeadSeen(leftovers=reply.get("leftovers", 0))
    tables = reply.get("supervisor", _NO_TABLES)
    known: Mapping[str, float] = reply.get("heartbeat_ages", {})
    heard = {name: known.get(name, reply["listening"]) for name in nodes_of_run} if "listening" in reply else {}
    if not tables["ok"]:
        return HeadSeen(head=Head(ray=step(reply["ray"]), heard=heard, fault=_fault(reply)))
    nodes = tuple(_ray_node(row) for row in tables.get("nodes", ()))
    groups = tuple(_group(row) for row in tables.get("groups", ()))
    head = Head(
        ray=step(reply["ray"]),
        ready=tables.get("ready", False),
        nodes=nodes,
        groups=groups,
        pending=tuple(tables.get("pending", ())),
        dashboard=tables.get("dashboard"),
        heard=heard,
        fault=_fault(reply),
    )
    return HeadSeen(head=head)


def _fault(reply: StatusReply) -> str:
    """Return what a node says of its own fault; empty for none, or one that we do not know."""
    fault = reply.get("fault")
    return described(fault)[:LONGEST] if fault is not None and fault["errno"] in NODE_ERRORS else ""


def step(row: ProgramStatus) -> Step:
    """Return how a program stands that an agent watches."""
    return Step(
        phase=Phase(row["phase"]),
        exit_code=row.get("exit_code"),
        tail=tuple(row.get("tail", ())),
        generation=row.get("generation", 0),
        message=row.get("message", ""),
        copied=max(0, row.get("copied", 0)),
        to_copy=max(0, row.get("to_copy", 0)),
    )


def _rank(row: RankStatusRow) -> RankReport:
    return RankReport(
        member=MemberName(row["member"]),
        attempt=row["attempt"],
        running=row["running"],
        exit_code=row.get("exit_code"),
        ended_ago=row.get("ended_ago"),
        tail=tuple(row.get("tail", ())),
        quiet=row.get("quiet", 0.0),
        step=_step(row.get("step")),
        ready=row.get("ready"),
        unready=row.get("unready", 0.0),
    )


def _step(row: StepStatus | None) -> RankStep | None:
    return None if row is None else RankStep(step=row["step"], over=row["over"], own=row.get("own"))


def _ray_node(row: RayNodeStatus) -> RayNode:
    return RayNode(slot=row["slot"], generation=row["generation"], domain=row["domain"], alive=row["alive"])


def _group(row: GroupStatus) -> GroupReport:
    if row["state"] not in _STATES:
        raise OddReplyError(f"a group is in the unknown state `{row['state']}`")
    return GroupReport(
        slice=row["slice"], state=GroupState(row["state"]), hint=row["hint"], bundles=bundles(row["bundles"])
    )


def bundles(rows: Sequence[BundleStatus]) -> tuple[Bundle, ...]:
    """Return where Ray has the bundles of a group."""
    return tuple(
        Bundle(index=row["index"], slot=row["slot"], domain=row["domain"], generation=row["generation"]) for row in rows
    )
