"""The table of a task's keys, ours and SkyPilot's.

The parser, the JSON Schema and the documentation use it. Keys that `unsupported` lists are refused; `_built` applies
that list.
"""

from dataclasses import replace

from launcher.config.schema.containers import ListOf, MapOf
from launcher.config.schema.fields import Field, Section, section
from launcher.config.schema.patterns import env_name, group_name, task_name
from launcher.config.schema.scalars import Boolean, Choice, Duration, Integer, Text
from launcher.config.schema.unsupported import as_built
from launcher.config.schema.variables import Variable, variables
from launcher.config.task.container import CONTAINER_FIELD, IMAGE_ID_FIELD
from launcher.config.task.recovery import RECOVERY
from launcher.config.task.skypilot_docker import CONFIG, VOLUMES
from launcher.config.task.skypilot_keys import (
    GROUPS_ELSEWHERE,
    JOB_GROUP_ELSEWHERE,
    JOB_RECOVERY,
    RESOURCES_ELSEWHERE,
    TASK_ELSEWHERE,
    Unread,
    of_all_alternatives,
    of_the_run,
)
from launcher.config.task.skypilot_service import POOL, PORTS, SERVICE
from launcher.config.task.skypilot_storage import MountSource
from launcher.config.task.slice_range import MAX_NODES, SLICES
from launcher.config.task.traffic import TRAFFIC
from launcher.config.task.value_types import MAX_COUNT, Accelerators, Script
from launcher.config.task.workdir import Workdir


def _built(*rows: Field, expected: str = "a mapping") -> Section:
    return section(*map(as_built, rows), expected=expected)


def _stated(*rows: Field) -> Section:
    """Return a section of our own keys, none of which may be empty: that would mean a default that nobody wrote."""
    return _built(*(replace(row, filled=True) for row in rows))


_LEVEL = Text(
    expected="a level: `node`, `rack`, `any`, or a level of the inventory", pattern=r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,61}"
)
_GLOBS = ListOf(item=Text(expected="a name or a pattern such as `r1*`", pattern=r"[^\s]+", numbers=True), single=True)

_KINDS = "`GB300:4`, `{GB300: 4}`, or `GB300` for one; from a list, the first that fits"
_ACCELERATORS = (
    Field(name="accelerators", doc=f"GPUs of each node: {_KINDS}.", type=Accelerators(), filled=True),
    Field(name="gpus", doc="Another name for `accelerators`.", type=Accelerators(), filled=True),
)
_OF_ALL = (
    Field(name="priority", doc="The same as `priority` of the task.", type=Integer(low=-1000, high=1000), default=0),
    JOB_RECOVERY,
    IMAGE_ID_FIELD,
)
_ALTERNATIVES = ListOf(
    item=_built(*_ACCELERATORS, *map(of_all_alternatives, _OF_ALL), PORTS, *RESOURCES_ELSEWHERE),
    expected="a list of resources",
    filled=True,
)

RESOURCES = _built(
    *_ACCELERATORS,
    *_OF_ALL,
    Field(name="any_of", doc="Alternative resources; the first that fits is used.", type=_ALTERNATIVES),
    Field(name="ordered", doc="Another name for `any_of`.", type=_ALTERNATIVES),
    PORTS,
    *RESOURCES_ELSEWHERE,
    expected="a mapping such as `{accelerators: GB300:4}`",
)

TOPOLOGY = _stated(
    Field(
        name="slices",
        doc="Number of slices; a range such as `{min: 6, max: 8}` with `on_no_spare: shrink`.",
        type=SLICES,
    ),
    Field(name="nodes_per_slice", doc="Nodes of each slice.", type=Integer(low=1, high=MAX_NODES)),
    Field(
        name="gpus_per_slice",
        doc="GPUs of each slice, instead of `nodes_per_slice`.",
        type=Integer(low=1, high=MAX_NODES * MAX_COUNT),
    ),
    Field(
        name="within",
        doc="The level that each slice must fit into: `node`, `rack`, `any`, or a level of the inventory. Of two "
        "levels, such as `[block, rack]`, all slices together must fit into the first.",
        type=ListOf(item=_LEVEL, expected="a level, or a list of two", single=True, filled=True),
        default="rack",
    ),
    Field(name="prefer", doc="The level at which slices should share a place, if possible.", type=_LEVEL),
    Field(
        name="balance",
        doc="The level at which to use few places, with the same number of nodes in each, if possible.",
        type=_LEVEL,
    ),
    Field(name="spread", doc="The level at which no two slices may share a place.", type=_LEVEL),
    Field(name="spread_members", doc="The level at which no two nodes of a slice may share a place.", type=_LEVEL),
    Field(name="exclusive", doc="The level at which no other run may share a place.", type=_LEVEL),
    Field(
        name="near",
        doc="The group that must have a slice in the same rack, or in the same place at `within`.",
        type=group_name,
    ),
    Field(
        name="apart_from",
        doc="The group that must have no slice in the same rack, or in the same place at `spread`.",
        type=group_name,
    ),
    Field(
        name="nodes_of",
        doc="The group whose nodes this group uses too, one member a node, with the GPUs that are left free there. It "
        "cannot have other placement keys.",
        type=group_name,
    ),
    Field(
        name="spares",
        doc="Nodes kept free for each slice, in its own rack, or its place at `within`.",
        type=Integer(high=10_000),
        default=0,
    ),
    Field(
        name="spares_per_rack",
        doc="Nodes kept free in each rack, shared by its slices.",
        type=Integer(high=10_000),
        default=0,
    ),
    Field(name="racks", doc="The only racks to use, as names or patterns such as `r1*`.", type=_GLOBS),
    Field(name="exclude_racks", doc="Racks not to use.", type=_GLOBS),
    Field(name="nodes", doc="The only nodes to use, as names, patterns or ranges such as `r07-n[01-16]`.", type=_GLOBS),
    Field(name="exclude_nodes", doc="Nodes not to use.", type=_GLOBS),
)

_ROLE = (
    Field(name="num_nodes", doc="Total number of nodes.", type=Integer(low=1, high=MAX_NODES), default=1, filled=True),
    Field(name="resources", doc="What each node must have.", type=RESOURCES),
    Field(name="topology", doc="Number and size of slices, and where they may be placed.", type=TOPOLOGY),
    Field(name="envs", doc="Variables of the commands; null if `--env` must give the value.", type=variables),
    CONTAINER_FIELD,
    Field(name="setup", doc="The command that runs once on each node before `run`.", type=Script()),
    Field(name="run", doc="The command that every rank runs.", type=Script(), filled=True),
    Field(name="recovery", doc="Restarts and replacements after failures.", type=RECOVERY),
    Field(name="driver", doc="A command that runs once, on the node of rank 0, instead of `run`.", type=Script()),
    Field(
        name="reserve",
        doc="Whether to reserve the nodes in Ray for a `driver`.",
        type=Boolean(),
        default=False,
    ),
    Field(
        name="traffic",
        doc="What a GPU computes and sends in one step inside its slice; `plan` predicts the time of a step from it.",
        type=TRAFFIC,
    ),
)

GROUP = _built(*_ROLE, expected="a mapping with `run` and `topology`")

_MOUNTS = MapOf(item=MountSource(), keys=Text(expected="a path on the nodes", pattern=r"[^\s].*"))
_SECRETS = MapOf(
    item=Variable(secret=True),
    keys=env_name,
    expected="a mapping of names to null",
    hint="write `secrets: {NAME: null}`, and pass the value with `--secret NAME`",
)

_NAME = Field(name="name", doc="The name of the task, and of its run unless `--name` is given.", type=task_name)
_OWN = (
    Field(
        name="workdir",
        doc="A local folder, or `{url: ..., ref: ...}` of a git repository, copied to each node; `setup` and `run` "
        "start in it.",
        type=Workdir(),
    ),
    Field(
        name="secrets",
        doc="Variables that are not shown in logs; null if `--secret` gives the value.",
        type=_SECRETS,
    ),
    Field(
        name="file_mounts",
        doc="Local files and folders to copy, and buckets to copy or mount, by their path on the nodes; a relative "
        "path is in the workdir.",
        type=_MOUNTS,
        default={},
    ),
)
_GROUPS = Field(
    name="groups",
    doc="Named groups of nodes with a `run` each; keys that a group leaves out are those of the task.",
    type=MapOf(item=GROUP, keys=group_name, expected="a mapping of names to groups", filled=True),
)
_RUN = (
    Field(
        name="stop_signal",
        doc="The signal that ranks get before they are killed.",
        type=Choice(choices=("TERM", "INT", "HUP", "QUIT", "USR1", "USR2"), prefix="SIG"),
        default="TERM",
    ),
    Field(name="stop_grace", doc="Seconds from `stop_signal` to the kill.", type=Duration(), default=60),
    Field(name="time_limit", doc="The longest time that the run may take.", type=Duration(above=True, long=True)),
    Field(
        name="priority",
        doc="Runs of higher priority start first.",
        type=Integer(low=-1000, high=1000),
        default=0,
    ),
    Field(
        name="preemptible",
        doc="Whether runs of higher priority may stop this one to use its nodes.",
        type=Boolean(),
        default=False,
    ),
    Field(
        name="movable",
        doc="Whether `defrag` may move slices to other racks to make room; those of a `preemptible` run always may.",
        type=Boolean(),
        default=False,
    ),
    Field(
        name="dashboard",
        doc="Whether Ray's dashboard and job server run beside the head; they need `ray[default]` there.",
        type=Boolean(),
        default=False,
    ),
    Field(
        name="on_event",
        doc="A command that the launching machine runs for each event, with the event as JSON on stdin.",
        type=Script(),
    ),
)

TASK = _built(_NAME, *_ROLE, _GROUPS, *_OWN, *_RUN, SERVICE, POOL, CONFIG, VOLUMES, *TASK_ELSEWHERE)

# SkyPilot's job groups: the first document, and each task after it (sky/utils/dag_utils.py, _load_job_group).
HEADER = _built(
    replace(_NAME, required=True),
    Field(
        name="execution",
        doc="Whether the tasks run one after another or together.",
        type=Choice(choices=("serial", "parallel")),
    ),
    Field(name="primary_tasks", doc="Tasks whose end stops the others.", type=ListOf(item=task_name)),
    Field(name="termination_delay", doc="The delay before the others are stopped.", type=Unread()),
    *_RUN,
    *JOB_GROUP_ELSEWHERE,
)
MEMBER = _built(
    replace(_NAME, required=True),
    *_ROLE,
    *_OWN,
    *map(of_the_run, _RUN),
    SERVICE,
    POOL,
    CONFIG,
    VOLUMES,
    GROUPS_ELSEWHERE,
    *TASK_ELSEWHERE,
)
