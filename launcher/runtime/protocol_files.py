"""The files of a run on a node, and the input of programs there.

A part of `protocol.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict, final

if TYPE_CHECKING:
    from typing_extensions import NotRequired

BEGAN = "began.json"
"""The file in a run's folder that says when the run began there (s since boot)."""

KEY = "key"
"""The file in a run's folder with a key for heartbeats, as hexadecimal: the run's at its head, the node's elsewhere."""
NODE_ERRORS = {
    "ENOSPC": "No space left on device",
    "EDQUOT": "Disk quota exceeded",
    "EROFS": "Read-only file system",
    "EIO": "Input/output error",
    "EMFILE": "Too many open files",
    "ENFILE": "Too many open files in system",
    "EAGAIN": "Resource temporarily unavailable",
}
"""Errors of a write or a start for which the node is to blame, and what Linux calls them."""

SHARED = "shared"
"""The folder in a run's folder for documents of shared variables, each named by the hash of its content."""


class NodeFault(TypedDict):
    """An error for which a node is to blame: at which stage, of which file (empty: none), and its name in errno.h."""

    stage: str
    path: str
    errno: str


MAX_LIST = 120 * 1024
"""Bytes of a variable that is a list; Linux starts no program with one of 128 KiB (MAX_ARG_STRLEN)."""


def described(fault: NodeFault) -> str:
    """Return a fault as a sentence."""
    what = "start anything more" if fault["errno"] in ("EAGAIN", "EMFILE", "ENFILE") else "write"
    where = f" `{fault['path']}`" if fault["path"] and what == "write" else ""
    return f"cannot {what}{where}: {NODE_ERRORS[fault['errno']].lower()} ({fault['errno']})"


def node_key(run_key: bytes, place: str) -> bytes:
    """Return the key of a node for its heartbeats, derived from that of the run."""
    import hmac

    return hmac.digest(run_key, b"node " + place.encode(), "sha256")


class SharedDocument(TypedDict):
    """What the variables of all ranks have in common.

    A node is sent it once, as packed JSON.
    """

    envs: dict[str, dict[str, str]]  # the task's variables by group
    addresses: dict[str, str]  # of each group's members, one a line in rank order


class Variables(TypedDict):
    """The variables of a setup or a rank.

    `own` replace those of the group, and these replace the node's.
    """

    shared: str  # the name of the shared document
    group: str
    node: dict[str, str]
    own: dict[str, str]
    addresses: dict[str, str]  # variables of ours whose value are the addresses of a group


def given(document: SharedDocument, variables: Variables) -> dict[str, str]:
    """Return the variables that inventory and task give a program."""
    return {**variables["node"], **document["envs"][variables["group"]]}


def own(document: SharedDocument, variables: Variables) -> dict[str, str]:
    """Return the variables that nvlaunch gives a program."""
    addresses = {name: document["addresses"][group] for name, group in variables["addresses"].items()}
    return {**variables["own"], **addresses}


class PortsSpec(TypedDict):
    """The blocks of ports that an agent may take one of."""

    starts: list[int]
    pinned: int  # how many of a block have to be free
    locks: list[str]
    holder: str
    fixed: bool  # never take another block than before


class WheelsSpec(TypedDict):
    """A folder of wheels: on the node, or else sent by the launcher."""

    at: str
    sent: list[tuple[str, str]] | None  # names and hashes of their contents


class InterpreterSpec(TypedDict):
    """The Python environment that is made for Ray."""

    ray: str
    extra: NotRequired[str]  # of Ray, as in `ray[default]`
    wheels: WheelsSpec | None
    env: dict[str, str]  # for `pip` and `uv`


class AgentSpec(TypedDict):
    """`agent.json`: what an agent is started with."""

    protocol: int
    run: str
    place: str
    holder: str  # what a lease says of its holder
    scratch: str
    socket: str
    lease: list[str]
    ports: PortsSpec
    heartbeat: int | None  # offset of the heartbeat port in the block of a head
    self_stop: float
    population: float
    abandoned: float  # s after which an agent ends that has stopped its node, and that no launcher asks
    login: bool  # programs have the variables of a login
    nested: bool  # the folder of a run has one for each node
    ray: str  # the minor release that the interpreter must have
    interpreter: InterpreterSpec | None
    image_ray: NotRequired[bool]  # Ray is that of an image instead


class ReadinessSpec(TypedDict):
    """A request to the server of a rank: a POST of `body` where there is one; variables are not expanded yet."""

    path: str
    port: int
    timeout: float
    headers: dict[str, str]
    body: NotRequired[str]


class ReadyFile(TypedDict):
    """`ready.json`: whether a server is ready, or ever `was`, `since` when (s since boot), and why it is not."""

    ready: bool
    was: bool
    since: float
    message: str


class RankSpec(TypedDict):
    """`spec.json`: a rank of an attempt; `script` is relative to the run's folder."""

    member: str
    gang: str
    attempt: int
    script: str
    variables: Variables
    secrets: NotRequired[list[str]]  # the names of those that its group declares; absent: all
    python: NotRequired[str]  # of a driver: the interpreter that has Ray
    readiness: NotRequired[ReadinessSpec]  # of a rank whose server is asked whether it is ready


WORKERS = "workers.json"
"""The file in a run's folder on a node whose Ray workers run the user's code."""


class WorkersFile(TypedDict):
    """`workers.json`: what the Ray workers of a driver's node are given, as a rank is."""

    variables: Variables
    secrets: list[str]


class RankStateFile(TypedDict):
    """`state.json`: the parent process of a rank that began.

    Number and start (clock ticks) identify it.
    """

    pid: int
    start: int
    member: str
    gang: str
    attempt: int


class RankExitFile(TypedDict):
    """`exit.json`: how a rank ended, as a shell says it, and when (s: wall clock, and since boot).

    Without a `code` it did not begin; an agent knows that, no file does.
    """

    code: int | None
    at: float
    since_boot: NotRequired[float]


class StepStatus(TypedDict):
    """The newest step of a rank; `over` how many steps `own`, its seconds of own work in one, is the median."""

    step: int
    over: int
    own: NotRequired[float]


class SetupStep(TypedDict):
    """A setup script, relative to the run's folder, and its variables."""

    script: str
    variables: Variables
    secrets: NotRequired[list[str]]  # as in `RankSpec`


class CommandRequest(TypedDict):
    """A command beside the rank `label`, if any; `env` are its variables where that rank never began."""

    token: str
    argv: list[str]
    label: str
    env: dict[str, str]
    timeout: float | None


class EndedRequest(TypedDict):
    """Keep how a rank ended, which cannot be written down; without a `code` it did not begin, for a `fault`."""

    op: str
    protocol: int
    member: str
    attempt: int
    end: RankExitFile
    fault: NotRequired[NodeFault]


class EnvironmentRequest(TypedDict):
    """Report what a program starts with; a rank that was killed is refused."""

    op: Literal["environment"]
    protocol: int
    member: NotRequired[str]
    generation: NotRequired[int]
    attempt: NotRequired[int]


class OrphansRequest(TypedDict):
    """The input of `orphans for`: a request, and the spec of the agent that it would be for."""

    spec: AgentSpec
    request: dict[str, Any]


class RendezvousQuestion(TypedDict):
    """Which of these ports rank 0 of a group may listen on in an attempt."""

    group: str
    attempt: int
    ports: list[int]


class LogHeader(TypedDict):
    """The line before a piece of a log."""

    attempt: int
    next: int  # the byte offset after the piece
    exists: NotRequired[bool]  # an earlier program on the node does not say it


@final
class Manifest(TypedDict):
    """Files to send: trees as in `unpack.py`, and contents by number."""

    trees: list[dict[str, Any]]
    hashes: list[str]
    sizes: list[int]
