"""One tick: what was seen, the record as it changes, and what stages have found."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from launcher.core.control.liveness import HeadPlace, Silence, ray_table, silence
from launcher.core.control.resized_record import first_slots, fit_to_run
from launcher.core.control.timing import LONGEST_WAIT_S, WITNESS_S
from launcher.core.model.action_key import ActionKey, InFlight, key_of
from launcher.core.model.actions import Action, Kill, Level, Reason
from launcher.core.model.inventory import RackName
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import AgentReport, Head, HeadSeen, Observation, Phase, Seen, Sign, Unseen
from launcher.core.model.placement import Slice
from launcher.core.model.record import Evidence, Gang, Outcome, Record, Retry
from launcher.core.model.run import GangName, Member, MemberName, Run, Slot
from launcher.core.model.run_index import index_of

if TYPE_CHECKING:  # `conditions` judges a slot of a tick
    from launcher.core.control.conditions import Condition

_K = TypeVar("_K")


class Tick:
    """A decision in the making, handed from stage to stage.

    Given: `run` and its `index`, `seen`, `in_flight` (actions under way), `ray` (Ray's table of raylets).
    Changed: `record`, a copy of the stored record, with its `kills` and `retries` by key; `holders`, the member whose
    slot a node holds; `started`, whether a rank was ever started.
    Found for later stages: `leaving`, nodes whose slots have to go to other nodes now; `awaited`, silent nodes that a
    launch waits for; `head_moved`, whether the head's machine is another than the one seen; `served`, slots whose rank
    is known to run; `conditions` of all slots, once fixed; `leases_complete`: all nodes that the run needs are leased.
    Found for the caller: `actions`; `doubted`, nodes whose health has to be asked now; `hold_reason`, why the run is on
    hold; `notes` for people; `tail`, the last lines of a failed rank; `wake_at`, when to look again (s).
    """

    def __init__(self, run: Run, seen: Observation, record: Record) -> None:
        self.run = run
        self.seen = seen
        self.index = index_of(run)
        self.in_flight = InFlight(seen.in_flight)
        self.ray = ray_table(seen)
        self.record = record.copy()
        fit_to_run(self.record, run, self.index)
        slots = self.record.slots = self.record.slots or first_slots(run)
        self.record.gangs = self.record.gangs or {name: Gang() for name in self.index.by_gang}
        self.kills: dict[ActionKey, Kill] = {key_of(kill): kill for kill in self.record.kills}
        self.retries: dict[ActionKey, Retry] = dict(self.record.retries)
        self.holders: dict[NodeName, MemberName] = {
            slots[member.name].node: member.name for member in self.index.members if member.colocated_with is None
        }
        self.started = any(gang.attempt > 0 for gang in self.record.gangs.values())
        self.leaving: set[NodeName] = set()
        self.awaited: set[NodeName] = set()
        self.head_moved = False
        self.served: dict[MemberName, Slot] = {}
        self.conditions: dict[MemberName, Condition] = {}
        self.leases_complete = False
        self.actions: dict[ActionKey, Action] = {}
        self.doubted: set[NodeName] = set()
        self.hold_reason: str | None = None
        self.notes: list[str] = []
        self.tail: tuple[str, ...] = ()
        self.wake_at = float("inf")
        self._fencing = Counter(kill.node for kill in self.kills.values() if kill.level is not Level.RANK)
        self.record.newest_generation = max(self.record.newest_generation, *(one.generation for one in slots.values()))
        self._idle: dict[str, tuple[NodeName, ...]] = {}
        self._just_silent: dict[RackName, tuple[NodeName, ...]] = {}
        self._starting = set(self._to_start())

    # What is seen.

    def sees(self, node: NodeName) -> bool:
        """Whether a node was reached."""
        return isinstance(self.seen.nodes.get(node), Seen)

    def agent(self, node: NodeName) -> AgentReport | None:
        """Return the report of a node's agent; None where none is seen."""
        return view.agent if isinstance(view := self.seen.nodes.get(node), Seen) else None

    def signs(self, node: NodeName) -> tuple[Sign, ...]:
        """Return the signs of a fault of the node itself, without excused ones."""
        health = self.seen.health.get(node)
        if health is None or not health.signs:
            return ()
        excused = self.record.excused.get(node, ())
        return tuple(sign for sign in health.signs if sign.symptom.fails_node and sign.message not in excused)

    @property
    def head_node(self) -> NodeName | None:
        """Return the node that has or gets the head; None for the inventory's machine."""
        return self.record.head or self.run.head

    def head(self) -> Head | None:
        """Return the head if it can be asked now, else None."""
        head = self._head_seen()
        return head if head is not None and head.ray.phase is Phase.RUNNING and head.ready else None

    def head_begun(self) -> bool:
        """Whether the head's Ray of this cluster runs; raylets may wait until it is ready."""
        head = self._head_seen()
        return head is not None and head.ray.phase is Phase.RUNNING and head.ray.generation >= self.record.cluster

    def _head_seen(self) -> Head | None:
        return self.seen.head.head if isinstance(self.seen.head, HeadSeen) and not self.head_moved else None

    def blind(self) -> bool:
        """Whether nothing of a run that has begun can be seen: the fault is likely ours.

        For a launch on one machine it is more likely that machine.
        """
        begun = self.started or (bool(self.record.requested) and len(self.seen.nodes) > 1)
        return begun and self._all_unseen

    @cached_property
    def _all_unseen(self) -> bool:
        return isinstance(self.seen.head, Unseen) and all(isinstance(view, Unseen) for view in self.seen.nodes.values())

    def quiet(self, node: NodeName) -> float:
        """Return for how long a node has been out of sight (s)."""
        return self.seen.at - self.record.since.unseen.get(node, self.seen.at)

    def silence(self, node: NodeName) -> Silence:
        """Return what the witnesses say of a node out of sight."""
        owner = self.index.by_name[self.holders[node]] if node in self.holders else None
        in_ray = self.in_ray(owner) if owner else None
        head = HeadPlace.of(self.head_node, self.record, self.index)
        return silence(self.seen, node, quiet=self.quiet(node), head=head, in_ray=in_ray)

    def in_ray(self, member: Member) -> bool | None:
        """Whether Ray lists the raylet of a slot as alive; None where Ray does not list it."""
        return self.ray.get(((slot := self.record.slots[member.name]).label(member), slot.generation))

    def just_silent(self, rack: RackName) -> Sequence[NodeName]:
        """Return the nodes of a rack that have only just fallen silent."""
        if rack not in self._just_silent:
            ours = [name for name in self.index.racks.get(rack, ()) if name in self.record.requested]
            self._just_silent[rack] = tuple(
                name for name in ours if not self.sees(name) and self.quiet(name) < WITNESS_S
            )
        return self._just_silent[rack]

    def node_of(self, member: Member) -> NodeName:
        """Return the node that holds a slot."""
        return self.record.slots[member.name].node

    def gang_of(self, member: Member) -> Gang:
        """Return the counters of the gang of a slot."""
        return self.record.gangs[self.index.gangs[member.name]]

    def has_to_start(self, member: Member) -> bool:
        """Whether a gang with a rank in the slice of a slot has to start."""
        return member.slice_key in self._starting

    def _to_start(self) -> Iterator[str]:
        for name, gang in self.record.gangs.items():
            if gang.attempt == 0 or gang.broken:
                yield from (member.slice_key for member in self.index.by_gang[name])

    def over(self, name: GangName) -> bool:
        """Whether every rank of a gang has ended with 0."""
        exits = self.record.exits
        return all(member.name in exits and exits[member.name].ok for member in self.index.by_gang[name])

    def idle(self, part: Slice) -> Sequence[NodeName]:
        """Return the nodes and spares of a slice that hold no slot."""
        if part.key not in self._idle:
            self._idle[part.key] = tuple(name for name in (*part.nodes, *part.spares) if name not in self.holders)
        return self._idle[part.key]

    # What to do, and when to look again.

    def do(self, action: Action) -> None:
        """Add an action, unless it is under way, backed off, or blocked by another."""
        key = key_of(action)
        if self.in_flight.has(key) or key in self.actions:
            return
        retry = self.retries.get(key)
        if retry and retry.at > self.seen.at:
            self.wake(retry.at)
        elif not self.in_flight.blocks(action):
            self.actions[key] = action

    def wake(self, at: float) -> None:
        """Look again at that time (s), or earlier."""
        self.wake_at = min(self.wake_at, at)

    def hold(self, reason: str) -> None:
        """Put the run on hold; the first reason stands."""
        self.hold_reason = self.hold_reason or reason

    def lasted(self, timers: dict[_K, float], subject: _K) -> float:
        """Return for how long a timer has run (s); starts it."""
        return self.seen.at - timers.setdefault(subject, self.seen.at)

    def back_off(self, key: ActionKey, longest: float = LONGEST_WAIT_S) -> Retry:
        """Count one more failure of an action, and return it: it is tried again later."""
        retry = self.retries[key] = self.retry_after(self.retries.get(key), longest)
        return retry

    def retry_after(self, before: Retry | None, longest: float = LONGEST_WAIT_S) -> Retry:
        """Return one more failure in a row: waits double from 1 s up to `longest`."""
        count = before.count + 1 if before else 1
        return Retry(count=count, at=self.seen.at + min(2.0 ** min(count - 1, 10), longest))

    # Changes of the record that keep its parts together.

    def kill(self, kill: Kill) -> None:
        """Decide a kill: it is asked for each tick until its receipt says `killed`."""
        if self.kills.setdefault(key_of(kill), kill) is kill and kill.level is not Level.RANK:
            self._fencing[kill.node] += 1

    def fencing(self, node: NodeName) -> bool:
        """Whether a kill of more than ranks is decided on a node and has no receipt."""
        return bool(self._fencing) and self._fencing[node] > 0

    def drop_kill(self, key: ActionKey) -> None:
        """Drop a kill that has its receipt, or that has nothing left to kill."""
        kill = self.kills.pop(key, None)
        if kill is not None and kill.level is not Level.RANK:
            self._fencing[kill.node] -= 1

    def kill_rank(self, member: Member, attempt: int, reason: Reason) -> None:
        """Decide to kill the ranks of a slot up to an attempt, on the node that holds it."""
        node, gang = self.node_of(member), self.index.gangs[member.name]
        self.kill(Kill(reason=reason, node=node, level=Level.RANK, member=member.name, gang=gang, attempt=attempt))

    def kill_slot(self, member: Member, reason: Reason) -> None:
        """Decide to kill raylet and ranks on the node of a slot, up to its generation.

        Each colocated member has a kill of its own: its gang must not start before that has succeeded.
        """
        for one in self.index.colocated(member):
            slot, gang = self.record.slots[one.name], self.index.gangs[one.name]
            node, level, upto = slot.node, Level.GENERATION, slot.generation
            self.kill(Kill(reason=reason, node=node, level=level, member=one.name, gang=gang, generation=upto))

    def fail_node(self, node: NodeName, evidence: Evidence) -> None:
        """Start nothing on a node again, unless it recovers; the first evidence stands."""
        if self.record.failed_nodes.setdefault(node, evidence) is evidence:
            self.record.since.failed.setdefault(node, self.seen.at)

    def blame(self, node: NodeName, evidence: Evidence) -> None:
        """Count a failed attempt of a node, and fail the node when it has no more."""
        if node not in self.record.failed_nodes:
            attempts = self.record.node_attempts[node] = self.record.node_attempts.get(node, 0) + 1
            if attempts > self.index.node_attempts(node):
                self.fail_node(node, evidence)

    def new_generation(self, after: int | None = None) -> int:
        """Return a generation that no raylet has had; `after` one of a slot that stays, the next of that slot."""
        found = (self.record.newest_generation if after is None else after) + 1
        self.record.newest_generation = max(self.record.newest_generation, found)
        return found

    def hold_at(self, node: NodeName, owner: MemberName, before: NodeName) -> None:
        """Note that a slot has moved to a node from the one `before`, or stays."""
        if self.holders.get(before) == owner:
            del self.holders[before]
        self.holders[node] = owner
        for moved in {before, node} & self.index.slice_of.keys():
            self._idle.pop(self.index.slice_of[moved].key, None)

    def break_gang(self, name: GangName, reason: Reason, *, spend: bool = False) -> None:
        """End the attempt of a gang and kill its ranks; `spend` counts a restart."""
        gang = self.record.gangs[name]
        if gang.attempt == 0 or gang.broken:
            return  # the first reason stands
        self.record.gangs[name] = Gang(attempt=gang.attempt, restarts=gang.restarts + spend, broken=reason)
        told = name in self.record.since.draining  # an exit is the answer to our signal then
        for member in self.index.by_gang[name]:
            ended = self.record.exits.pop(member.name, None)
            if ended is not None and not told:
                self.record.ended[member.name] = ended
            self.kill_rank(member, gang.attempt, reason)
            self._starting.add(member.slice_key)

    def resume_gang(self, name: GangName) -> None:
        """Take back that the attempt of a gang has failed: every rank of it had ended with 0."""
        self.record.gangs[name] = replace(self.record.gangs[name], broken=None)
        self._starting = set(self._to_start())

    def break_gangs_at(self, member: Member, reason: Reason) -> None:
        """End the attempts on the node of a slot, but of ranks that have finished."""
        for one in self.index.colocated(member):
            if one.name not in self.record.exits:
                self.break_gang(self.index.gangs[one.name], reason)

    def end(self, outcome: Outcome) -> None:
        """Decide how the run ends; the first decision stands."""
        self.record.outcome = self.record.outcome or outcome

    def finished_record(self) -> Record:
        """Return the record as the stages have left it."""
        self.record.kills, self.record.retries = list(self.kills.values()), list(self.retries.items())
        return self.record
