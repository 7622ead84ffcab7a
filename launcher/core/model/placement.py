"""Placements: the nodes of each slice of a task, or why the task does not fit."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from launcher.core.model.inventory import ANY_LEVEL, RackName
from launcher.core.model.nodeset import NodeName, fold


def slice_key(group: str, index: int) -> str:
    """Return the name of a slice, `group.sINDEX`; no rank (`group/RANK`) has it."""
    return f"{group}.s{index}"


def group_of(key: str) -> str:
    """Return the group of a slice, given the slice's name."""
    return key.rpartition(".s")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Nodes of one topology domain in rank order, and their spares there.

    `place` names the domain at level `within` (for `rack`, the rack). `rack` and `domain`, the NVLink domain, are None
    only if the slice may span racks.
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

    @property
    def in_place(self) -> str:
        """Return ` in r01` for messages; empty where the slice may be anywhere."""
        return "" if self.place == ANY_LEVEL else f" in {self.place}"

    @property
    def to_place(self) -> str:
        """Return ` to r01` for messages; ` to` its nodes where the slice may be anywhere."""
        return f" to {fold(self.nodes) if self.place == ANY_LEVEL else self.place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The nodes of every slice of a task.

    A node is a member of one slice, or a spare: of one slice, or of all slices in its rack. `reasons` has one text for
    each slice: why it got its domain. `exclusive_nodes` belong to no slice, but `exclusive` keeps other runs off them.
    """

    slices: tuple[Slice, ...]
    reasons: tuple[str, ...] = ()
    exclusive_nodes: tuple[NodeName, ...] = ()

    @property
    def nodes(self) -> tuple[NodeName, ...]:
        """Return all nodes of the placement: members in rank order, then spares."""
        members = [name for part in self.slices for name in part.nodes]
        spares = [name for part in self.slices for name in part.spares]
        return tuple(dict.fromkeys(members + spares))


class Exclusion(Enum):
    """Why a group cannot use a node; the first reason in this order counts."""

    EXCLUDED = "excluded by name"
    DRAINED = "drained"
    UNHEALTHY = "unhealthy"
    NO_DOMAIN = "without a known NVLink domain"
    NO_LEVEL = "without a name at a requested level"
    ACCELERATOR = "with another accelerator"
    TOO_FEW_GPUS = "with too few GPUs"
    IN_USE = "in use"
    RESERVED = "reserved"
    OTHER_SLICE = "used by other slices of this task"
    SPREAD = "excluded by `spread`"
    APART_FROM = "excluded by `apart_from`"
    NEAR = "excluded by `near`"
    WITHIN = "excluded by `within`"
    EXCLUSIVE = "excluded by `exclusive`"


@dataclass(frozen=True, slots=True, kw_only=True)
class RackAvailability:
    """How many nodes of a rack, or of a coarser domain, a group can use.

    `excluded` counts nodes by reason, `users` nodes in use by run, `accelerators` nodes of another kind by that kind,
    `reserved` nodes that a plan of moves keeps, by the run that gets them.
    """

    rack: str
    total: int
    free: int
    excluded: Mapping[Exclusion, int] = field(default_factory=dict)
    users: Mapping[str, int] = field(default_factory=dict)
    accelerators: Mapping[str, int] = field(default_factory=dict)
    reserved: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """Why a task does not fit now, rack by rack, and which changes would make it fit.

    `placed` is the number of slices of `group` that fit; `largest` is the most nodes, spares included, that one domain
    has left for the next slice. `unhealthy` has the fault of each unhealthy node. `colocated_groups` run on the nodes
    of `group` and need room there too. `proven` means that no placement exists; without it none was found.
    """

    group: str
    slices: int
    nodes_per_slice: int
    spares: int
    within: str
    placed: int
    largest: int
    racks: tuple[RackAvailability, ...]
    suggestions: tuple[str, ...]
    unhealthy: Mapping[NodeName, str] = field(default_factory=dict)
    spares_per_rack: int = 0
    proven: bool = True
    colocated_groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """Why a node is not free: the run that uses it, its fault, or its drain.

    `reserved_for`: no run uses the node; a plan of moves keeps it for a run of this name, which `used_by` names too.
    `returned`: it came back from quarantine lately; where other nodes are as good, they are taken first.
    """

    used_by: str | None = None
    reserved_for: str | None = None
    unhealthy: str | None = None
    drained: str | None = None
    returned: bool = False

    @property
    def free(self) -> bool:
        """Whether the node is not in use, healthy and not drained."""
        return self.used_by is None and self.unhealthy is None and self.drained is None

    def without(self, runs: Container[str]) -> "Unavailable":
        """Return the same once some runs have ended; a reservation outlives them."""
        ended = self.used_by in runs and self.reserved_for is None
        return replace(self, used_by=None) if ended else self


UnavailableNodes = Mapping[NodeName, Unavailable]
"""The nodes of an inventory that are not free, each with the reason."""


def mark_unhealthy(unavailable: UnavailableNodes, messages: Mapping[NodeName, str | None]) -> UnavailableNodes:
    """Return the unavailable nodes, with these as unhealthy besides what else is known of them."""
    marked = {name: replace(unavailable.get(name, Unavailable()), unhealthy=why) for name, why in messages.items()}
    return {**unavailable, **marked}
