"""The rules of a slot's condition, which is derived in each tick and never stored."""

from dataclasses import dataclass
from enum import Enum

from launcher.core.control.liveness import Silence
from launcher.core.control.state import Tick
from launcher.core.model.observation import AgentReport, Phase, RankReport, Seen
from launcher.core.model.record import Exit
from launcher.core.model.run import Member, MemberName, Slot


class Condition(Enum):
    """The condition of a slot; the order of the rules decides, not this list's."""

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


@dataclass(slots=True, kw_only=True)  # not frozen: one is made for each slot in each tick
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
    return dict(tick.conditions) or {member.name: condition(tick, member) for member in tick.index.members}


def condition(tick: Tick, member: Member) -> Condition:
    """Return the condition of a slot by the record as it is now.

    Once conditions are fixed, return the fixed one.
    """
    fixed = tick.conditions.get(member.name)
    if fixed is not None:
        return fixed
    return Condition.SERVING if serves(tick, member) else classify(_view(tick, member))


def serves(tick: Tick, member: Member) -> bool:
    """Whether a slot is SERVING, by the same rules in a tenth of the time: most slots are, in most ticks.

    False also where only the rules can tell.
    """
    record, name = tick.record, member.name
    slot = record.slots[name]
    if name in record.exits or slot.node in record.failed_nodes or tick.fencing(slot.node):
        return False
    if tick.served.get(name) is slot:  # asked before in this tick: what its node reports stays
        return True
    if not _at_work(tick, member, slot):
        return False
    if tick.index.driver(member) in (None, member):  # else another slot's node reports the rank
        tick.served[name] = slot
    return True


def _at_work(tick: Tick, member: Member, slot: Slot) -> bool:
    view = tick.seen.nodes.get(slot.node)
    if not isinstance(view, Seen) or (agent := view.agent) is None:
        return False
    if agent.ray.phase is not Phase.RUNNING or agent.ray.generation != slot.generation:
        return False
    return agent.setup.phase is Phase.DONE and (rank := rank_report(tick, member)) is not None and rank.running


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
    agent = tick.agent(tick.record.slots[rank.name].node)
    if agent is None or not agent.ranks:
        return None
    name, attempt = rank.name, tick.gang_of(rank).attempt
    for one in agent.ranks:
        if one.attempt == attempt and one.member == name:
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
        in_ray=tick.in_ray(member),
    )


def classify(at: SlotView) -> Condition:
    """Return the condition of a slot: that of the first rule that matches."""
    if at.exit is not None:
        # An exit that was seen stays true, whatever happens to the node.
        return Condition.FINISHED if at.exit.ok else Condition.FAILED
    return footing(at)


def footing(at: SlotView) -> Condition:
    """Return the condition of a slot's node and raylet, whatever its rank did: the first rule that matches."""
    # Evidence against the node itself: never start on it again.
    if at.failed:
        return Condition.NODE_FAILED
    # Two witnesses have missed it for long enough: fence it, then replace it.
    if at.silence is Silence.DOWN:
        return Condition.DOWN
    # It has only just fallen silent: wait.
    if at.silence is Silence.SUSPECT:
        return Condition.SUSPECT
    # We cannot look. That alone is never a reason to act.
    if not at.seen:
        return Condition.UNSEEN
    # A kill was decided and has no receipt: nothing may start here yet.
    if at.fencing:
        return Condition.FENCING
    # The agent is gone after it had the lease; or nothing of the run has been here yet.
    if at.agent is None:
        return Condition.LOST if at.leased else Condition.ABSENT
    return _step(at.agent.setup.phase, at)


def _step(setup: Phase, at: SlotView) -> Condition:
    """Return how far the start of a slot is, from the first step to the last."""
    ray = at.ray
    # The raylet of this slot ended, as we see.
    if ray is Phase.FAILED:
        return Condition.LOST
    if setup is Phase.ABSENT:
        return Condition.LEASED
    if setup is Phase.RUNNING:
        return Condition.PREPARING
    # A setup that failed is as bad as a node that is gone; `node_failure` reads the evidence.
    if setup is Phase.FAILED:
        return Condition.LOST
    if ray is Phase.ABSENT:
        return Condition.PREPARED
    # A running rank proves more than Ray's table.
    if at.rank_runs:
        return Condition.SERVING
    return Condition.READY if at.in_ray else Condition.JOINING
