"""The status of a run, for people and scripts: a snapshot, made each tick."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest

from launcher.core.control.conditions import Condition
from launcher.core.control.reconcile import Decision
from launcher.core.model.dashboard import describe_dashboard
from launcher.core.model.inventory import Node, RackName
from launcher.core.model.nodeset import NodeName
from launcher.core.model.record import Outcome, Record
from launcher.core.model.run import Cause, Member, Run, RunId, RunName, RunState
from launcher.core.model.run_index import index_of


class RankState(Enum):
    """The state of one rank. `ended`: with its run, before it finished by itself."""

    WAITING = "waiting"
    PREPARING = "preparing"
    JOINING = "joining"
    RUNNING = "running"
    SUSPECT = "suspect"
    LOST = "lost"
    ENDED = "ended"
    FINISHED = "finished"
    FAILED = "failed"


_RANK_STATES = {
    Condition.FINISHED: RankState.FINISHED,
    Condition.FAILED: RankState.FAILED,
    Condition.NODE_FAILED: RankState.LOST,
    Condition.FENCING: RankState.LOST,
    Condition.DOWN: RankState.LOST,
    Condition.SUSPECT: RankState.SUSPECT,
    Condition.UNSEEN: RankState.SUSPECT,
    Condition.LOST: RankState.LOST,
    Condition.ABSENT: RankState.WAITING,
    Condition.LEASED: RankState.WAITING,
    Condition.PREPARING: RankState.PREPARING,
    Condition.PREPARED: RankState.PREPARING,
    Condition.JOINING: RankState.JOINING,
    Condition.READY: RankState.JOINING,
    Condition.SERVING: RankState.RUNNING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStatus:
    """One rank: its node and its state; `ready` whether its server is, None where it is not asked."""

    group: str
    slice: int
    rank: int
    node: NodeName
    rack: RackName
    domain: str | None
    state: RankState
    exit_code: int | None
    ready: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpareStatus:
    """A spare node of a slice."""

    slice: str
    node: NodeName
    rack: RackName


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSlices:
    """How many slices a group has, and may have; `reason` says why it has fewer than the most.

    `reason` is None if the run began with fewer, or has all.
    """

    group: str
    slices: int
    min_slices: int
    max_slices: int
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """A run as of `observed_at` (s since the epoch, as all times here).

    `drained` are nodes without a rank that are kept for the run until they return to service.

    `since` is when it came into this state, `ends_at` when its `time_limit` is over, once ranks have started. `slices`
    has the groups with a range of slices. `workdir` is the git repository and the commit that its files are from.
    `dashboard` says how to reach Ray's dashboard, or why it does not run.
    """

    name: RunName
    id: RunId
    state: RunState
    status_message: str
    attempt: int
    restarts: int
    since: float
    observed_at: float
    inventory: str
    ranks: tuple[RankStatus, ...]
    spares: tuple[SpareStatus, ...]
    drained: tuple[SpareStatus, ...] = ()
    outcome: Outcome | None = None
    ends_at: float | None = None
    workdir: str | None = None
    slices: tuple[GroupSlices, ...] = ()
    dashboard: str | None = None


def summarise(
    run: Run,
    decision: Decision,
    *,
    since: float,
    observed_at: float,
    drained: Collection[NodeName] = (),
    wall: float | None = None,
    dashboard: int | None = None,
    before: RunStatus | None = None,
) -> RunStatus:
    """Return the status of a run after a tick.

    `drained` are nodes that must not be used now. `wall` is the time of day on the nodes, None for `observed_at`.
    `dashboard` is the port of Ray's dashboard on the head, 0 for none, None while that is unknown.

    Ranks of which `before` says the same are taken from it: most of thousands stay as they are.

    A spare is any node that can take a slot, also a node that lost its slot and has recovered.
    """
    record, index = decision.record, index_of(run)
    ranks = before.ranks if before is not None else ()
    holders = {slot.node for slot in record.slots.values()}
    unused = tuple(
        SpareStatus(slice=part.key, node=name, rack=index.nodes[name].rack)
        for name, part in index.slice_of.items()
        if name not in holders and name not in record.failed_nodes
    )
    return RunStatus(
        name=run.name,
        id=run.id,
        state=decision.state,
        status_message=decision.status_message,
        attempt=max((gang.attempt for gang in record.gangs.values()), default=0),
        restarts=sum(gang.restarts for gang in record.gangs.values()),
        since=since,
        observed_at=observed_at,
        inventory=run.fleet.name,
        ranks=tuple(
            _rank(member, index.nodes[record.slots[member.name].node], decision, known)
            for member, known in zip_longest(index.members, ranks[: len(index.members)])
        ),
        spares=tuple(one for one in unused if one.node not in drained),
        drained=tuple(one for one in unused if one.node in drained),
        outcome=record.outcome,
        workdir=str(run.task.git) if run.task.git else None,
        ends_at=_ends_at(run, record, observed_at, observed_at if wall is None else wall),
        slices=tuple(_group_slices(run, record)) if run.placement.slices else (),
        dashboard=describe_dashboard(run, dashboard) if run.task.dashboard and not decision.state.final else None,
    )


def _ends_at(run: Run, record: Record, now: float, wall: float) -> float | None:
    """Return when the time limit of a run is over, in real time also where that of its nodes is imaginary."""
    limit = run.task.time_limit
    if limit is None or record.started_at is None:
        return None
    ends = record.started_at + limit
    # In whole seconds: a status that differs from the one before is written at once.
    return ends if run.fleet.speed == 1.0 else float(round(now + (ends - wall) / run.fleet.speed))


def _group_slices(run: Run, record: Record) -> Iterator[GroupSlices]:
    for group in run.task.groups:
        rule, dropped = group.topology, record.shrunk.get(group.name)
        if rule.min_slices is not None and rule.max_slices is not None:
            yield GroupSlices(
                group=group.name,
                slices=rule.slices,
                min_slices=rule.min_slices,
                max_slices=rule.max_slices,
                reason=dropped.message if dropped and rule.slices < rule.max_slices else None,
            )


def _rank(member: Member, node: Node, decision: Decision, known: RankStatus | None) -> RankStatus:
    record, condition = decision.record, decision.conditions[member.name]
    ended, evidence = record.exits.get(member.name), record.failed_nodes.get(node.name)
    # A node that could not be prepared is not lost: it answers, and its setup failed.
    unprepared = evidence is not None and evidence.cause is Cause.PROVISION and not evidence.mends
    state = RankState.FAILED if unprepared else _state(node, condition, record)
    code, ready = ended.code if ended else None, decision.ready.get(member.name)
    if known is not None and known.state is state and known.exit_code == code and known.ready is ready:
        same_rank = (known.group, known.rank, known.slice) == (member.group, member.rank, member.slice)
        if same_rank and (known.node, known.rack, known.domain) == (node.name, node.rack, node.domain):
            return known
    return RankStatus(
        group=member.group,
        slice=member.slice,
        rank=member.rank,
        node=node.name,
        rack=node.rack,
        domain=node.domain,
        state=state,
        exit_code=code,
        ready=ready,
    )


def _state(node: Node, condition: Condition, record: Record) -> RankState:
    """Return the state of a rank; what is gone because its run ends is not lost."""
    state = _RANK_STATES[condition]
    if state is not RankState.LOST or record.outcome is None or node.name in record.failed_nodes:
        return state
    return RankState.ENDED if any(gang.attempt for gang in record.gangs.values()) else RankState.WAITING
