"""The answer to a task: which nodes each slice gets, or why it cannot be placed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from launcher.core.model.inventory import RackName
from launcher.core.model.nodeset import NodeName


def slice_key(group: str, index: int) -> str:
    """Return the name of a slice: `group.sINDEX`, which cannot be taken for a rank (`group/RANK`)."""
    return f"{group}.s{index}"


def group_of(key: str) -> str:
    """Return whose slice has this name."""
    return key.rpartition(".s")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Nodes of one place given to a group, in rank order, with the spares kept for them in the same place.

    `place` is the value of the `within` level (the rack's name for `rack`); `rack` and `domain` are None only where
    the slice may span racks.
    """

    group: str
    index: int
    place: str
    rack: RackName | None
    domain: str | None
    nodes: tuple[NodeName, ...]
    spares: tuple[NodeName, ...] = ()

    @property
    def key(self) -> str:
        """Return the name of the slice, unique in its run."""
        return slice_key(self.group, self.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Every slice of a task with its nodes. A node is a member of one slice, or a spare: of one slice, or of all slices
    in one rack, for whichever needs it first. `enclosed` are nodes of no slice that no other run may have beside it."""

    slices: tuple[Slice, ...]
    why: tuple[str, ...] = ()
    enclosed: tuple[NodeName, ...] = ()

    @property
    def nodes(self) -> tuple[NodeName, ...]:
        """Return all nodes of the placement: members in rank order, then spares."""
        members = [name for part in self.slices for name in part.nodes]
        spares = [name for part in self.slices for name in part.spares]
        return tuple(dict.fromkeys(members + spares))


class Exclusion(Enum):
    """Why a node cannot be used by a group. Each node is counted under the first that applies, in this order."""

    EXCLUDED = "excluded by the task"
    DRAINED = "drained"
    SICK = "sick"
    NO_DOMAIN = "NVLink domain unknown"
    UNNAMED = "not named at the level asked"
    KIND = "another accelerator"
    TOO_FEW_GPUS = "too few GPUs"
    IN_USE = "in use"
    PROMISED = "taken by another slice of this task"
    SPREAD = "in a place that another slice has"
    APART = "not apart from the other group"
    NOT_NEAR = "not near the other group"
    ELSEWHERE = "not where the other slices are"
    SHARED = "in a place with another run"


@dataclass(frozen=True, slots=True, kw_only=True)
class RackAnswer:
    """What one place offered a group: total nodes, free ones, and each node that is not free under one reason.

    `users` are the runs that have the nodes in use, `kinds` what is in those that have another accelerator.
    """

    rack: str
    total: int
    free: int
    excluded: Mapping[Exclusion, int] = field(default_factory=dict)
    users: Mapping[str, int] = field(default_factory=dict)
    kinds: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """Why a task cannot be placed now, place by place, and what would make it fit, nearest first.

    `largest` is the most nodes (spares counted) that one place could give a slice of `group` now; `placed` says how
    many slices of it found a place before the first that did not; `sick` says what is wrong with each sick node.
    `guests` are the groups for which there has to be room on its nodes too.
    """

    group: str
    slices: int
    nodes_per_slice: int
    spares: int
    within: str
    placed: int
    largest: int
    racks: tuple[RackAnswer, ...]
    changes: tuple[str, ...]
    sick: Mapping[NodeName, str] = field(default_factory=dict)
    spares_per_rack: int = 0
    proven: bool = True
    guests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Why a node of the inventory is not free: the run that has it, what is known to be wrong with it, or why an
    operator has drained it."""

    by_run: str | None = None
    sick: str | None = None
    drained: str | None = None
