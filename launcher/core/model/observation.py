"""What does exist, as seen in one look. Nothing here is remembered: the next look replaces it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from launcher.core.model.actions import Bundle, Receipt
from launcher.core.model.health import Health
from launcher.core.model.inventory import NodeName
from launcher.core.model.operator_requests import Order
from launcher.core.model.slots import MemberName


class Phase(Enum):
    """How far something that we start on a node has come."""

    ABSENT = "absent"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A process that a keeper watches. For `ray`, RUNNING is a live `ray start --block` and FAILED one that ended.

    `words` say what it is about, where that is not what its name says.
    """

    phase: Phase = Phase.ABSENT
    exit_code: int | None = None
    tail: tuple[str, ...] = ()
    generation: int = 0
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """A rank of an epoch on a node: running, or ended. `exit_code` None with `running` False: it vanished.

    `at` is the node's wall clock when it ended (s); `tail` the end of its log, given only for a failure. `quiet` is
    how long it has written nothing to its log and its heartbeat file (s).
    """

    member: MemberName
    epoch: int
    running: bool
    exit_code: int | None = None
    at: float = 0.0
    tail: tuple[str, ...] = ()
    quiet: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeper:
    """What our process on a node says: its lease is ours; setup, raylet and ranks stand so.

    `head_silent` is how long the head's host has answered it nothing (s); None while it has no head to listen for.
    """

    setup: Step = Step()
    ray: Step = Step()
    ranks: tuple[RankReport, ...] = ()
    head_silent: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """We reached the node. `keeper` None: none of this run lives there; `leftovers` counts processes of the run
    that have no keeper."""

    keeper: Keeper | None = None
    leftovers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """We could not look; `words` say why. Never a reason to act by itself."""

    words: str


NodeView: TypeAlias = Seen | Unseen


class GroupState(Enum):
    """What Ray's table says of a placement group."""

    PENDING = "PENDING"
    CREATED = "CREATED"
    RESCHEDULING = "RESCHEDULING"
    REMOVED = "REMOVED"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReport:
    """The placement group of a slice: Ray's state, its scheduling hint, and where its bundles are."""

    slice: str
    state: GroupState
    hint: str = ""
    bundles: tuple[Bundle, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNode:
    """A node as Ray's own table has it, by the labels that we gave it."""

    seat: str
    generation: int
    domain: str | None
    alive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What the head's keeper says; `ready` when the supervisor is connected to Ray and answers.

    `heard` is how long ago the head's keeper last heard the keeper of each node with a seat (s).
    """

    ray: Step = Step()
    ready: bool = False
    nodes: tuple[RayNode, ...] = ()
    groups: tuple[GroupReport, ...] = ()
    heard: Mapping[NodeName, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """What a node of the run says of another that we cannot see: its host answers, or it does not."""

    by: NodeName
    answers: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSeen:
    """We reached the head's machine; `head` None: no head of this run lives there."""

    head: Head | None = None
    leftovers: int = 0


HeadView: TypeAlias = HeadSeen | Unseen


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One look through the `Nodes` port at all the nodes of a run and at its head; `reached` has nodes out of sight."""

    nodes: Mapping[NodeName, NodeView]
    head: HeadView
    reached: Mapping[NodeName, Reached] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """All that the kernel may know of the world: one look, the receipts since the last, and what is under way.

    `reached` and `health` have what others say of nodes that we cannot see, and the newest that each said of itself.
    `orders` and `drained` (node: reason) are what operators ask; `history` counts, for each node, the other
    programs that began to fail on it in the last day. `at` is a time of the loop's clock, `wall` the time of day (s
    since the epoch), for what has to outlive a boot.
    """

    at: float
    nodes: Mapping[NodeName, NodeView]
    head: HeadView
    receipts: tuple[Receipt, ...] = ()
    in_flight: frozenset[str] = field(default_factory=frozenset)
    reached: Mapping[NodeName, Reached] = field(default_factory=dict)
    health: Mapping[NodeName, Health] = field(default_factory=dict)
    orders: tuple[Order, ...] = ()
    drained: Mapping[NodeName, str] = field(default_factory=dict)
    history: Mapping[NodeName, int] = field(default_factory=dict)
    wall: float = 0.0
