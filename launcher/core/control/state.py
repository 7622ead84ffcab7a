"""A decision in the making: the record as it changes within one tick, the actions so far, and the next look."""

from launcher.core.control.conditions import Condition, classify, evident, footing, ray_table
from launcher.core.control.liveness import Silence, silence
from launcher.core.control.resized_record import refitted
from launcher.core.model.actions import Action, Level, Reason, Sweep, Unclaim
from launcher.core.model.health import Sign
from launcher.core.model.inventory import NodeName
from launcher.core.model.observation import Head, HeadSeen, Keeper, Observation, Phase, Seen, Unseen
from launcher.core.model.overlap import must_wait
from launcher.core.model.placement import Slice
from launcher.core.model.run import Evidence, Exit, Gang, Member, Outcome, Record, Retry, Run, Verdict
from launcher.core.model.run_index import Index
from launcher.core.model.slots import GangName, MemberName, Seat

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
        self.seats: dict[MemberName, Seat] = dict(record.seats) or first_seats(run)
        self.holders: dict[NodeName, MemberName] = {
            self.seats[member.name].node: member.name for member in self.members if member.host is None
        }
        self.gangs: dict[GangName, Gang] = dict(record.gangs) or {name: Gang() for name in self.index.by_gang}
        self.exits: dict[MemberName, Exit] = dict(record.exits)
        self.asked: set[NodeName] = set(record.asked)
        self.claimed: set[NodeName] = set(record.claimed)
        self.joined: set[NodeName] = set(record.joined)
        self.attempts: dict[NodeName, int] = dict(record.attempts)
        self.retries: dict[str, Retry] = dict(record.retries)
        self.condemned: dict[NodeName, Evidence] = dict(record.condemned)
        self.sweeps: dict[str, Sweep] = {sweep.key: sweep for sweep in record.sweeps}
        self.fenced: set[NodeName] = {sweep.node for sweep in record.sweeps if sweep.level is not Level.RANK}
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
        self.orders_seen = record.orders_seen
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
        """Answer on which node the head is, or will be; None for the machine that the inventory names."""
        return self.head_at or self.run.head

    def condition(self, member: Member) -> Condition:
        """Answer the condition of a seat as the record now stands, or as it stood when it was settled."""
        settled = self._settled.get(member.name)
        if settled:
            return settled
        return classify(evident(member, self.gang_of(member), self.seen, self, self.ray, self.head_node))

    def needed(self, member: Member) -> Condition:
        """Answer the condition of a seat; of one whose rank has finished, that of its node and raylet while another
        of its slice has to start, which it cannot before every bundle of their group is there."""
        condition = self.condition(member)
        if condition is not Condition.FINISHED:
            return condition
        gangs = {self.gang_of(other) for other in self.index.by_slice[member.slice_key]}
        if all(self.gangs[name].epoch > 0 and not self.gangs[name].broken for name in gangs):
            return condition
        return footing(evident(member, self.gang_of(member), self.seen, self, self.ray, self.head_node))

    def settle(self) -> dict[MemberName, Condition]:
        """Answer every condition, and hold on to them: who holds what does not change any more in this tick."""
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
        """Have all of the run leave a node that we see; answer whether it was seen to be free. Whether it can be seen
        later does not matter then."""
        view = self.seen.nodes.get(node)
        if not isinstance(view, Seen):
            return False
        if view.keeper is not None or view.leftovers:
            self.do(Unclaim(reason=reason, node=node))
            return False
        if f"claim:{node}" in self.seen.in_flight:
            return False
        self.asked.discard(node)
        self.joined.discard(node)
        return True

    def sees(self, node: NodeName) -> bool:
        """Answer whether a node was reached."""
        return isinstance(self.seen.nodes.get(node), Seen)

    def keeper(self, node: NodeName) -> Keeper | None:
        """Answer what the keeper of a node says; None where none is seen."""
        view = self.seen.nodes.get(node)
        return view.keeper if isinstance(view, Seen) else None

    def head(self) -> Head | None:
        """Answer the head when it can be asked and told things; None while it cannot."""
        head = self.seen.head.head if isinstance(self.seen.head, HeadSeen) and not self.head_moved else None
        return head if head is not None and head.ray.phase is Phase.RUNNING and head.ready else None

    def head_begun(self) -> bool:
        """Answer whether the head's Ray of this cluster runs, be it ready or not: a raylet that is started meanwhile
        waits for it, and both begin at once."""
        head = self.seen.head.head if isinstance(self.seen.head, HeadSeen) and not self.head_moved else None
        return head is not None and head.ray.phase is Phase.RUNNING and head.ray.generation >= self.cluster

    def wake(self, at: float) -> None:
        """Look again at that time (s), or earlier."""
        self.wake_at = min(self.wake_at, at)

    def back_off(self, key: str, longest: float = LONGEST_WAIT) -> int:
        """Count one more failure of an action in a row and put its next try off; answer the count."""
        count = self.retries[key].count + 1 if key in self.retries else 1
        self.retries[key] = Retry(count=count, at=self.seen.at + min(2.0 ** min(count - 1, 10), longest))
        return count

    def lasted(self, what: str) -> float:
        """Answer for how long (s) something has been so without a break; starts its clock."""
        return self.seen.at - self.since.setdefault(what, self.seen.at)

    def fence(self, sweep: Sweep) -> None:
        """Decide a sweep: it is asked for each tick until its receipt says `killed`."""
        self.sweeps.setdefault(sweep.key, sweep)
        if sweep.level is not Level.RANK:
            self.fenced.add(sweep.node)

    def fence_done(self, keys: set[str]) -> None:
        """Strike fences off: each has its receipt, or proof that it needs none."""
        for key in keys:
            self.sweeps.pop(key, None)
        self.fenced = {sweep.node for sweep in self.sweeps.values() if sweep.level is not Level.RANK}

    def fence_rank(self, member: Member, epoch: int, reason: Reason) -> None:
        """Decide to sweep the ranks of a seat up to an epoch from its holder."""
        node, gang = self.seats[member.name].node, self.gang_of(member)
        self.fence(Sweep(reason=reason, node=node, level=Level.RANK, member=member.name, gang=gang, epoch=epoch))

    def fence_seat(self, member: Member, reason: Reason) -> None:
        """Decide to sweep the raylet and ranks of a seat from its holder, up to the present generation; each of those
        that sit there with it has a fence of its own, for it is theirs that must not start again."""
        level = Level.GENERATION
        for one in self.index.crew(member):
            seat, gang = self.seats[one.name], self.gang_of(one)
            node, held = seat.node, seat.generation
            self.fence(Sweep(reason=reason, node=node, level=level, member=one.name, gang=gang, generation=held))

    def condemn(self, node: NodeName, evidence: Evidence) -> None:
        """Never start on a node again in this run, unless it mends; the first evidence stands."""
        if node not in self.condemned:
            self.condemned[node] = evidence
            self.since[f"condemned:{node}"] = self.seen.at

    def give(self, member: Member, node: NodeName) -> None:
        """Give a seat to a node, or to its holder anew: a raylet of the next generation will be started there. Who sits
        on that node with it comes along.

        A node that had another seat before takes no raylet that is older than the one of then.
        """
        seat, lead = self.seats[member.name], self.index.lead(member)
        newest = seat.generation if node == seat.node else max(other.generation for other in self.seats.values())
        if self.holders.get(seat.node) == lead.name:
            del self.holders[seat.node]
        self.holders[node] = lead.name
        for one in self.index.crew(member):
            for timed in ("joining", "disowned"):
                self.since.pop(f"{timed}:{one.name}#{seat.generation}", None)
            self.seats[one.name] = Seat(member=one.name, node=node, generation=newest + 1)

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
        """Decide that the epoch of all who sit on the node of a member ends with it; a rank that has finished needs its
        node no more."""
        for one in self.index.crew(member):
            if one.name not in self.exits:
                self.break_gang(self.gang_of(one), reason)

    def end(self, outcome: Outcome) -> None:
        """Decide how the run ends; the first decision stands."""
        self.outcome = self.outcome or outcome

    def gang_of(self, member: Member) -> GangName:
        """Answer which gang a seat starts and restarts with."""
        return self.index.gangs[member.name]

    def of_gang(self, name: GangName) -> tuple[Member, ...]:
        """Answer the members of a gang."""
        return self.index.by_gang[name]

    def of_slice(self, part: Slice) -> tuple[Member, ...]:
        """Answer the members of a slice in rank order."""
        return self.index.by_slice[part.key]

    @property
    def started(self) -> bool:
        """Answer whether a rank was ever started."""
        return any(gang.epoch > 0 for gang in self.gangs.values())

    def over(self, name: GangName) -> bool:
        """Answer whether every rank of a gang has ended well: it needs nothing any more."""
        ended = (self.exits.get(member.name) for member in self.of_gang(name))
        return all(found is not None and found.ok for found in ended)

    def generations(self, part: Slice) -> tuple[int, ...]:
        """Answer the generation of each seat of a slice, in rank order."""
        return tuple(self.seats[member.name].generation for member in self.of_slice(part))

    def silence(self, node: NodeName) -> Silence:
        """Answer what may be thought of a node that we do not see."""
        held = self.holders.get(node)
        member = self.index.by_name[held] if held else None
        in_ray = self.ray.get((member.seat, self.seats[member.name].generation)) if member else None
        return silence(self.seen, self.since, node, head=self.head_node, in_ray=in_ray)

    def signs(self, node: NodeName) -> tuple[Sign, ...]:
        """Answer what a node shows that speaks against itself, but for what was found to be another's fault."""
        health = self.seen.health.get(node)
        if health is None or not health.signs:
            return ()
        excused = self.excused.get(node, ())
        return tuple(sign for sign in health.signs if sign.symptom.condemns and sign.words not in excused)

    def blind(self) -> bool:
        """Answer whether nothing of a run that has something there can be seen at all: then the fault is rather on our
        side. Of a launch on one machine it is rather that machine's."""
        views = self.seen.nodes.values()
        begun = self.started or (bool(self.asked) and len(views) > 1)
        return begun and isinstance(self.seen.head, Unseen) and all(isinstance(view, Unseen) for view in views)

    def record(self) -> Record:
        """Answer the record as it now stands."""
        return Record(
            receipts_seen=self.receipts_seen,
            seats=self.seats,
            gangs=self.gangs,
            exits=self.exits,
            asked=frozenset(self.asked),
            claimed=frozenset(self.claimed),
            joined=frozenset(self.joined),
            attempts=self.attempts,
            retries=self.retries,
            condemned=self.condemned,
            sweeps=tuple(self.sweeps.values()),
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
            began=self.began,
            ahead=self.ahead,
            resizing=self.resizing,
            newest=self.newest,
        )


def first_seats(run: Run) -> dict[MemberName, Seat]:
    """Answer who holds each seat when a run begins: the placement's nodes in rank order, generation 0."""
    parts = {part.key: part for part in run.placement.slices}
    return {
        member.name: Seat(member=member.name, node=parts[member.slice_key].nodes[member.slice_rank])
        for member in run.members()
    }
