"""What should exist: a task with its placement, its members and gangs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NewType

from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Slice, slice_key
from launcher.core.model.task import Group, RestartWith, Task, TopologyRule, owner_rank

MemberName = NewType("MemberName", str)

GangName = NewType("GangName", str)


RunId = NewType("RunId", str)
RunName = NewType("RunName", str)


class Wanted(Enum):
    """Whether a run should go on, or nothing of it should be left."""

    RUNNING = "running"
    NOTHING = "nothing"


class RunState(Enum):
    """The state of a run, for people and scripts."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    RECOVERING = "recovering"
    ON_HOLD = "on-hold"
    STOPPING = "stopping"
    RELEASE_PENDING = "release-pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def final(self) -> bool:
        """Whether nothing can change any more."""
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
    """A rank's place in a run: group, slice, and rank in both.

    `name` is unique in the run: `group/rank`; `label` is the same in letters, digits and dashes only. `colocated_with`
    is the member of another group whose node it shares, and `slot` is Ray's label of that node (`nvlaunch.io/slot`):
    the label of the member that owns it. `slice_key` is the key of the slice. All are made once: they are read often.
    """

    group: str
    rank: int
    slice: int
    slice_rank: int
    colocated_with: MemberName | None = field(default=None, repr=False, compare=False)
    name: MemberName = field(init=False, repr=False, compare=False)
    label: str = field(init=False, repr=False, compare=False)
    slot: str = field(init=False, repr=False, compare=False)
    slice_key: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make the names of the member."""
        object.__setattr__(self, "name", MemberName(f"{self.group}/{self.rank}"))
        object.__setattr__(self, "label", f"{self.group}-{self.rank}")
        object.__setattr__(self, "slot", (self.colocated_with or self.name).replace("/", "-"))
        object.__setattr__(self, "slice_key", slice_key(self.group, self.slice))


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a run is to become: a task with more or fewer slices.

    `comes` are its new slices with their nodes, `goes` the keys of slices to remove. All others stay where they are by
    then.
    """

    task: Task
    comes: tuple[Slice, ...]
    goes: tuple[str, ...]
    fleet: Inventory


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One named execution of a task, with its placement.

    `fleet` has only the nodes that the run has ever had. `head_at` is the node of the head, once that is decided.
    `queued_at` is since when the run waits for its turn, or waited (s since the epoch), None if it never does. `first`
    is the run that it continues, `target` what it is to become. `after` is the run that has to succeed
    before it is placed.
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
    after: RunId | None = None

    def members(self) -> Iterator[Member]:
        """Return every slot, group by group, in rank order."""
        colocated = {group.name: group.topology for group in self.task.groups if group.topology.nodes_of is not None}
        for part in self.placement.slices:
            offset, rule = part.index * len(part.nodes), colocated.get(part.group)
            for at in range(len(part.nodes)):
                owner = None if rule is None else self._node_owner(rule, part.index, at)
                yield Member(group=part.group, rank=offset + at, slice=part.index, slice_rank=at, colocated_with=owner)

    def _node_owner(self, rule: TopologyRule, index: int, at: int) -> MemberName:
        group = rule.nodes_of or ""
        return MemberName(f"{group}/{owner_rank(rule, self.group(group).topology, index, at)}")

    def group(self, name: str) -> Group:
        """Return a group of the task by name."""
        return self.task.group(name)

    def gang(self, member: Member) -> GangName:
        """Return the gang that a member starts and restarts with (`restart_with`)."""
        match self.group(member.group).recovery.restart_with:
            case RestartWith.RUN:
                return GangName("run")
            case RestartWith.GROUP:
                return GangName(member.group)
            case RestartWith.MEMBER:
                return GangName(member.name)

    @property
    def head(self) -> NodeName | None:
        """Return the node of the Ray head; None for the inventory's machine for heads.

        A head that had to move stays on a node.
        """
        if self.head_at is not None:
            return self.head_at
        return None if self.fleet.head else self.placement.slices[0].nodes[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """The node that holds a slot.

    `generation` rises with each new raylet on a node. `spare`: the raylet was started before the node had the slot, or
    the node is still a spare; `member` is then the one in whose name it was prepared.
    """

    member: MemberName
    node: NodeName
    generation: int = 0
    spare: bool = False

    def label(self, member: Member) -> str:
        """Return Ray's label of the raylet (`nvlaunch.io/slot`), given the member of the slot."""
        return spare_label(self.generation) if self.spare else member.slot


_SPARE = "spare."  # no label of a slot has a dot


def spare_label(generation: int) -> str:
    """Return Ray's label of the raylet of a spare, which is also the name of the placement group that holds it.

    It is used once: a raylet keeps its labels when its node gets a slot.
    """
    return f"{_SPARE}{generation}"


def is_spare(label: str) -> bool:
    """Whether a label is that of the raylet of a spare."""
    return label.startswith(_SPARE) and label.removeprefix(_SPARE).isdecimal()
