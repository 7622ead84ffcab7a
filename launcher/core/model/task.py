"""What is asked: a task, its groups, and the rules for their place and their recovery."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, RACK_LEVEL


class RestartWith(Enum):
    """Who starts again when a rank of a group fails."""

    RUN = "run"
    GROUP = "group"
    MEMBER = "member"


class OnNoSpare(Enum):
    """What a slot that needs a spare does when there is none in its domain."""

    WAIT = "wait"
    RELOCATE = "relocate"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRule:
    """Where the nodes of a group may be: `slices` x `nodes_per_slice`, each slice inside one place at `within`.

    Each level is one of the inventory, `node`, `rack` or `any`. Hard are `within` (for each slice), `all_within` (for
    all slices together), `spread` (no two slices in one place), `spread_members` (no two nodes of a slice in one place)
    and `exclusive` (no other run in the place); soft are `prefer` (slices near each other) and `balance` (as many nodes
    in one place as in the next). `near` and `apart_from` name groups: with the one, a slice shares a place with a slice
    of that group, with the other it never does. `nodes_of` names the group on whose nodes this one sits: then only the
    counts are its own (`core/share.py`). `spares` counts the nodes kept for each slice in its own domain,
    `spares_per_rack` those kept once for all slices of a domain. Patterns in `racks`, `only_nodes` and the excludes are
    globs.
    """

    slices: int = 1
    nodes_per_slice: int = 1
    within: str = RACK_LEVEL
    all_within: str | None = None
    prefer: str | None = None
    balance: str | None = None
    spread: str | None = None
    spread_members: str | None = None
    exclusive: str | None = None
    near: str | None = None
    apart_from: str | None = None
    nodes_of: str | None = None
    spares: int = 0
    spares_per_rack: int = 0
    racks: tuple[str, ...] = ()
    exclude_racks: tuple[str, ...] = ()
    only_nodes: tuple[str, ...] = ()
    exclude_nodes: tuple[str, ...] = ()

    @property
    def nodes(self) -> int:
        """How many nodes hold a rank, spares not counted."""
        return self.slices * self.nodes_per_slice

    @property
    def near_level(self) -> str:
        """Return the level of the places that slices share with the group they are `near`: the widest they stay in."""
        level = self.all_within or self.within
        return RACK_LEVEL if level in (NODE_LEVEL, ANY_LEVEL) else level

    @property
    def apart_level(self) -> str:
        """Return the level of the places that slices do not share with the group they are `apart_from`."""
        return RACK_LEVEL if self.spread is None or self.spread in (NODE_LEVEL, ANY_LEVEL) else self.spread


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPolicy:
    """What may be tried before a run is given up.

    `max_restarts` counts gang restarts for the program's own failures, `node_attempts` starts again on one node
    before it is failed; node faults do not count as restarts. A rank that gives no sign of life for `hang_after`
    seconds hangs; None never says so.
    """

    max_restarts: int = 3
    node_attempts: int = 2
    restart_with: RestartWith = RestartWith.RUN
    on_no_spare: OnNoSpare = OnNoSpare.WAIT
    hang_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One role of a task. `gpus` are asked for on each node; `accelerator` None takes any kind.

    A group has `run`, the command of every rank, or `driver`, one command for all its nodes, beside the head; only with
    `reserve` are nodes of a driver reserved in Ray by us.
    """

    name: str
    topology: TopologyRule
    gpus: int = 0
    accelerator: str | None = None
    run: str = ""
    driver: str | None = None
    reserve: bool = False
    setup: str | None = None
    envs: Mapping[str, str] = field(default_factory=dict)
    recovery: RecoveryPolicy = RecoveryPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What the user wrote, with every default filled in. `secrets` holds names only, never values.

    `stop_grace` is the seconds between `stop_signal` and the kill, `time_limit` how many the run may take. Of runs that
    do not all fit, the one of higher `priority` goes first, and takes nodes of those that are `preemptible`. `on_event`
    is a command on the launching side that gets each event as JSON. `file_mounts` has absolute local paths by where
    they go on nodes: absolute, in `~/`, or relative to the workdir.
    """

    name: str
    groups: tuple[Group, ...]
    workdir: str | None = None
    file_mounts: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    stop_signal: str = "TERM"
    stop_grace: float = 60.0
    time_limit: float | None = None
    priority: int = 0
    preemptible: bool = False
    on_event: str | None = None

    def group(self, name: str) -> Group:
        """Return the group of that name; KeyError when the task has none."""
        for group in self.groups:
            if group.name == name:
                return group
        raise KeyError(name)

    def guests(self, name: str) -> tuple[Group, ...]:
        """Return the groups that sit on the nodes of a group, in the order of the task."""
        return tuple(group for group in self.groups if group.topology.nodes_of == name)


def host_rank(guest: TopologyRule, host: TopologyRule, index: int, at: int) -> int:
    """Return on the node of which rank of its host a member of a guest sits: `at` in the slice of this index."""
    beside = max(1, host.nodes_per_slice // guest.nodes_per_slice)
    return index // beside * host.nodes_per_slice + index % beside * guest.nodes_per_slice + at
