"""Tasks: groups of ranks, their topology rules and recovery policies."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from launcher.core.model.buckets import BucketMount
from launcher.core.model.container import Container
from launcher.core.model.git_workdir import GitWorkdir
from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, RACK_LEVEL
from launcher.core.model.readiness import ReadinessProbe
from launcher.core.model.traffic import Traffic

GROW_AFTER_S = 300.0
"""Default of `grow_after`: a restart costs some minutes of work, and a queued run gets the nodes first."""


class OnStraggler(Enum):
    """What to do about a rank that is slower than its peers: say so, note it for checks of its node, or leave that."""

    REPORT = "report"
    CHECK = "check"
    REPLACE = "replace"


class RestartWith(Enum):
    """Which ranks restart when one rank of a group fails."""

    RUN = "run"
    GROUP = "group"
    MEMBER = "member"


class OnNoSpare(Enum):
    """What a slot does when it needs a spare and its NVLink domain has none."""

    WAIT = "wait"
    RELOCATE = "relocate"
    SHRINK = "shrink"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRule:
    """Topology rule of a group: `slices` of `nodes_per_slice` nodes each.

    A level is one of the inventory's levels, `node`, `rack` or `any`. With `min_slices` and `max_slices`, the group may
    have any number of slices between them, and `slices` is the number that it has now.

    Hard rules: `within` (one domain for each slice), `all_within` (one domain for all slices), `spread` (no two slices
    in one domain), `spread_members` (no two nodes of a slice in one domain), `exclusive` (no other run in the domain),
    `near` (each slice shares a domain with a slice of the named group), `apart_from` (no slice does).
    Soft rules: `prefer` (slices in one domain where possible), `balance` (equal node counts across domains).

    `nodes_of` names the group whose nodes this group runs on; of its own rule it then has the counts only
    (`core/placement/colocation.py`). `spares` is the number of spare nodes for each slice, in the slice's own domain;
    `spares_per_rack` is the number of spares that all slices of a domain share. `racks`, `only_nodes` and the excludes
    are globs.
    """

    slices: int = 1
    min_slices: int | None = None
    max_slices: int | None = None
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
        """Return the number of nodes that run a rank, without spares."""
        return self.slices * self.nodes_per_slice

    @property
    def near_level(self) -> str:
        """Return the level of the domains shared with the group named by `near`."""
        level = self.all_within or self.within
        return RACK_LEVEL if level in (NODE_LEVEL, ANY_LEVEL) else level

    @property
    def apart_level(self) -> str:
        """Return the level of the domains not shared with the `apart_from` group."""
        return RACK_LEVEL if self.spread is None or self.spread in (NODE_LEVEL, ANY_LEVEL) else self.spread


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPolicy:
    """What a run tries before it fails.

    `max_restarts` limits gang restarts after failures of the program: none by default, since a typo fails each time.
    Failures of nodes are always recovered from, and not counted. `node_attempts` limits restarts on one node before the
    node counts as failed. A rank without a sign of life for `hang_after` seconds is hung; None disables that check. A
    group with fewer slices than it may have grows once there was room for `grow_after` seconds. A rank whose own work
    takes `straggler_factor` times as long as that of its peers is reported, as `on_straggler` says.
    """

    max_restarts: int = 0
    node_attempts: int = 2
    restart_with: RestartWith = RestartWith.RUN
    on_no_spare: OnNoSpare = OnNoSpare.WAIT
    hang_after: float | None = None
    grow_after: float = GROW_AFTER_S
    straggler_factor: float = 1.1
    on_straggler: OnStraggler = OnStraggler.REPORT


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One role of a task. `gpus` is per node; `accelerator` None accepts any kind.

    A group has either `run`, the command of every rank, or `driver`, one command that drives all its nodes from beside
    the Ray head. With `reserve`, the launcher reserves the nodes of a driver in Ray. `traffic` is that inside each
    slice; only predictions use it. `secrets` are the names of those that it sees, None for all of the task. `readiness`
    is what the server of rank 0 is asked. Without a `container`, its programs run on the nodes themselves.
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
    traffic: Traffic | None = None
    secrets: tuple[str, ...] | None = None
    container: Container | None = None
    readiness: ReadinessProbe | None = None

    @property
    def reserved(self) -> bool:
        """Whether the launcher reserves the group's slices in Ray; a driver without `reserve` does so itself."""
        return self.driver is None or self.reserve


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task file with all defaults filled in.

    `secrets` holds names only, never values. `stop_grace` is the time between `stop_signal` and the kill (s);
    `time_limit` is the longest the run may take (s). A run of higher `priority` is placed first and may preempt runs of
    lower priority that are `preemptible`. `on_event` is a command on the launching machine that receives each event as
    JSON. `file_mounts` maps paths on the nodes (absolute, in `~/`, or relative to the workdir) to absolute local paths,
    `bucket_mounts` to buckets. `workdir` is a local folder, `git` a repository to clone instead. With `dashboard`,
    Ray's dashboard and job server run beside the head. `given_envs` names the variables that the file does not set, or
    not alone: a resize keeps their values.
    """

    name: str
    groups: tuple[Group, ...]
    workdir: str | None = None
    git: GitWorkdir | None = None
    file_mounts: Mapping[str, str] = field(default_factory=dict)
    bucket_mounts: Mapping[str, BucketMount] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    stop_signal: str = "TERM"
    stop_grace: float = 60.0
    time_limit: float | None = None
    priority: int = 0
    preemptible: bool = False
    movable: bool = False
    dashboard: bool = False
    on_event: str | None = None
    given_envs: tuple[str, ...] = field(default=(), compare=False)

    @property
    def folder(self) -> str | None:
        """Return the local folder that is copied to each node; None without one, or before it is cloned."""
        return self.workdir if self.git is None else self.git.checkout

    @property
    def may_move(self) -> bool:
        """Whether slices may be moved to make room for other runs: that costs a run less than being stopped."""
        return self.movable or self.preemptible

    @property
    def ray_group(self) -> Group | None:
        """Return the group whose driver has an image, which has the Ray of the run; None where the nodes have it."""
        return next((one for one in self.groups if one.driver is not None and one.container is not None), None)

    def secrets_of(self, group: Group) -> tuple[str, ...]:
        """Return the names of the secrets that a group sees."""
        return self.secrets if group.secrets is None else group.secrets

    def group(self, name: str) -> Group:
        """Return the group of that name; KeyError when the task has none."""
        for group in self.groups:
            if group.name == name:
                return group
        raise KeyError(name)

    def with_slices(self, counts: Mapping[str, int]) -> "Task":
        """Return the task with these numbers of slices, by group; other groups keep theirs."""
        groups = (
            replace(group, topology=replace(group.topology, slices=counts[group.name]))
            if counts.get(group.name, group.topology.slices) != group.topology.slices
            else group
            for group in self.groups
        )
        return replace(self, groups=tuple(groups))

    def full(self) -> "Task":
        """Return the task with as many slices as each group may have."""
        most = {group.name: group.topology.max_slices for group in self.groups}
        return self.with_slices({name: slices for name, slices in most.items() if slices is not None})

    def colocated_groups(self, name: str) -> tuple[Group, ...]:
        """Return the groups that run on the nodes of a group, in task order."""
        return tuple(group for group in self.groups if group.topology.nodes_of == name)


def owner_rank(rule: TopologyRule, owner: TopologyRule, index: int, at: int) -> int:
    """Return the rank of the owner that shares its node with a colocated member.

    The member is number `at` of slice `index`. `rule` is the colocated group's own rule, `owner` that of the group it
    names in `nodes_of`.
    """
    slices_each = max(1, owner.nodes_per_slice // rule.nodes_per_slice)
    return index // slices_each * owner.nodes_per_slice + index % slices_each * rule.nodes_per_slice + at
