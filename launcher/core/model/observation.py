"""What exists, as seen in one look; the next look replaces it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TypeAlias

from launcher.core.model.action_key import ActionKey
from launcher.core.model.nodeset import NodeName
from launcher.core.model.operator_requests import OperatorRequest
from launcher.core.model.receipt import Bundle, Receipt
from launcher.core.model.run import MemberName


class Symptom(IntEnum):
    """What a sign points to, the worst first.

    When one link dies a whole slice reports errors; the node that shows the worst symptom is at fault.
    """

    GPU_LOST = 0
    FATAL_LINK = 1
    MEMORY = 2
    FIRMWARE = 3
    NODE = 4
    SYMPATHETIC = 5
    APPLICATION = 6

    @property
    def fails_node(self) -> bool:
        """Whether it is a fault of the node itself, not of a peer or the program."""
        return self < Symptom.SYMPATHETIC


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """A symptom of a node, with the message or log line that shows it."""

    symptom: Symptom
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The newest health report of a node, at a time of the loop's clock (s).

    `hung` names probes that did not answer in time: a sign too, but none that fails a node alone.
    """

    at: float
    signs: tuple[Sign, ...] = ()
    hung: tuple[str, ...] = ()

    @property
    def worst(self) -> Symptom | None:
        """Return the worst symptom; None where nothing is wrong."""
        return min((sign.symptom for sign in self.signs), default=None)


class Phase(Enum):
    """The phase of something that an agent starts."""

    ABSENT = "absent"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A process that an agent watches.

    For `ray`, RUNNING is a live `ray start --block`, and FAILED one that ended. `message` says what the process does,
    if that is more than its name; where it copies files, `copied` and `to_copy` are bytes.
    """

    phase: Phase = Phase.ABSENT
    exit_code: int | None = None
    tail: tuple[str, ...] = ()
    generation: int = 0
    message: str = ""
    copied: int = 0
    to_copy: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStep:
    """The newest step of a rank by its heartbeat file.

    `own` is how long it worked itself in one step (s): the median over its last steps, `over` so many.
    """

    step: int
    over: int
    own: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """A rank of an attempt on a node.

    `exit_code` None with `running` False: it vanished. `ended_ago` is how long before the look it ended (s; clocks of
    nodes differ): None where the node cannot tell. `tail` is the end of the log of a failure. `quiet` is how long it
    has written nothing to its log and its heartbeat file (s), `step` what it says there. `ready` is whether its server
    is ready, None where it is not asked; `unready` for how long it has not been since it was (s).
    """

    member: MemberName
    attempt: int
    running: bool
    exit_code: int | None = None
    ended_ago: float | None = None
    tail: tuple[str, ...] = ()
    quiet: float = 0.0
    step: RankStep | None = None
    ready: bool | None = None
    unready: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
    """The report of our agent on a node, which holds the lease.

    `head_silent` is how long the head's machine has not answered it (s); None while it listens for no head.
    `head_unheard` is how long nothing on that machine took its heartbeats (s): a machine that refuses them answers.
    `head_bound`: it stops its node by itself when the head's agent on the same machine has ended or hangs. `fault` is
    the fault of the node itself behind something that failed there: nothing can be written or started.
    `mounts` are the troubles of mounted buckets, each with its path.
    """

    setup: Step = Step()
    ray: Step = Step()
    ranks: tuple[RankReport, ...] = ()
    head_silent: float | None = None
    head_unheard: float | None = None
    head_bound: bool = False
    fault: str = ""
    mounts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """We reached the node.

    Without `agent` no agent of this run is there; `leftovers` counts processes of the run without an agent.
    """

    agent: AgentReport | None = None
    leftovers: int = 0


class Refusal(Enum):
    """How a machine that answers keeps us out: what a person has to look at.

    A machine that was installed anew does one of the first two.
    """

    HOST_KEY = "host key has changed (re-imaged?)"
    LOGIN = "login refused (re-imaged?)"
    NO_JOB = "Slurm lets nobody in without a job there (allocation over?)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """We could not reach a machine; `message` says why, `refusal` where the machine itself keeps us out.

    `odd`: it answered, but not as an agent does. `silent` is for how long it has not answered, where it did before (s):
    a look shows what a node said last for some seconds. Never a reason to act by itself.
    """

    message: str
    refusal: Refusal | None = None
    odd: bool = False
    silent: float = 0.0


NodeView: TypeAlias = Seen | Unseen


class GroupState(Enum):
    """The state of a placement group in Ray's table."""

    PENDING = "PENDING"
    CREATED = "CREATED"
    RESCHEDULING = "RESCHEDULING"
    REMOVED = "REMOVED"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReport:
    """A slice's placement group in Ray: state, scheduling hint, bundles."""

    slice: str
    state: GroupState
    hint: str = ""
    bundles: tuple[Bundle, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNode:
    """A node in Ray's table, by the labels that we gave it."""

    slot: str
    generation: int
    domain: str | None
    alive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The report of the head's agent.

    `ready`: the supervisor is connected to Ray and answers. `pending` is what programs ask of Ray and do not get, while
    no GPU is in use. `dashboard` is the port of Ray's dashboard there, 0 for none, None while that is unknown. `heard`
    is how long ago the head heard the agent of each node with a slot (s). `fault` is the fault of its machine, as in
    `AgentReport`.
    """

    ray: Step = Step()
    ready: bool = False
    nodes: tuple[RayNode, ...] = ()
    groups: tuple[GroupReport, ...] = ()
    pending: tuple[str, ...] = ()
    dashboard: int | None = None
    heard: Mapping[NodeName, float] = field(default_factory=dict)
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """Whether a node of the run reaches another that we cannot see."""

    by: NodeName
    answers: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSeen:
    """We reached the head's machine; without `head` no head of this run is there."""

    head: Head | None = None
    leftovers: int = 0


HeadView: TypeAlias = HeadSeen | Unseen


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One look at all nodes of a run and its head.

    `reached` has nodes out of sight. `warnings` are for people, once each.
    """

    nodes: Mapping[NodeName, NodeView]
    head: HeadView
    reached: Mapping[NodeName, Reached] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """All that the kernel may know: a look, new receipts, actions under way.

    `reached` is what others say of nodes that we cannot see, `health` the newest report of each node. `requests` and
    `drained` (node: reason) come from operators; `suspects` are nodes that failures of programs, this run's too, speak
    against (node: reason). `room` names the groups that could have one more slice now. `kept_out` are quarantined nodes
    that may not come back by themselves yet. `at` is a time of the loop's clock (s), `wall` the time of day (s since
    the epoch), for what has to outlive a boot.
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
    suspects: Mapping[NodeName, str] = field(default_factory=dict)
    room: frozenset[str] = frozenset()
    kept_out: frozenset[NodeName] = frozenset()
    wall: float = 0.0
