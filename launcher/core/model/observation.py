"""What does exist, as seen in one look. Nothing here is remembered: the next look replaces it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TypeAlias

from launcher.core.model.action_key import ActionKey
from launcher.core.model.actions import Bundle, Receipt
from launcher.core.model.nodeset import NodeName
from launcher.core.model.operator_requests import OperatorRequest
from launcher.core.model.run import MemberName


class Symptom(IntEnum):
    """What a sign points to, the worst first: when one link dies a whole slice reports errors, and the node that shows
    the worst is the one at fault."""

    GPU_LOST = 0
    FATAL_LINK = 1
    MEMORY = 2
    FIRMWARE = 3
    NODE = 4
    SYMPATHETIC = 5
    APPLICATION = 6

    @property
    def fails_node(self) -> bool:
        """Whether it speaks against the node itself, not against a peer or the program."""
        return self < Symptom.SYMPATHETIC


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """Something that a node shows, and the words or log line that show it."""

    symptom: Symptom
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What was found when a node was last asked about itself, at a time of the loop's clock (s).

    `hung` names what did not answer in its time: a signal too, but not one that fails alone.
    """

    at: float
    signs: tuple[Sign, ...] = ()
    hung: tuple[str, ...] = ()

    @property
    def worst(self) -> Symptom | None:
        """Return the worst symptom; None where nothing is wrong."""
        return min((sign.symptom for sign in self.signs), default=None)


class Phase(Enum):
    """How far something that we start on a node has come."""

    ABSENT = "absent"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A process that an agent watches. For `ray`, RUNNING is a live `ray start --block` and FAILED one that ended.

    `words` say what it is about, where that is not what its name says.
    """

    phase: Phase = Phase.ABSENT
    exit_code: int | None = None
    tail: tuple[str, ...] = ()
    generation: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """A rank of an attempt on a node: running, or ended. `exit_code` None with `running` False: it vanished.

    `at` is the node's wall clock when it ended (s); `tail` the end of its log, given only for a failure. `quiet` is
    how long it has written nothing to its log and its heartbeat file (s).
    """

    member: MemberName
    attempt: int
    running: bool
    exit_code: int | None = None
    at: float = 0.0
    tail: tuple[str, ...] = ()
    quiet: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
    """What our process on a node says: its lease is ours; setup, raylet and ranks stand so.

    `head_silent` is how long the head's host has answered it nothing (s); None while it has no head to listen for.
    """

    setup: Step = Step()
    ray: Step = Step()
    ranks: tuple[RankReport, ...] = ()
    head_silent: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """We reached the node. `agent` None: none of this run lives there; `leftovers` counts processes of the run
    that have no agent."""

    agent: AgentReport | None = None
    leftovers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """We could not look; `words` say why. Never a reason to act by itself."""

    message: str


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

    slot: str
    generation: int
    domain: str | None
    alive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What the head's agent says; `ready` when the supervisor is connected to Ray and answers.

    `heard` is how long ago the head's agent last heard the agent of each node with a slot (s).
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
    in_flight: frozenset[ActionKey] = field(default_factory=frozenset)
    reached: Mapping[NodeName, Reached] = field(default_factory=dict)
    health: Mapping[NodeName, Health] = field(default_factory=dict)
    requests: tuple[OperatorRequest, ...] = ()
    drained: Mapping[NodeName, str] = field(default_factory=dict)
    history: Mapping[NodeName, int] = field(default_factory=dict)
    wall: float = 0.0
