"""Inputs and outputs of programs beside agents: facts, checks, and the relay of a machine.

A part of `protocol.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, final

if TYPE_CHECKING:
    from typing_extensions import NotRequired


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


class CheckRequest(TypedDict):
    """The input of `check.py`: one check on one node."""

    token: str  # unique; marks its processes
    script: str
    env: dict[str, str]
    limit: float  # s
    lease: list[str]  # paths; none on a machine whose nodes have no leases
    holder: str  # what the lease says
    beside: str  # a run whose lease does not matter: it waits for this node
    idle: bool  # end as soon as somebody takes the lease, instead of taking it
    login: bool  # with the variables of a login


class CheckReply(TypedDict):
    """How a check ended.

    `state` is `ended` (with `status`), `timed-out`, `held` or `taken` (`message` is the holder), or `failed`.
    """

    state: str
    message: str
    status: int | None
    stdout: str  # the end of it
    stderr: str
    seconds: float
    left: list[int]  # processes that could not be killed


class RelayQuestion(TypedDict):
    """A request for one agent of a machine; `key` names it in the answer."""

    key: tuple[str, str]
    socket: str
    package: str
    root: str
    question: dict[str, Any]
    limit: float


class RelayAnswer(TypedDict):
    """What the agent said, or why it said nothing."""

    key: tuple[str, str]
    answer: NotRequired[dict[str, Any]]
    message: NotRequired[str]
