"""What the launcher and the agents of nodes send each other: one end builds it, the other reads it, mypy checks both.

The launcher imports nothing else here than this and its parts, `protocol_*.py`. Nodes have Python 3.10 and its standard
library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired

    from .protocol_buckets import BucketsSpec, MountRow
    from .protocol_containers import ContainersRequest, ImageRequest
    from .protocol_files import (
        EnvironmentRequest,
        NodeFault,
        RankSpec,
        RendezvousQuestion,
        SetupStep,
        StepStatus,
        Variables,
        WorkersFile,
    )
    from .protocol_ray import GroupStatus, RayNodeStatus
    from .protocol_views import NodeViews

PROTOCOL = 2
"""Raised with each change of what is sent. Every request and every status carries it, and both ends compare it."""

ALWAYS_ANSWERED = ("hello", "stop")  # whatever their protocol: is it there, and end


def mismatch(theirs: object) -> str:
    """Return how the other end's protocol differs; an empty string where not."""
    message = f"protocol {theirs or 'unknown'}, not {PROTOCOL}: the launcher and the agent are of different versions"
    return "" if theirs == PROTOCOL else message


class PlainRequest(TypedDict):
    """Report the ports of the agent (`hello`), or kill all and end (`stop`)."""

    op: Literal["hello", "stop"]
    force: NotRequired[bool]  # of an agent that has not answered: do not ask it again
    rendezvous: NotRequired[RendezvousQuestion]  # with `hello`: choose a port too


class StatusRequest(TypedDict):
    """Report how setup, Ray and ranks stand."""

    op: Literal["status"]
    head: NotRequired[tuple[str, int]]  # where an agent without a slot finds the head's heartbeat server
    probe: NotRequired[dict[str, tuple[str, list[int]]]]  # machines to connect to, by name: address and ports
    images: NotRequired[dict[str, str]]  # what the content of images is, for all nodes


class ViewsRequest(TypedDict):
    """Report what has changed on the nodes of a head since a number of an epoch."""

    op: Literal["views"]
    since: tuple[str, int]


class PrepareRequest(TypedDict):
    """Keep secrets, ask for files that are missing, run the setups once."""

    op: Literal["prepare"]
    variables: Variables | None
    setups: list[SetupStep]
    secrets: dict[str, str]
    workdir: bool
    containers: NotRequired[ContainersRequest]
    buckets: NotRequired[BucketsSpec]


class RayRequest(TypedDict):
    """Start `ray start --block` for a generation."""

    op: Literal["ray"]
    generation: int
    argv: list[str]
    env: dict[str, str]
    member: NotRequired[str]  # of a slot
    head: NotRequired[tuple[str, int]]  # for a slot: where the head's heartbeat server is
    head_scratch: NotRequired[str]  # the scratch folder of the head's agent, where it is on the same machine
    client: NotRequired[int]  # the port of a head's client server
    workers: NotRequired[WorkersFile]  # of a slot whose Ray workers run the user's code
    supervisor: NotRequired[str]  # the address of a head, for its supervisor


class KillRequest(TypedDict):
    """Kill what was started at a level."""

    op: Literal["kill"]
    level: Literal["node", "generation", "rank"]
    member: NotRequired[str]
    generation: NotRequired[int]
    attempt: NotRequired[int]
    grace: NotRequired[float]  # s between SIGTERM and SIGKILL


class SignalRequest(TypedDict):
    """Send a signal to the ranks on the node, or to those of one gang."""

    op: Literal["signal"]
    signal: str
    gang: NotRequired[str]


class DriveRequest(TypedDict):
    """Start a driver: a rank under the agent, with the Python of the run's Ray."""

    op: Literal["drive"]
    label: str
    spec: RankSpec
    mark: str


class SupervisorRequest(TypedDict):
    """Ask the supervisor of the head, which answers within `timeout` seconds."""

    op: Literal["supervisor"]
    question: SupervisorQuestion
    timeout: float


AgentRequest: TypeAlias = (
    "PlainRequest | StatusRequest | ViewsRequest | PrepareRequest | RayRequest | KillRequest | SignalRequest"
    " | DriveRequest | EnvironmentRequest | SupervisorRequest | ImageRequest"
)


class VerifyRequest(TypedDict):
    """Read Ray's tables anew: the placement group of a slice alone, or all."""

    op: Literal["verify"]
    timeout: float
    slice: NotRequired[str]


class ReserveRequest(TypedDict):
    """Create the placement group of a slice, packed on the label in `within`.

    Without `bundles` it is one that takes all of the nodes labelled with `slots`.
    """

    op: Literal["reserve"]
    slice: str
    bundles: list[dict[str, float]]
    slots: list[str]
    within: dict[str, str]


class UnreserveRequest(TypedDict):
    """Remove the placement group of a slice."""

    op: Literal["unreserve"]
    slice: str


class DrainRequest(TypedDict):
    """Tell Ray that the raylet of a slot is drained at `deadline` (s since the epoch)."""

    op: Literal["drain"]
    slot: str
    generation: int
    deadline: float
    reason: str


class RankStart(TypedDict):
    """A rank to start, in the actor of its slot, on a bundle of its slice."""

    slot: str
    label: str
    actor: str
    slice: str
    index: int
    bundle: dict[str, float]
    mark: str
    spec: RankSpec


class StartRequest(TypedDict):
    """Start ranks. What their variables share is on the head already."""

    op: Literal["start"]
    shared: str
    ranks: list[RankStart]
    timeout: float


SupervisorQuestion: TypeAlias = (
    "StatusRequest | VerifyRequest | ReserveRequest | UnreserveRequest | DrainRequest | StartRequest"
)


class Reply(TypedDict):
    """What every reply has. Where it is not `ok`, `message` says why."""

    ok: bool
    protocol: NotRequired[int]  # that of the agent
    message: NotRequired[str]
    odd: NotRequired[bool]  # set by the launcher: what came was no reply of an agent
    tail: NotRequired[list[str]]  # the last lines of a log
    lasting: NotRequired[bool]  # the same request would fail again
    fault: NotRequired[NodeFault]  # the node is to blame
    absent: NotRequired[bool]  # nothing of the run is on the machine
    block: NotRequired[int]  # the agent's first port
    warnings: NotRequired[list[str]]  # of an agent that has started: what a person should look at
    port: NotRequired[int]  # for rendezvous
    held_by: NotRequired[str]  # who holds the lease instead
    need: NotRequired[Literal["workdir", "wheels", "rclone", "images"]]  # what has to be sent first
    machine: NotRequired[str]  # the architecture that a program is needed for
    missing: NotRequired[list[int]]  # the contents of it that have to be sent
    left: NotRequired[list[int]]  # processes that are alive after a kill
    count: NotRequired[int]  # processes that were sent a signal
    identity: NotRequired[str]  # the content of an image that is fixed for the run


class EnvironmentReply(Reply):
    """What a program beside the agent starts with."""

    base: NotRequired[dict[str, str]]
    secrets: NotRequired[str]
    agent: NotRequired[int]
    deadline: NotRequired[str]
    umask: NotRequired[int]  # that of the login; this and the next are of agents that read start files
    login: NotRequired[bool]  # programs read `~/.bashrc`


class ProgramStatus(TypedDict):
    """How setup or `ray start` stands."""

    phase: Literal["absent", "running", "done", "failed"]
    generation: int
    message: str
    copied: NotRequired[int]  # bytes, of what is being copied there
    to_copy: NotRequired[int]
    exit_code: NotRequired[int]
    tail: NotRequired[list[str]]


class RankStatusRow(TypedDict):
    """How a rank of an attempt stands; one that vanished has no exit code."""

    member: str
    attempt: int
    running: bool
    quiet: NotRequired[float]  # s since its log or heartbeat file changed
    step: NotRequired[StepStatus]  # what it says in its heartbeat file
    ready: NotRequired[bool]  # of one whose server is asked
    unready: NotRequired[float]  # s since its server was ready last
    exit_code: NotRequired[int | None]
    ended_ago: NotRequired[float]  # s since it ended, by a clock that nobody sets
    tail: NotRequired[list[str]]


class TablesReply(Reply):
    """Ray's tables; `ready` where they are a few seconds old at most."""

    ready: NotRequired[bool]
    nodes: NotRequired[list[RayNodeStatus]]
    groups: NotRequired[list[GroupStatus]]
    faults: NotRequired[dict[str, NodeFault]]  # by label, of ranks that did not start for a fault of their node
    pending: NotRequired[list[str]]  # what Ray cannot place, while no GPU is in use
    dashboard: NotRequired[int]  # its port there, 0 for none


class StatusReply(Reply):
    """How everything stands on a node."""

    agent: NotRequired[int | None]
    leftovers: NotRequired[int]  # where there is no agent
    member: NotRequired[str | None]
    ray: NotRequired[ProgramStatus]
    setup: NotRequired[ProgramStatus]
    ranks: NotRequired[list[RankStatusRow]]
    mounts: NotRequired[list[MountRow]]
    head_silence: NotRequired[float | None]
    head_unheard: NotRequired[float | None]
    followed: NotRequired[str | None]  # the address of the head that these two are about
    head_bound: NotRequired[bool]  # no slot outlives the head's agent on the same machine
    refusal: NotRequired[str]  # in place of a reply: how the machine keeps the launcher out
    silent: NotRequired[float]  # in place of a reply: s since the request that was answered last
    reachable: NotRequired[dict[str, bool]]
    version: NotRequired[tuple[str, int]]  # of this agent's status: its name for itself, and a number that rises
    texts: NotRequired[int]  # a checksum of the messages of `ray` and `setup`, which are not sent to the head
    views: NotRequired[NodeViews]  # in place of all others but the protocol
    heartbeat_ages: NotRequired[dict[str, float]]
    listening: NotRequired[float]
    supervisor: NotRequired[TablesReply]
    fault: NotRequired[NodeFault]  # the node is to blame for what has failed on it
    images: NotRequired[dict[str, str]]  # contents of images that were found here first
