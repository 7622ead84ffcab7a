"""A decision in the making: the record as it changes within one tick, the actions so far, and the next look."""

from launcher.core.actions import Action, Level, Reason, Sweep
from launcher.core.condition import Condition, alive_in_ray, classify, evident, footing
from launcher.core.fleet import NodeName
from launcher.core.observation import Head, HeadSeen, Keeper, Observation, Phase, Seen
from launcher.core.overlap import must_wait
from launcher.core.placement import Slice
from launcher.core.run import Evidence, Exit, Gang, Member, Outcome, Record, Retry, Run, Verdict
from launcher.core.seat import GangName, MemberName, Seat

# Tries of one action that in a row fail before the run gives up on it, and the longest wait between two (s).
TRIES = 5
LONGEST_WAIT = 30.0


class Draft:
    """Mutable while one tick is decided; `record()` freezes it. Lives in no other module's state."""

    def __init__(self, run: Run, seen: Observation, record: Record) -> None:
        self.run = run
        self.seen = seen
        self.members: tuple[Member, ...] = tuple(run.members())
        self.seats: dict[MemberName, Seat] = dict(record.seats) or first_seats(run)
        self.gangs: dict[GangName, Gang] = dict(record.gangs) or {run.gang(m): Gang() for m in self.members}
        self.exits: dict[MemberName, Exit] = dict(record.exits)
        self.asked: set[NodeName] = set(record.asked)
        self.claimed: set[NodeName] = set(record.claimed)
        self.attempts: dict[NodeName, int] = dict(record.attempts)
        self.retries: dict[str, Retry] = dict(record.retries)
        self.condemned: dict[NodeName, Evidence] = dict(record.condemned)
        self.sweeps: list[Sweep] = list(record.sweeps)
        self.verified: dict[str, tuple[int, ...]] = dict(record.verified)
        self.since: dict[str, float] = dict(record.since)
        self.signalled: set[NodeName] = set(record.signalled)
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
        self.orders_seen = record.orders_seen
        self.outcome: Outcome | None = record.outcome
        self.receipts_seen = record.receipts_seen
        self.actions: list[Action] = []
        self.wake_at = float("inf")
        self.waiting_for: str | None = None
        self._alive = alive_in_ray(seen)
        self._settled: dict[MemberName, Condition] = {}

    def condition(self, member: Member) -> Condition:
        """Answer the condition of a seat as the record now stands, or as it stood when it was settled."""
        settled = self._settled.get(member.name)
        return settled or classify(evident(self.run, member, self.seen, self, self._alive))

    def needed(self, member: Member) -> Condition:
        """Answer the condition of a seat; of one whose rank has finished, that of its node and raylet while another
        of its slice has to start, which it cannot before every bundle of their group is there."""
        condition = self.condition(member)
        if condition is not Condition.FINISHED:
            return condition
        gangs = {self.run.gang(other) for other in self.members if other.slice_key == member.slice_key}
        if all(self.gangs[name].epoch > 0 and not self.gangs[name].broken for name in gangs):
            return condition
        return footing(evident(self.run, member, self.seen, self, self._alive))

    def settle(self) -> dict[MemberName, Condition]:
        """Answer every condition, and hold on to them: who holds what does not change any more in this tick."""
        self._settled = self._settled or {member.name: self.condition(member) for member in self.members}
        return self._settled

    def do(self, action: Action) -> None:
        """Add an action, unless it is under way, or has to wait after a failure or for another to end."""
        retry = self.retries.get(action.key)
        if action.key in self.seen.in_flight or any(action.key == other.key for other in self.actions):
            return
        if retry and retry.at > self.seen.at:
            self.wake(retry.at)
            return
        if not must_wait(action, self.seen.in_flight):
            self.actions.append(action)

    def keeper(self, node: NodeName) -> Keeper | None:
        """Answer what the keeper of a node says; None where none is seen."""
        view = self.seen.nodes.get(node)
        return view.keeper if isinstance(view, Seen) else None

    def head(self) -> Head | None:
        """Answer the head when it can be asked and told things; None while it cannot."""
        head = self.seen.head.head if isinstance(self.seen.head, HeadSeen) else None
        return head if head is not None and head.ray.phase is Phase.RUNNING and head.ready else None

    def wake(self, at: float) -> None:
        """Look again at that time (s), or earlier."""
        self.wake_at = min(self.wake_at, at)

    def back_off(self, key: str) -> int:
        """Count one more failure of an action in a row and put its next try off; answer the count."""
        count = self.retries[key].count + 1 if key in self.retries else 1
        self.retries[key] = Retry(count=count, at=self.seen.at + min(2.0 ** (count - 1), LONGEST_WAIT))
        return count

    def lasted(self, what: str) -> float:
        """Answer for how long (s) something has been so without a break; starts its clock."""
        return self.seen.at - self.since.setdefault(what, self.seen.at)

    def fence(self, sweep: Sweep) -> None:
        """Decide a sweep: it is asked for each tick until its receipt says `killed`."""
        if sweep.key not in {other.key for other in self.sweeps}:
            self.sweeps.append(sweep)

    def fence_rank(self, member: Member, epoch: int, reason: Reason) -> None:
        """Decide to sweep the ranks of a seat up to an epoch from its holder."""
        node, gang = self.seats[member.name].node, self.run.gang(member)
        self.fence(Sweep(reason=reason, node=node, level=Level.RANK, member=member.name, gang=gang, epoch=epoch))

    def condemn(self, node: NodeName, evidence: Evidence) -> None:
        """Never start on a node again in this run; the first evidence stands."""
        self.condemned.setdefault(node, evidence)

    def break_gang(self, name: GangName, reason: Reason, *, spend: bool = False) -> None:
        """Decide that the current epoch of a gang ends, and that each of its ranks is swept before the next begins.

        `spend` counts it as a restart. The first reason stands.
        """
        gang = self.gangs[name]
        if gang.epoch == 0 or gang.broken:
            return
        self.gangs[name] = Gang(epoch=gang.epoch, restarts=gang.restarts + spend, broken=reason)
        for member in self.of_gang(name):
            self.exits.pop(member.name, None)
            self.fence_rank(member, gang.epoch, reason)

    def break_gang_of(self, member: Member, reason: Reason) -> None:
        """Decide that the epoch of a member ends with its node; a rank that has finished needs its node no more."""
        if member.name not in self.exits:
            self.break_gang(self.run.gang(member), reason)

    def end(self, outcome: Outcome) -> None:
        """Decide how the run ends; the first decision stands."""
        self.outcome = self.outcome or outcome

    def of_gang(self, name: GangName) -> tuple[Member, ...]:
        """Answer the members of a gang."""
        return tuple(member for member in self.members if self.run.gang(member) == name)

    def of_slice(self, part: Slice) -> tuple[Member, ...]:
        """Answer the members of a slice in rank order."""
        return tuple(member for member in self.members if member.slice_key == part.key)

    def generations(self, part: Slice) -> tuple[int, ...]:
        """Answer the generation of each seat of a slice, in rank order."""
        return tuple(self.seats[member.name].generation for member in self.of_slice(part))

    def record(self) -> Record:
        """Answer the record as it now stands."""
        return Record(
            receipts_seen=self.receipts_seen,
            seats=self.seats,
            gangs=self.gangs,
            exits=self.exits,
            asked=frozenset(self.asked),
            claimed=frozenset(self.claimed),
            attempts=self.attempts,
            retries=self.retries,
            condemned=self.condemned,
            sweeps=tuple(self.sweeps),
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
            orders_seen=self.orders_seen,
        )


def first_seats(run: Run) -> dict[MemberName, Seat]:
    """Answer who holds each seat when a run begins: the placement's nodes in rank order, generation 0."""
    return {
        member.name: Seat(member=member.name, node=run.slice_of(member).nodes[member.slice_rank])
        for member in run.members()
    }
