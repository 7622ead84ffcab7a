"""The rule table: what a slot's condition is, derived afresh from each observation and never stored."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from launcher.core.control.liveness import Silence, silence
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import AgentReport, HeadSeen, Observation, Phase, RankReport, Seen
from launcher.core.model.record import Evidence, Exit, Gang
from launcher.core.model.run import GangName, Member, MemberName, Slot


class Condition(Enum):
    """What a slot is in. The order of the rule table, not of this list, decides."""

    FINISHED = "finished"
    FAILED = "failed"
    NODE_FAILED = "node-failed"
    DOWN = "down"
    SUSPECT = "suspect"
    UNSEEN = "unseen"
    FENCED = "fenced"
    LOST = "lost"
    ABSENT = "absent"
    LEASED = "leased"
    PREPARING = "preparing"
    PREPARED = "prepared"
    JOINING = "joining"
    READY = "ready"
    SERVING = "serving"


class Known(Protocol):
    """What the rules need of the record in the making."""

    @property
    def slots(self) -> Mapping[MemberName, Slot]:
        """Return who holds each slot."""

    @property
    def gangs(self) -> Mapping[GangName, Gang]:
        """Return the counters of each gang."""

    @property
    def exits(self) -> Mapping[MemberName, Exit]:
        """Return how ranks of the current attempts ended."""

    @property
    def failed_nodes(self) -> Mapping[NodeName, Evidence]:
        """Return the nodes that are not used any more."""

    @property
    def leased(self) -> "frozenset[NodeName] | set[NodeName]":
        """Return the nodes whose lease we have had."""

    @property
    def fenced(self) -> "frozenset[NodeName] | set[NodeName]":
        """Return the nodes with a fence of more than a rank that has no receipt."""

    @property
    def since(self) -> Mapping[str, float]:
        """Return since when things are as they are (s)."""

    @property
    def requested(self) -> "frozenset[NodeName] | set[NodeName]":
        """Return the nodes whose lease we may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evident:
    """What the rules look at: one slot, its holder's agent and the rank of the current attempt, if they are seen.

    `in_ray` is whether Ray's own table has its raylet alive, None where it does not have it at all; `head` the node of
    the head.
    """

    slot: Slot
    member: Member
    seen: Observation
    known: Known
    agent: AgentReport | None
    rank: RankReport | None
    in_ray: bool | None
    head: NodeName | None


RayTable: TypeAlias = Mapping[tuple[str, int], bool]
"""Whether Ray has the raylet of a slot, by label and generation, alive."""


def ray_table(seen: Observation) -> RayTable:
    """Return what Ray's own table says of each raylet; one that it has twice is alive if one of the two is."""
    head = seen.head.head if isinstance(seen.head, HeadSeen) else None
    table: dict[tuple[str, int], bool] = {}
    for node in head.nodes if head else ():
        key = (node.slot, node.generation)
        table[key] = node.alive or table.get(key, False)
    return table


def evident(
    member: Member, gang: GangName, seen: Observation, known: Known, table: RayTable, head: NodeName | None
) -> Evident:
    """Return what the rules look at for a slot. `table` is `ray_table(seen)`, `head` the node of the head."""
    slot = known.slots[member.name]
    view = seen.nodes.get(slot.node)
    agent = view.agent if isinstance(view, Seen) else None
    attempt = known.gangs[gang].attempt
    return Evident(
        slot=slot,
        member=member,
        seen=seen,
        known=known,
        agent=agent,
        rank=_rank(agent, member, attempt),
        in_ray=table.get((member.slot, slot.generation)),
        head=head,
    )


def classify(at: Evident) -> Condition:
    """Return the condition of a slot: that of the first rule that matches."""
    for matches, condition in _ENDS:
        if matches(at):
            return condition
    return footing(at)


def footing(at: Evident) -> Condition:
    """Return what a slot's node and raylet are in, however its rank has ended."""
    for matches, condition in _RULES:
        if matches(at):
            return condition
    raise AssertionError("the last rule matches everything")


def _rank(agent: AgentReport | None, member: Member, attempt: int) -> RankReport | None:
    ranks = agent.ranks if agent else ()
    return next((rank for rank in ranks if rank.member == member.name and rank.attempt == attempt), None)


def _exited(ok: bool) -> Callable[[Evident], bool]:
    def matches(at: Evident) -> bool:
        ended = at.known.exits.get(at.member.name)
        return ended is not None and ended.ok is ok

    return matches


def _unseen(at: Evident) -> bool:
    return not isinstance(at.seen.nodes.get(at.slot.node), Seen)


def _silent(wanted: Silence) -> Callable[[Evident], bool]:
    def matches(at: Evident) -> bool:
        # Of a machine that never was ours nobody else has ever heard.
        if not _unseen(at) or at.slot.node not in at.known.requested:
            return False
        found = silence(at.seen, at.known.since, at.slot.node, head=at.head, in_ray=at.in_ray)
        return found is wanted

    return matches


def _lost(at: Evident) -> bool:
    if at.agent is None:
        return at.slot.node in at.known.leased
    return at.agent.ray.phase is Phase.FAILED and at.agent.ray.generation == at.slot.generation


def _raylet(at: Evident, phase: Phase) -> bool:
    assert at.agent is not None
    current = at.agent.ray.generation == at.slot.generation
    return at.agent.ray.phase is phase if current else phase is Phase.ABSENT


def _setup(phase: Phase) -> Callable[[Evident], bool]:
    return lambda at: at.agent is not None and at.agent.setup.phase is phase


# The order matters: the first row that matches wins, of these two and then of the others.
_ENDS: tuple[tuple[Callable[[Evident], bool], Condition], ...] = (
    # An exit that was seen stays true, whatever becomes of the node: done is not failure.
    (_exited(ok=True), Condition.FINISHED),
    (_exited(ok=False), Condition.FAILED),
)
_RULES: tuple[tuple[Callable[[Evident], bool], Condition], ...] = (
    # Evidence against the node itself: never start on it again.
    (lambda at: at.slot.node in at.known.failed_nodes, Condition.NODE_FAILED),
    # Two witnesses have missed it for long enough: it is fenced, and then replaced.
    (_silent(Silence.DOWN), Condition.DOWN),
    # It has only just fallen silent: wait.
    (_silent(Silence.SUSPECT), Condition.SUSPECT),
    # We cannot look, and that alone is never a reason to act.
    (_unseen, Condition.UNSEEN),
    # A fence was decided and its receipt is not there: nothing may start here yet.
    (lambda at: at.slot.node in at.known.fenced, Condition.FENCED),
    # The agent vanished, or the raylet that holds this slot ended, before our eyes.
    (_lost, Condition.LOST),
    # Nothing of the run has been here yet.
    (lambda at: at.agent is None, Condition.ABSENT),
    # The ladder of a start, from the bottom.
    (_setup(Phase.ABSENT), Condition.LEASED),
    (_setup(Phase.RUNNING), Condition.PREPARING),
    # A setup that failed is as bad as a node that is gone; `recover` reads the evidence.
    (_setup(Phase.FAILED), Condition.LOST),
    (lambda at: _raylet(at, Phase.ABSENT), Condition.PREPARED),
    # A rank that runs proves more than Ray's table says.
    (lambda at: at.rank is not None and at.rank.running, Condition.SERVING),
    (lambda at: not at.in_ray, Condition.JOINING),
    (lambda _: True, Condition.READY),
)
