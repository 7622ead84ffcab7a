"""The rule table: the condition of a slot, derived in each tick and never stored."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from launcher.core.control.liveness import Silence
from launcher.core.control.state import Tick
from launcher.core.model.observation import AgentReport, Phase, RankReport
from launcher.core.model.record import Exit
from launcher.core.model.run import Member, MemberName


class Condition(Enum):
    """The condition of a slot; the order of the rule table decides, not this list's."""

    FINISHED = "finished"
    FAILED = "failed"
    NODE_FAILED = "node-failed"
    DOWN = "down"
    SUSPECT = "suspect"
    UNSEEN = "unseen"
    FENCING = "fencing"
    LOST = "lost"
    ABSENT = "absent"
    LEASED = "leased"
    PREPARING = "preparing"
    PREPARED = "prepared"
    JOINING = "joining"
    READY = "ready"
    SERVING = "serving"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotView:
    """What the rules look at: a slot, its node and raylet, its rank or driver.

    `exit` is how that rank ended. `seen`, `failed`, `leased` and `fencing` (a kill of more than ranks has no receipt)
    are about the node; `silence` is set while a leased node is out of sight. `in_ray`: Ray lists the raylet of this
    `generation` as alive; None where Ray does not list it.
    """

    exit: Exit | None
    failed: bool
    seen: bool
    silence: Silence | None
    fencing: bool
    leased: bool
    agent: AgentReport | None
    rank_runs: bool
    generation: int
    in_ray: bool | None

    @property
    def setup(self) -> Phase | None:
        """Return how far the setup is; None without an agent."""
        return self.agent.setup.phase if self.agent else None

    @property
    def ray(self) -> Phase | None:
        """Return how far the raylet of this generation is; None without an agent."""
        if self.agent is None:
            return None
        return self.agent.ray.phase if self.agent.ray.generation == self.generation else Phase.ABSENT


def fix_conditions(tick: Tick) -> None:
    """Fix the conditions of all slots: no slot changes its node any more in this tick.

    Reads `record`, `holders`, `kills`, `seen`. Writes `conditions`.
    """
    tick.conditions = all_conditions(tick)


def all_conditions(tick: Tick) -> dict[MemberName, Condition]:
    """Return the condition of every slot."""
    return {member.name: condition(tick, member) for member in tick.index.members}


def condition(tick: Tick, member: Member) -> Condition:
    """Return the condition of a slot by the record as it is now.

    Once conditions are fixed, return the fixed one.
    """
    return tick.conditions.get(member.name) or classify(_view(tick, member))


def needed(tick: Tick, member: Member) -> Condition:
    """Return the condition of a slot; of a finished slot that its slice still needs, the condition of its node.

    A gang cannot start before every bundle of its slice is there.
    """
    found = condition(tick, member)
    if found is Condition.FINISHED and tick.has_to_start(member):
        return footing(_view(tick, member))
    return found


def rank_report(tick: Tick, member: Member) -> RankReport | None:
    """Return the report of a slot's rank in the current attempt; None without one.

    A slot of a group with a driver has no rank of its own: it has the report of the driver, from the driver's node.
    """
    rank = tick.index.driver(member) or member
    agent = tick.agent(tick.node_of(rank))
    if agent is None:
        return None
    attempt = tick.gang_of(rank).attempt
    for one in agent.ranks:
        if one.attempt == attempt and one.member == rank.name:
            return one
    return None


def _view(tick: Tick, member: Member) -> SlotView:
    record, slot = tick.record, tick.record.slots[member.name]
    seen, rank = tick.sees(slot.node), rank_report(tick, member)
    return SlotView(
        exit=record.exits.get(member.name),
        failed=slot.node in record.failed_nodes,
        seen=seen,
        # No witness has ever heard of a machine that was never leased.
        silence=tick.silence(slot.node) if not seen and slot.node in record.requested else None,
        fencing=tick.fencing(slot.node),
        leased=slot.node in record.leased,
        agent=tick.agent(slot.node),
        rank_runs=rank is not None and rank.running,
        generation=slot.generation,
        in_ray=tick.ray.get((member.slot, slot.generation)),
    )


def classify(at: SlotView) -> Condition:
    """Return the condition of a slot: that of the first rule that matches."""
    if at.exit is not None:
        # An exit that was seen stays true, whatever happens to the node.
        return Condition.FINISHED if at.exit.ok else Condition.FAILED
    return footing(at)


def footing(at: SlotView) -> Condition:
    """Return the condition of a slot's node and raylet, whatever its rank did."""
    for matches, found in _RULES:
        if matches(at):
            return found
    raise AssertionError("the last rule matches always")


# The first row that matches wins.
_RULES: tuple[tuple[Callable[[SlotView], bool], Condition], ...] = (
    # Evidence against the node itself: never start on it again.
    (lambda at: at.failed, Condition.NODE_FAILED),
    # Two witnesses have missed it for long enough: fence it, then replace it.
    (lambda at: at.silence is Silence.DOWN, Condition.DOWN),
    # It has only just fallen silent: wait.
    (lambda at: at.silence is Silence.SUSPECT, Condition.SUSPECT),
    # We cannot look. That alone is never a reason to act.
    (lambda at: not at.seen, Condition.UNSEEN),
    # A kill was decided and has no receipt: nothing may start here yet.
    (lambda at: at.fencing, Condition.FENCING),
    # The agent is gone, or the raylet of this slot ended, as we see.
    (lambda at: at.agent is None and at.leased, Condition.LOST),
    (lambda at: at.ray is Phase.FAILED, Condition.LOST),
    # Nothing of the run has been here yet.
    (lambda at: at.agent is None, Condition.ABSENT),
    # The steps of a start, from the first.
    (lambda at: at.setup is Phase.ABSENT, Condition.LEASED),
    (lambda at: at.setup is Phase.RUNNING, Condition.PREPARING),
    # A setup that failed is as bad as a node that is gone; `node_failure` reads the evidence.
    (lambda at: at.setup is Phase.FAILED, Condition.LOST),
    (lambda at: at.ray is Phase.ABSENT, Condition.PREPARED),
    # A running rank proves more than Ray's table.
    (lambda at: at.rank_runs, Condition.SERVING),
    (lambda at: not at.in_ray, Condition.JOINING),
    (lambda _: True, Condition.READY),
)
