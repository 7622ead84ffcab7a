"""The files of a run on a node, and the input of programs there.

A part of `protocol.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, final

if TYPE_CHECKING:
    from typing_extensions import NotRequired

BEGAN = "began.json"
"""The file in a run's folder that says when the run began there (s since boot)."""

SHARED = "shared"
"""The folder in a run's folder for documents of shared variables, each named by the hash of its content."""


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
    sent: list[tuple[str, int]] | None  # names and sizes


class InterpreterSpec(TypedDict):
    """The Python environment that is made for Ray."""

    ray: str
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
    login: bool  # programs have the variables of a login
    nested: bool  # the folder of a run has one for each node
    ray: str  # the minor release that the interpreter must have
    interpreter: InterpreterSpec | None


class RankSpec(TypedDict):
    """`spec.json`: a rank of an attempt; `script` is relative to the run's folder."""

    member: str
    gang: str
    attempt: int
    script: str
    variables: Variables


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
    """`exit.json`: how a rank ended, as a shell says it, and when (s: wall clock, and since boot)."""

    code: int
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


class CommandRequest(TypedDict):
    """A command beside the rank `label`, if any.

    `env` are its variables where that rank never began.
    """

    token: str
    argv: list[str]
    label: str
    env: dict[str, str]
    timeout: float | None


class LogHeader(TypedDict):
    """The line before a piece of a log."""

    attempt: int
    next: int  # the byte offset after the piece
    exists: NotRequired[bool]  # an earlier program on the node does not say it


@final
class CommandProbe(TypedDict):
    """A command of `facts.py`; of its output only lines with one of the words in `keep`, if any are given."""

    argv: list[str]
    timeout: NotRequired[float]  # s
    limit: NotRequired[int]  # bytes of its output
    keep: NotRequired[list[str]]


@final
class FunctionProbe(TypedDict):
    """A function of `facts.py`, by name."""

    builtin: str
    args: NotRequired[list[str]]
    timeout: NotRequired[float]  # s


ProbeSpec: TypeAlias = "CommandProbe | FunctionProbe"


class FactsRequest(TypedDict):
    """The input of `facts.py`: probes by name, all run at once."""

    probes: dict[str, ProbeSpec]


class ProbeAnswer(TypedDict):
    """What `facts.py` writes of one probe; `rc` is None where it could not be killed (`hung`)."""

    rc: int | None
    out: str
    err: str
    elapsed: float  # s
    age: float  # s since its end
    timed_out: bool
    hung: bool
    dropped: int  # bytes
    lines: int


class Manifest(TypedDict):
    """Files to send: trees as in `unpack.py`, and contents by number."""

    trees: list[dict[str, Any]]
    hashes: list[str]
    sizes: list[int]
