"""A decision in the making: the record as it changes within one tick, the actions so far, and the next look."""

from launcher.core.control.conditions import Condition, classify, evident, footing, ray_table
from launcher.core.control.liveness import Silence, silence
from launcher.core.control.resized_record import refitted
from launcher.core.model.actions import Action, Kill, Level, Reason, Release, must_wait
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import AgentReport, Head, HeadSeen, Observation, Phase, Seen, Sign, Unseen
from launcher.core.model.placement import Slice
from launcher.core.model.record import Evidence, Exit, Gang, Outcome, Record, Retry, Verdict
from launcher.core.model.run import GangName, Member, MemberName, Run, Slot
from launcher.core.model.run_index import Index

# Tries of one action that in a row fail before the run gives up on it, and the longest wait between two (s).
TRIES = 5
LONGEST_WAIT = 30.0


class Draft:
    """Mutable while one tick is decided; `record()` freezes it. Lives in no other module's state."""

    def __init__(self, run: Run, seen: Observation, record: Record) -> None:
        self.run = run
        self.seen = seen
        self.index = Index(run)
        self.members = self.index.members
        record = refitted(run, record)
        self.slots: dict[MemberName, Slot] = dict(record.slots) or first_slots(run)
        self.holders: dict[NodeName, MemberName] = {
            self.slots[member.name].node: member.name for member in self.members if member.host is None
        }
        self.gangs: dict[GangName, Gang] = dict(record.gangs) or {name: Gang() for name in self.index.by_gang}
        self.exits: dict[MemberName, Exit] = dict(record.exits)
        self.requested: set[NodeName] = set(record.requested)
        self.leased: set[NodeName] = set(record.leased)
        self.joined: set[NodeName] = set(record.joined)
        self.node_attempts: dict[NodeName, int] = dict(record.node_attempts)
        self.retries: dict[str, Retry] = dict(record.retries)
        self.failed_nodes: dict[NodeName, Evidence] = dict(record.failed_nodes)
        self.kills: dict[str, Kill] = {kill.key: kill for kill in record.kills}
        self.fenced: set[NodeName] = {kill.node for kill in record.kills if kill.level is not Level.RANK}
        self.verified: dict[str, tuple[int, ...]] = dict(record.verified)
        self.since: dict[str, float] = dict(record.since)
        self.signalled: set[str] = set(record.signalled)
        self.head_asked = record.head_asked
        self.head_at: NodeName | None = record.head
        self.cluster = record.cluster
        self.heads: list[NodeName | None] = list(record.heads)
        self.stale: set[str] = set(record.stale)
        self.stopped: dict[NodeName, str] = dict(record.stopped)
        self.excused: dict[NodeName, tuple[str, ...]] = dict(record.excused)
        self.failures: dict[NodeName, int] = dict(record.failures)
        self.verdict: Verdict | None = record.verdict
        self.moving: set[str] = set(record.moving)
        self.resumed: set[NodeName] = set(record.resumed)
        self.requests_seen = record.requests_seen
        self.began: float | None = record.began
        self.ahead: float | None = record.ahead
        self.resizing = record.resizing
        self.newest = record.newest
        self.outcome: Outcome | None = record.outcome
        self.receipts_seen = record.receipts_seen
        self.actions: list[Action] = []
        self.doubted: set[NodeName] = set()
        self.leaving: set[NodeName] = set()
        self.awaited: set[NodeName] = set()
        self.notes: list[str] = []
        self.wake_at = float("inf")
        self.waiting_for: str | None = None
        self.head_moved = False
        self.ray = ray_table(seen)
        self._doing: set[str] = set()
        self._settled: dict[MemberName, Condition] = {}

    @property
    def head_node(self) -> NodeName | None:
        """Return on which node the head is, or will be; None for the machine that the inventory names."""
        return self.head_at or self.run.head

    def condition(self, member: Member) -> Condition:
        """Return the condition of a slot as the record now stands, or as it stood when it was settled."""
        settled = self._settled.get(member.name)
        if settled:
            return settled
        return classify(evident(member, self.gang_of(member), self.seen, self, self.ray, self.head_node))

    def needed(self, member: Member) -> Condition:
        """Return the condition of a slot; of one whose rank has finished, that of its node and raylet while another
        of its slice has to start, which it cannot before every bundle of their group is there."""
        condition = self.condition(member)
        if condition is not Condition.FINISHED:
            return condition
        gangs = {self.gang_of(other) for other in self.index.by_slice[member.slice_key]}
        if all(self.gangs[name].attempt > 0 and not self.gangs[name].broken for name in gangs):
            return condition
        return footing(evident(member, self.gang_of(member), self.seen, self, self.ray, self.head_node))

    def settle(self) -> dict[MemberName, Condition]:
        """Return every condition, and hold on to them: who holds what does not change any more in this tick."""
        self._settled = self._settled or {member.name: self.condition(member) for member in self.members}
        return self._settled

    def do(self, action: Action) -> None:
        """Add an action, unless it is under way, or has to wait after a failure or for another to end."""
        retry = self.retries.get(action.key)
        if action.key in self.seen.in_flight or action.key in self._doing:
            return
        if retry and retry.at > self.seen.at:
            self.wake(retry.at)
            return
        if not must_wait(action, self.seen.in_flight):
            self._doing.add(action.key)
            self.actions.append(action)

    def release(self, node: NodeName, reason: Reason) -> bool:
        """Have all of the run leave a node that we see; return whether it was seen to be free. Whether it can be seen
        later does not matter then."""
        view = self.seen.nodes.get(node)
        if not isinstance(view, Seen):
            return False
        if view.agent is not None or view.leftovers:
            self.do(Release(reason=reason, node=node))
            return False
        if f"acquire:{node}" in self.seen.in_flight:
            return False
        self.requested.discard(node)
        self.joined.discard(node)
        return True

    def sees(self, node: NodeName) -> bool:
        """Whether a node was reached."""
        return isinstance(self.seen.nodes.get(node), Seen)

    def agent(self, node: NodeName) -> AgentReport | None:
        """Return what the agent of a node says; None where none is seen."""
        view = self.seen.nodes.get(node)
        return view.agent if isinstance(view, Seen) else None

    def head(self) -> Head | None:
        """Return the head when it can be asked and told things; None while it cannot."""
        head = self.seen.head.head if isinstance(self.seen.head, HeadSeen) and not self.head_moved else None
        return head if head is not None and head.ray.phase is Phase.RUNNING and head.ready else None

    def head_begun(self) -> bool:
        """Whether the head's Ray of this cluster runs, be it ready or not: a raylet that is started meanwhile
        waits for it, and both begin at once."""
        head = self.seen.head.head if isinstance(self.seen.head, HeadSeen) and not self.head_moved else None
        return head is not None and head.ray.phase is Phase.RUNNING and head.ray.generation >= self.cluster

    def wake(self, at: float) -> None:
        """Look again at that time (s), or earlier."""
        self.wake_at = min(self.wake_at, at)

    def back_off(self, key: str, longest: float = LONGEST_WAIT) -> int:
        """Count one more failure of an action in a row and put its next try off; return the count."""
        count = self.retries[key].count + 1 if key in self.retries else 1
        self.retries[key] = Retry(count=count, at=self.seen.at + min(2.0 ** min(count - 1, 10), longest))
        return count

    def lasted(self, what: str) -> float:
        """Return for how long (s) something has been so without a break; starts its clock."""
        return self.seen.at - self.since.setdefault(what, self.seen.at)

    def fence(self, kill: Kill) -> None:
        """Decide a kill: it is asked for each tick until its receipt says `killed`."""
        self.kills.setdefault(kill.key, kill)
        if kill.level is not Level.RANK:
            self.fenced.add(kill.node)

    def fence_done(self, keys: set[str]) -> None:
        """Strike fences off: each has its receipt, or proof that it needs none."""
        for key in keys:
            self.kills.pop(key, None)
        self.fenced = {kill.node for kill in self.kills.values() if kill.level is not Level.RANK}

    def fence_rank(self, member: Member, attempt: int, reason: Reason) -> None:
        """Decide to kill the ranks of a slot up to an attempt from its holder."""
        node, gang = self.slots[member.name].node, self.gang_of(member)
        self.fence(Kill(reason=reason, node=node, level=Level.RANK, member=member.name, gang=gang, attempt=attempt))

    def fence_slot(self, member: Member, reason: Reason) -> None:
        """Decide to kill the raylet and ranks of a slot from its holder, up to the present generation; each of those
        that sit there with it has a fence of its own, for it is theirs that must not start again."""
        level = Level.GENERATION
        for one in self.index.crew(member):
            slot, gang = self.slots[one.name], self.gang_of(one)
            node, held = slot.node, slot.generation
            self.fence(Kill(reason=reason, node=node, level=level, member=one.name, gang=gang, generation=held))

    def fail_node(self, node: NodeName, evidence: Evidence) -> None:
        """Never start on a node again in this run, unless it mends; the first evidence stands."""
        if node not in self.failed_nodes:
            self.failed_nodes[node] = evidence
            self.since[f"failed:{node}"] = self.seen.at

    def give(self, member: Member, node: NodeName) -> None:
        """Give a slot to a node, or to its holder anew: a raylet of the next generation will be started there. Who sits
        on that node with it comes along.

        A node that had another slot before takes no raylet that is older than the one of then.
        """
        slot, lead = self.slots[member.name], self.index.lead(member)
        newest = slot.generation if node == slot.node else max(other.generation for other in self.slots.values())
        if self.holders.get(slot.node) == lead.name:
            del self.holders[slot.node]
        self.holders[node] = lead.name
        for one in self.index.crew(member):
            for timed in ("joining", "dead_in_ray"):
                self.since.pop(f"{timed}:{one.name}#{slot.generation}", None)
            self.slots[one.name] = Slot(member=one.name, node=node, generation=newest + 1)

    def break_gang(self, name: GangName, reason: Reason, *, spend: bool = False) -> None:
        """Decide that the current attempt of a gang ends, and that each of its ranks is killed before the next begins.

        `spend` counts it as a restart. The first reason stands.
        """
        gang = self.gangs[name]
        if gang.attempt == 0 or gang.broken:
            return
        self.gangs[name] = Gang(attempt=gang.attempt, restarts=gang.restarts + spend, broken=reason)
        for member in self.of_gang(name):
            self.exits.pop(member.name, None)
            self.fence_rank(member, gang.attempt, reason)

    def break_gang_of(self, member: Member, reason: Reason) -> None:
        """End the attempt of every rank on the node of a member; a rank that has finished needs its node no more."""
        for one in self.index.crew(member):
            if one.name not in self.exits:
                self.break_gang(self.gang_of(one), reason)

    def end(self, outcome: Outcome) -> None:
        """Decide how the run ends; the first decision stands."""
        self.outcome = self.outcome or outcome

    def gang_of(self, member: Member) -> GangName:
        """Return which gang a slot starts and restarts with."""
        return self.index.gangs[member.name]

    def of_gang(self, name: GangName) -> tuple[Member, ...]:
        """Return the members of a gang."""
        return self.index.by_gang[name]

    def of_slice(self, part: Slice) -> tuple[Member, ...]:
        """Return the members of a slice in rank order."""
        return self.index.by_slice[part.key]

    @property
    def started(self) -> bool:
        """Whether a rank was ever started."""
        return any(gang.attempt > 0 for gang in self.gangs.values())

    def over(self, name: GangName) -> bool:
        """Whether every rank of a gang has ended well: it needs nothing any more."""
        ended = (self.exits.get(member.name) for member in self.of_gang(name))
        return all(found is not None and found.ok for found in ended)

    def generations(self, part: Slice) -> tuple[int, ...]:
        """Return the generation of each slot of a slice, in rank order."""
        return tuple(self.slots[member.name].generation for member in self.of_slice(part))

    def silence(self, node: NodeName) -> Silence:
        """Return what may be thought of a node that we do not see."""
        held = self.holders.get(node)
        member = self.index.by_name[held] if held else None
        in_ray = self.ray.get((member.slot, self.slots[member.name].generation)) if member else None
        return silence(self.seen, self.since, node, head=self.head_node, in_ray=in_ray)

    def signs(self, node: NodeName) -> tuple[Sign, ...]:
        """Return what a node shows that speaks against itself, but for what was found to be another's fault."""
        health = self.seen.health.get(node)
        if health is None or not health.signs:
            return ()
        excused = self.excused.get(node, ())
        return tuple(sign for sign in health.signs if sign.symptom.fails_node and sign.message not in excused)

    def blind(self) -> bool:
        """Whether nothing of a run that has something there can be seen at all: then the fault is rather on our
        side. Of a launch on one machine it is rather that machine's."""
        views = self.seen.nodes.values()
        begun = self.started or (bool(self.requested) and len(views) > 1)
        return begun and isinstance(self.seen.head, Unseen) and all(isinstance(view, Unseen) for view in views)

    def record(self) -> Record:
        """Return the record as it now stands."""
        return Record(
            receipts_seen=self.receipts_seen,
            slots=self.slots,
            gangs=self.gangs,
            exits=self.exits,
            requested=frozenset(self.requested),
            leased=frozenset(self.leased),
            joined=frozenset(self.joined),
            node_attempts=self.node_attempts,
            retries=self.retries,
            failed_nodes=self.failed_nodes,
            kills=tuple(self.kills.values()),
            verified=self.verified,
            since=self.since,
            signalled=frozenset(self.signalled),
            head_asked=self.head_asked,
            outcome=self.outcome,
            head=self.head_at,
            cluster=self.cluster,
            heads=tuple(self.heads),
            stale=frozenset(self.stale),
            stopped=self.stopped,
            excused=self.excused,
            failures=self.failures,
            verdict=self.verdict,
            moving=frozenset(self.moving),
            resumed=frozenset(self.resumed),
            requests_seen=self.requests_seen,
            began=self.began,
            ahead=self.ahead,
            resizing=self.resizing,
            newest=self.newest,
        )


def first_slots(run: Run) -> dict[MemberName, Slot]:
    """Return who holds each slot when a run begins: the placement's nodes in rank order, generation 0."""
    parts = {part.key: part for part in run.placement.slices}
    return {
        member.name: Slot(member=member.name, node=parts[member.slice_key].nodes[member.slice_rank])
        for member in run.members()
    }
