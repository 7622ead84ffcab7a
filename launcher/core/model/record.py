"""What cannot be observed again: leases, counters, exits, decisions.

The record is stored in each tick before anything is done.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from launcher.core.model.action_key import ActionKey
from launcher.core.model.actions import Kill, Reason
from launcher.core.model.move_order import PendingMove
from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import Cause, GangName, MemberName, Slot

_T = TypeVar("_T")

POWERED_OFF = "powered off"
"""Why nothing can run on a node whose power was cut by order (`Record.stopped`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a rank of an attempt ended.

    `code` is None if it vanished without an exit file; `at` is a time of the loop's clock (s), by what its node says of
    how long ago it was.
    """

    attempt: int
    code: int | None
    at: float
    tail: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the program ended with 0."""
        return self.code == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """Counters of one gang, and why its current attempt has to end, if it has to.

    `attempt` is 0 before the first start; `restarts` were spent on failures of the program.
    """

    attempt: int = 0
    restarts: int = 0
    broken: Reason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended, decided once.

    `tail` is the end of the log that shows it.
    """

    cause: Cause
    message: str
    member: MemberName | None = None
    node: NodeName | None = None
    exit_code: int | None = None
    tail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFailure:
    """A failure of the program: the rank that failed first, and what tells whether it speaks against its node.

    `code` is None for a rank that vanished. The gang had `ranks` ranks, on `nodes` (a node set); `alike` of them, this
    one too, had failed in the same way when it was judged.
    """

    node: NodeName
    member: MemberName
    attempt: int
    code: int | None
    ranks: int
    alike: int
    nodes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowRank:
    """Why a rank counts as slower than its peers, and whether its node is to be checked."""

    node: NodeName
    message: str
    check: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Failures in a row, and when to try again (s); for a kill also why it failed."""

    count: int
    at: float
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Why this run does not use a node any more.

    The run ends with its `cause` if no node can replace it.

    `mends`: two good health reports of the node, some time apart, bring it back. `unfit`: the node itself is to blame,
    whatever was to run there, so that another one is asked for.
    """

    cause: Cause
    message: str
    tail: tuple[str, ...] = ()
    mends: bool = False
    unfit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFault:
    """A fault of several nodes at once; none is replaced until an operator decides."""

    message: str
    nodes: tuple[NodeName, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedSlice:
    """Where the last slice was that a group lost without a spare, and why it had to be left."""

    place: str
    message: str


class RunTimer(Enum):
    """Timers of the run as a whole."""

    HEAD_UNSEEN = "head_unseen"
    STOPPING = "stopping"
    RELEASE_PENDING = "release_pending"
    MOVING = "moving"
    PENDING = "pending"


@dataclass(slots=True, kw_only=True)
class Timers:
    """Since when something is so (s of the loop's clock); removed once it is not.

    `unseen`: the node is out of sight. `failed`: it failed. `well`: its first good health report after that.
    `doubted_dead`: an operator confirmed it dead, but another node still hears it. `serving`: it serves although failed
    attempts are counted against it. `cut`: a kill there failed so often that its power was cut. `evidence`: evidence
    about a failure of the gang is being collected. `draining`: its ranks have time for a checkpoint. `joining`: a
    raylet of the slot is missing in Ray. `dead_in_ray`: Ray lists it as dead. `placing`: Ray does not place the slice.
    `room`: the group could have one more slice.
    """

    unseen: dict[NodeName, float] = field(default_factory=dict)
    failed: dict[NodeName, float] = field(default_factory=dict)
    well: dict[NodeName, float] = field(default_factory=dict)
    doubted_dead: dict[NodeName, float] = field(default_factory=dict)
    serving: dict[NodeName, float] = field(default_factory=dict)
    cut: dict[NodeName, float] = field(default_factory=dict)
    evidence: dict[GangName, float] = field(default_factory=dict)
    draining: dict[GangName, float] = field(default_factory=dict)
    joining: dict[MemberName, float] = field(default_factory=dict)
    dead_in_ray: dict[MemberName, float] = field(default_factory=dict)
    placing: dict[str, float] = field(default_factory=dict)
    room: dict[str, float] = field(default_factory=dict)
    run: dict[RunTimer, float] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Record:
    """What cannot be observed again of a run: the memory of its controller.

    A tick changes a `copy()` of the record before it; nobody else changes one. `kills` and `retries` are lists here,
    because JSON has no typed keys; a tick looks them up by key.

    Ranks: `exits` are those of the current attempt. `ended` are those of one that was given up, while the rank of a
    node out of sight may have ended with 0 as well; `code` is None of a rank that was killed for it.

    Nodes: `requested` may have a lease of the run, `leased` had one, `joined` may run a raylet, `spares` one of a
    generation that no slot has yet. `node_attempts` counts starts on a node that failed, `program_failures` are the
    newest failures of the program, `slow_ranks` those that are slower than their peers now, `slow_left` those whose
    node was, or is about to be, left for that. `failed_nodes` are not used any more. `stopped` says why nothing of the
    run can run on a node out of sight. `excused` has signs that another node caused. `resumed` were named by a shared
    fault that an operator has lifted. `signalled` are nodes, or gangs on nodes, whose ranks were told to stop.
    `noticed` are nodes that Ray was told are drained, with the generation of the raylet: Ray cannot take that back.

    Actions: `kills` are decided and have no receipt `killed` yet; `retries` are actions that failed. `head_starts`
    counts starts of the head since it last answered, `misplaced` wrong places of a slice's bundles in Ray, `regrouped`
    how often a slice's placement group was removed because Ray did not place it.

    Ray: `head` is the node of the head, None while it is on the machine that the inventory names; `head_requested`: a
    head may be running; `head_bound`: nothing of a slot on that node outlives the head's agent there. `cluster` counts
    the Ray clusters of the run, `former_heads` are machines where the head of an earlier one may still run (None: the
    inventory's machine). `verified` has, for each slice that Ray placed right, the generations of its slots; `stale`
    are slices whose placement group has to be removed.

    Run: `relocating` are slices that an operator wants elsewhere, `move` those of a plan. `resizing`: no rank starts
    until the run has its new slices. `dropping` is the slice that the run goes on without, once nothing of its attempt
    runs. `shrunk` says for each group with fewer slices than it may have where and why it lost the last one; `grown`
    counts the growths of a group that failed or did not last. `newest_generation` is the highest generation that the
    run has had. `started_at` is when ranks first started (s since the epoch: unlike a timer, it outlives a
    boot); `clock_offset` is the time of day minus the loop's clock (s), None before a controller's first look.
    """

    receipts_seen: int = 0
    requests_seen: int = 0
    slots: dict[MemberName, Slot] = field(default_factory=dict)
    gangs: dict[GangName, Gang] = field(default_factory=dict)
    exits: dict[MemberName, Exit] = field(default_factory=dict)
    ended: dict[MemberName, Exit] = field(default_factory=dict)
    requested: set[NodeName] = field(default_factory=set)
    leased: set[NodeName] = field(default_factory=set)
    joined: set[NodeName] = field(default_factory=set)
    spares: dict[NodeName, int] = field(default_factory=dict)
    node_attempts: dict[NodeName, int] = field(default_factory=dict)
    program_failures: list[ProgramFailure] = field(default_factory=list)
    slow_ranks: dict[MemberName, SlowRank] = field(default_factory=dict)
    slow_left: dict[MemberName, SlowRank] = field(default_factory=dict)
    failed_nodes: dict[NodeName, Evidence] = field(default_factory=dict)
    stopped: dict[NodeName, str] = field(default_factory=dict)
    excused: dict[NodeName, tuple[str, ...]] = field(default_factory=dict)
    resumed: set[NodeName] = field(default_factory=set)
    signalled: set[tuple[NodeName, GangName | None]] = field(default_factory=set)
    kills: list[Kill] = field(default_factory=list)
    retries: list[tuple[ActionKey, Retry]] = field(default_factory=list)
    noticed: dict[NodeName, int] = field(default_factory=dict)
    head_starts: Retry | None = None
    misplaced: dict[str, Retry] = field(default_factory=dict)
    regrouped: dict[str, int] = field(default_factory=dict)
    since: Timers = field(default_factory=Timers)
    head: NodeName | None = None
    head_requested: bool = False
    head_bound: bool = False
    former_heads: list[NodeName | None] = field(default_factory=list)
    cluster: int = 0
    verified: dict[str, tuple[int, ...]] = field(default_factory=dict)
    stale: set[str] = field(default_factory=set)
    relocating: set[str] = field(default_factory=set)
    move: PendingMove | None = None
    resizing: bool = False
    dropping: str | None = None
    shrunk: dict[str, DroppedSlice] = field(default_factory=dict)
    grown: dict[str, Retry] = field(default_factory=dict)
    newest_generation: int = 0
    shared_fault: SharedFault | None = None
    started_at: float | None = None
    clock_offset: float | None = None
    outcome: Outcome | None = None

    def copy(self) -> "Record":
        """Return a record that can be changed without changing this one."""
        return _copy(self)


def rebased(record: Record, now: float) -> Record:
    """Return a record in which no time is later than `now`.

    After a boot the clock of the loop starts again, and the time of day says how long the boot took.
    """
    record = record.copy()
    for name in _names(Timers):
        timers = getattr(record.since, name)
        timers.update((subject, min(at, now)) for subject, at in timers.items())
    record.retries = [(key, _by(retry, now)) for key, retry in record.retries]
    record.misplaced = {key: _by(retry, now) for key, retry in record.misplaced.items()}
    record.grown = {key: _by(retry, now) for key, retry in record.grown.items()}
    record.exits = {name: replace(ended, at=min(ended.at, now)) for name, ended in record.exits.items()}
    record.head_starts = record.head_starts and _by(record.head_starts, now)
    record.clock_offset = None
    return record


def _by(retry: Retry, now: float) -> Retry:
    return replace(retry, at=min(retry.at, now))


def _copy(value: _T) -> _T:
    """Return a copy of a record or its timers, with containers of its own."""
    kind: type = type(value)
    made: _T = kind(**{name: _copied(getattr(value, name)) for name in _names(kind)})
    return made


def _copied(part: object) -> object:
    copied = _COPIES.get(type(part))
    return part if copied is None else copied(part)


_COPIES: Mapping[type, Callable[[Any], object]] = {dict: dict, set: set, frozenset: set, list: list, Timers: _copy}


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))
