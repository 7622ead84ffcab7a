"""What can be done, each a primitive that is journalled on its own, with the reason for doing it.

Every action is idempotent: doing it twice, or again after a crash, leaves the same state. `key` names action and
subject; two actions with one key are the same act.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, TypeAlias

from launcher.core.model.inventory import RackName
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.run import GangName, MemberName, Slot


class Why(Enum):
    """The reasons that a sequence of actions carries."""

    START = "start"
    RESTART = "restart"
    REJOIN = "rejoin"
    REPLACE = "replace"
    MISPLACED = "misplaced"
    RELOCATE = "relocate"
    DRAIN = "drain"
    RESIZE = "resize"
    HEAD = "head"
    STOP = "stop"
    FINISHED = "finished"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why: one of a closed set, and a sentence for people."""

    why: Why
    message: str


class Level(Enum):
    """How much of what we started on a node a kill kills; each contains those after it."""

    NODE = "node"
    GENERATION = "generation"
    RANK = "rank"


class Unit(Enum):
    """Which of our agents on a machine: the one of a slot (holds the lease), or the one of the Ray head."""

    SLOT = "slot"
    HEAD = "head"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquire:
    """Take the node's lease and start its agent."""

    reason: Reason
    node: NodeName
    kind: Literal["acquire"] = "acquire"

    @property
    def key(self) -> str:
        """Return the name of this act: the same for the same act, however often it is decided."""
        return f"acquire:{self.node}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Put files on a claimed node and start `setup` of the member's group; returns before `setup` has ended."""

    reason: Reason
    node: NodeName
    member: MemberName
    kind: Literal["prepare"] = "prepare"

    @property
    def key(self) -> str:
        """Return the name of this act: the same for the same act, however often it is decided."""
        return f"prepare:{self.node}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartHead:
    """Start the Ray head of the run with its agent and supervisor, on its own storage if it was there before.

    A new `cluster` begins without storage, on the node where the run's head now is.
    """

    reason: Reason
    cluster: int = 0
    kind: Literal["start_head"] = "start_head"

    @property
    def key(self) -> str:
        """Return the name of this act: the same for the same act, however often it is decided."""
        return f"start_head@{self.cluster}" if self.cluster else "start_head"


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Start the raylet of a slot on its holder, labelled with levels and slot."""

    reason: Reason
    slot: Slot
    kind: Literal["join"] = "join"

    @property
    def key(self) -> str:
        """Return the name of this act: the same for the same act, however often it is decided."""
        return f"join:{self.slot.node}#{self.slot.generation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """Ask Ray for the placement group of a slice, one bundle a slot, pinned to slots and domain."""

    reason: Reason
    slice: str
    kind: Literal["reserve"] = "reserve"

    @property
    def key(self) -> str:
        """Return the name of this act: the same for the same act, however often it is decided."""
        return f"reserve:{self.slice}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreserve:
    """Remove the placement group of a slice."""

    reason: Reason
    slice: str
    kind: Literal["unreserve"] = "unreserve"

    @property
    def key(self) -> str:
        """Return the name of this act: the same for the same act, however often it is decided."""
        return f"unreserve:{self.slice}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """Ask Ray afresh where each bundle of a slice is; the receipt carries the answer."""

    reason: Reason
    slice: str
    kind: Literal["verify"] = "verify"

    @property
    def key(self) -> str:
        """Return the name of this act: the same for the same act, however often it is decided."""
        return f"verify:{self.slice}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start the ranks of a gang for an attempt. `slots` are the holders of every slot of the run, for addresses."""

    reason: Reason
    gang: GangName
    attempt: int
    restarts: int
    slots: tuple[Slot, ...]
    kind: Literal["start"] = "start"

    @property
    def key(self) -> str:
        """Return the name of this act: the same for the same act, however often it is decided."""
        return f"start:{self.gang}@{self.attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """Send the task's stop signal to every process of every rank on a node, or of those of one gang."""

    reason: Reason
    node: NodeName
    signal: str
    gang: GangName | None = None
    kind: Literal["signal"] = "signal"

    @property
    def key(self) -> str:
        """Return the name of this act: the same for the same act, however often it is decided."""
        return f"signal:{self.node}" if self.gang is None else f"signal:{self.node}:{self.gang}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """Kill what we started on a node at a level, by marker, until two scans are empty; the receipt says `killed`.

    RANK: ranks of `member` up to `attempt`. GENERATION: raylet and ranks up to `generation`. NODE: all of the run.
    `gang` is who must not start again before the receipt is there. `reused`: something of the run is to start there
    again, so that the GPUs of the slot have to be free of others too; where they are not, the receipt says so.
    """

    reason: Reason
    node: NodeName
    level: Level
    member: MemberName
    gang: GangName
    attempt: int = 0
    generation: int = 0
    reused: bool = False
    kind: Literal["kill"] = "kill"

    @property
    def key(self) -> str:
        """Return the name of this act: the same for the same act, however often it is decided."""
        return f"kill:{self.node}:{self.level.value}:{self.member}@{self.attempt}#{self.generation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Kill all of the run on a machine's unit, stop its agent and let go of the lease."""

    reason: Reason
    node: NodeName | None
    unit: Unit = Unit.SLOT
    kind: Literal["release"] = "release"

    @property
    def key(self) -> str:
        """Return the name of this act: the same for the same act, however often it is decided."""
        return f"release:{self.unit.value}:{self.node}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerOff:
    """Run the inventory's `fence_command` for a node that cannot be reached; the receipt says `powered_off`."""

    reason: Reason
    node: NodeName
    kind: Literal["power_off"] = "power_off"

    @property
    def key(self) -> str:
        """Return the name of this act: the same for the same act, however often it is decided."""
        return f"power_off:{self.node}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddSpare:
    """Take one more free node of a slice's own rack and domain into the run, as its spare; the receipt names it."""

    reason: Reason
    slice: str
    kind: Literal["add_spare"] = "add_spare"

    @property
    def key(self) -> str:
        """Return the name of this act: the same for the same act, however often it is decided."""
        return f"add_spare:{self.slice}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Relocate:
    """Place a whole slice again, without the nodes in `without` and all of `without_racks`; the receipt names its new
    nodes."""

    reason: Reason
    slice: str
    without: tuple[NodeName, ...] = ()
    without_racks: tuple[RackName, ...] = ()
    kind: Literal["relocate"] = "relocate"

    @property
    def key(self) -> str:
        """Return the name of this act: the same for the same act, however often it is decided."""
        return f"relocate:{self.slice}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """Make the run what it was asked to become, with more or fewer slices; no rank of it runs meanwhile."""

    reason: Reason
    kind: Literal["resize"] = "resize"

    @property
    def key(self) -> str:
        """Return the name of this act: the same for the same act, however often it is decided."""
        return "resize"


Action: TypeAlias = (
    Acquire
    | Prepare
    | StartHead
    | Join
    | Reserve
    | Unreserve
    | Verify
    | Start
    | Signal
    | Kill
    | Release
    | PowerOff
    | AddSpare
    | Relocate
    | Resize
)


class Result(Enum):
    """How an action ended. KILLED: nothing of it is left, seen twice. HELD: somebody else has the lease. NOT_FREE:
    nothing of ours is left, but somebody else computes on the GPUs, or it cannot be told whether anybody does."""

    DONE = "done"
    KILLED = "killed"
    POWERED_OFF = "powered_off"
    HELD = "held"
    NOT_FREE = "not_free"
    CANNOT_TELL = "cannot_tell"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Where Ray says a bundle is: the labels of its node, None while it has none."""

    index: int
    slot: str | None
    domain: str | None
    generation: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of an action. `words` say what went wrong or who holds the lease; `tail` the last lines of stderr.

    `notes` are what was decided on the way, `warnings` what a person should see to although it goes on; `nodes` are
    those that a slice got. `lasting` says of a failure that the same would come of it again.
    """

    result: Result
    stage: str = ""
    message: str = ""
    tail: tuple[str, ...] = ()
    bundles: tuple[Bundle, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    nodes: tuple[NodeName, ...] = ()
    lasting: bool = False
    elapsed: float = 0.0

    @property
    def said(self) -> str:
        """Return what came of it, for people: the result, its words, and where Ray has each bundle."""
        domains = sorted({bundle.domain or "no domain" for bundle in self.bundles})
        slots = {
            domain: fold(b.slot or f"bundle {b.index}" for b in self.bundles if (b.domain or "no domain") == domain)
            for domain in domains
        }
        placed = "; ".join(f"Ray has {slots[domain]} in {domain}" for domain in domains)
        return ": ".join(part for part in (self.result.value, self.message, placed, *self.notes) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The journalled answer to one action; `seq` orders the receipts of a run."""

    seq: int
    at: float
    action: Action
    answer: Answer = field(default_factory=lambda: Answer(result=Result.DONE))


def must_wait(action: Action, in_flight: Iterable[str]) -> bool:
    """Whether something under way has to end before an action may begin.

    A fence that does not wait for what it fences is escaped by what comes up behind it; a lease that is taken while
    it is still being let go of is lost again.
    """
    match action:
        case Acquire():
            return f"release:{Unit.SLOT.value}:{action.node}" in in_flight
        case StartHead():
            return _any(in_flight, f"release:{Unit.HEAD.value}:")
        case Kill(level=Level.RANK):
            return _any(in_flight, f"start:{action.gang}@")
        case Kill():
            return _any(in_flight, f"join:{action.node}#")
        case Resize():
            return any(_any(in_flight, beginning) for beginning in ("start:", "add_spare:", "relocate:"))
        case _:
            return False


def _any(in_flight: Iterable[str], beginning: str) -> bool:
    return any(key.startswith(beginning) for key in in_flight)
