"""What should exist (Run), and what cannot be observed again (Record)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NewType

from launcher.core.model.actions import Reason, Sweep
from launcher.core.model.inventory import Inventory, Node, NodeName
from launcher.core.model.placement import Placement, Slice, slice_key
from launcher.core.model.slots import GangName, MemberName, Seat
from launcher.core.model.task import Group, RestartWith, Task, TopologyRule, host_rank

RunId = NewType("RunId", str)
RunName = NewType("RunName", str)


class Wanted(Enum):
    """What its owner wants of a run: that it goes on, or that nothing of it is left."""

    RUNNING = "running"
    NOTHING = "nothing"


class RunState(Enum):
    """Where a run stands, as people and scripts read it."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    RECOVERING = "recovering"
    HOLDING = "holding"
    STOPPING = "stopping"
    RELEASE_PENDING = "release_pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def final(self) -> bool:
        """Answer whether nothing can change any more."""
        return self in (RunState.SUCCEEDED, RunState.FAILED, RunState.STOPPED)


class Cause(Enum):
    """Why a run ended; each maps to one exit code of a followed `up`."""

    SUCCESS = "success"
    PROGRAM = "program"
    PROVISION = "provision"
    EXHAUSTED = "exhausted"
    NODE = "node"
    LEASE_HELD = "lease_held"
    STOPPED = "stopped"
    TIME_LIMIT = "time_limit"
    PREEMPTED = "preempted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A seat in a gang: the rank in its group, the slice it belongs to and the rank inside that slice.

    `name` is unique in the run: `group/rank`; `label` is the same of letters, digits and dashes only. `host` is the
    member of another group on whose node it sits, and `seat` what Ray calls that node (`nvlaunch.io/seat`): the label
    of who has the node. `slice_key` is the key of the slice. They are asked for all the time, so they are made once.
    """

    group: str
    rank: int
    slice: int
    slice_rank: int
    host: MemberName | None = field(default=None, repr=False, compare=False)
    name: MemberName = field(init=False, repr=False, compare=False)
    label: str = field(init=False, repr=False, compare=False)
    seat: str = field(init=False, repr=False, compare=False)
    slice_key: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make the names of the seat."""
        object.__setattr__(self, "name", MemberName(f"{self.group}/{self.rank}"))
        object.__setattr__(self, "label", f"{self.group}-{self.rank}")
        object.__setattr__(self, "seat", self.label if self.host is None else self.host.replace("/", "-"))
        object.__setattr__(self, "slice_key", slice_key(self.group, self.slice))


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a run is to become: the task given again, the slices that come with their nodes, and the keys of those that
    go. All others stay where they are by then."""

    task: Task
    comes: tuple[Slice, ...]
    goes: tuple[str, ...]
    fleet: Inventory


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One named execution of a task, placed. `fleet` is the inventory cut down to the nodes the run has ever had.

    `head_at` is the node where the head lives, once that is decided. `queued_at` is since when it waits for its turn,
    or waited (s of the wall clock), None for one that never does; `first` is the run that it goes on for, if any,
    `target` what it is to become with other slices.
    """

    id: RunId
    name: RunName
    task: Task
    placement: Placement
    fleet: Inventory
    wanted: Wanted = Wanted.RUNNING
    head_at: NodeName | None = None
    queued_at: float | None = None
    first: RunId | None = None
    target: Target | None = None

    def members(self) -> Iterator[Member]:
        """Answer every seat, group by group, in rank order."""
        guests = {group.name: group.topology for group in self.task.groups if group.topology.nodes_of is not None}
        for part in self.placement.slices:
            offset, guest = part.index * len(part.nodes), guests.get(part.group)
            for at in range(len(part.nodes)):
                host = None if guest is None else self._host(guest, part.index, at)
                yield Member(group=part.group, rank=offset + at, slice=part.index, slice_rank=at, host=host)

    def _host(self, guest: TopologyRule, index: int, at: int) -> MemberName:
        host = guest.nodes_of or ""
        return MemberName(f"{host}/{host_rank(guest, self.group(host).topology, index, at)}")

    def slice_of(self, member: Member) -> Slice:
        """Answer the slice that holds a seat."""
        return next(part for part in self.placement.slices if part.key == member.slice_key)

    def group(self, name: str) -> Group:
        """Answer a group of the task by name."""
        return self.task.group(name)

    def gang(self, member: Member) -> GangName:
        """Answer which gang a seat starts and restarts with, by the group's `restart_with`."""
        match self.group(member.group).recovery.restart_with:
            case RestartWith.RUN:
                return GangName("run")
            case RestartWith.GROUP:
                return GangName(member.group)
            case RestartWith.MEMBER:
                return GangName(member.name)

    def node(self, name: NodeName) -> Node:
        """Answer a node of the run by name; KeyError for one that it never had."""
        for node in self.fleet.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    @property
    def head(self) -> NodeName | None:
        """Answer on which node of the run its Ray head lives; None where it is on the machine that the inventory names.

        A head that had to move stays on a node.
        """
        if self.head_at is not None:
            return self.head_at
        return None if self.fleet.head else self.placement.slices[0].nodes[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a rank of an epoch ended. `code` is None for one that vanished without an exit file; `at` in node time."""

    epoch: int
    code: int | None
    at: float
    tail: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Answer whether the program said that all is well."""
        return self.code == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """Counters of one gang: its current epoch (0 before the first start), restarts spent on the program's own
    failures, and why the current epoch has to end, once that is decided."""

    epoch: int = 0
    restarts: int = 0
    broken: Reason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended, decided once and never changed: cause, the words for it and the end of the log that shows it."""

    cause: Cause
    words: str
    member: MemberName | None = None
    node: NodeName | None = None
    exit_code: int | None = None
    tail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often something failed in a row, when it may be tried again (seconds), and of a sweep why."""

    count: int
    at: float
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Why a node is not used by this run any more, and how the run ends where nothing can take its place.

    `mends`: two good answers of the node about its own health, some time apart, bring it back.
    """

    cause: Cause
    words: str
    tail: tuple[str, ...] = ()
    mends: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A fault that is more than one node's: nothing is replaced before an operator says how to go on."""

    words: str
    nodes: tuple[NodeName, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Only what cannot be observed again: claims, counters, and facts whose evidence may vanish.

    `asked` are nodes whose lease we may have, `claimed` those whose lease we have had, `joined` those where a raylet
    may have been started; `head_asked` says that a head may live. `signalled` has the nodes whose ranks were told to
    stop, or `node:gang` where those of one gang were. `sweeps` are fences that were decided and have no
    `killed` receipt yet. `verified` holds, for each slice that Ray was seen to place right, the generations of its
    seats. `since` times what may not last for ever (s). `failures` counts, for each node, the failures of the program
    that began on it.

    `head` is the node of the Ray head, None where the inventory names a machine for it and it is still there; `cluster`
    counts the incarnations of the run's Ray, `heads` are machines where an earlier one may still be (None: that
    machine). `stale` are slices whose placement group has to be taken back. `stopped` says of nodes out of sight why
    nothing of the run can run there. `excused` has the signs of nodes that were found to be another's fault. `moving`
    are slices that an operator wants elsewhere, `resumed` nodes that no verdict is held for any more. `began` is the
    time of day (s) at which ranks had first been started: unlike `since`, it outlives a boot of the launching machine;
    `ahead` is by how much the time of day is ahead of the loop's clock (s), None before a controller's first look.
    `resizing`: no rank starts before the run has become what it was asked to. `newest` is the highest generation that
    seats had which are gone.
    """

    receipts_seen: int = 0
    seats: Mapping[MemberName, Seat] = field(default_factory=dict)
    gangs: Mapping[GangName, Gang] = field(default_factory=dict)
    exits: Mapping[MemberName, Exit] = field(default_factory=dict)
    asked: frozenset[NodeName] = frozenset()
    claimed: frozenset[NodeName] = frozenset()
    joined: frozenset[NodeName] = frozenset()
    attempts: Mapping[NodeName, int] = field(default_factory=dict)
    retries: Mapping[str, Retry] = field(default_factory=dict)
    condemned: Mapping[NodeName, Evidence] = field(default_factory=dict)
    sweeps: tuple[Sweep, ...] = ()
    verified: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    since: Mapping[str, float] = field(default_factory=dict)
    signalled: frozenset[str] = frozenset()
    head_asked: bool = False
    failures: Mapping[NodeName, int] = field(default_factory=dict)
    outcome: Outcome | None = None
    head: NodeName | None = None
    cluster: int = 0
    heads: tuple[NodeName | None, ...] = ()
    stale: frozenset[str] = frozenset()
    stopped: Mapping[NodeName, str] = field(default_factory=dict)
    excused: Mapping[NodeName, tuple[str, ...]] = field(default_factory=dict)
    verdict: Verdict | None = None
    moving: frozenset[str] = frozenset()
    resumed: frozenset[NodeName] = frozenset()
    orders_seen: int = 0
    began: float | None = None
    ahead: float | None = None
    resizing: bool = False
    newest: int = 0


def rebased(record: Record, now: float) -> Record:
    """Answer a record whose times are not later than `now`: after a reboot the clock of the loop starts again, and the
    time of day says how long that took."""
    since = {what: min(at, now) for what, at in record.since.items()}
    retries = {key: replace(retry, at=min(retry.at, now)) for key, retry in record.retries.items()}
    return replace(record, since=since, retries=retries, ahead=None)
