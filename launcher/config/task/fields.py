"""The table of a task's keys: SkyPilot's and ours. The parser, the JSON Schema and the starter file follow it.

What no code runs yet is named in `unsupported`, which `_built` follows.
"""

from dataclasses import replace

from launcher.config.schema.fields import Field, Section, Use, section
from launcher.config.schema.patterns import env_name, group_name, task_name
from launcher.config.schema.shapes import Choice, Duration, ListOf, MapOf, Text, Truth, Whole
from launcher.config.schema.unsupported import as_built
from launcher.config.schema.values import Accelerators, Script, Variable, Workdir, variables
from launcher.config.task.skypilot import (
    GROUPS_ELSEWHERE,
    JOB_GROUP_ELSEWHERE,
    JOB_RECOVERY,
    RESOURCES_ELSEWHERE,
    TASK_ELSEWHERE,
    Unread,
    of_all_alternatives,
    of_the_run,
)
from launcher.config.task.storage import MountSource

LATER = Use.LATER


def _built(*rows: Field, word: str = "a mapping") -> Section:
    return section(*map(as_built, rows), word=word)


_LEVEL = Text(
    word="a level: `node`, `rack`, `any`, or one of the inventory", pattern=r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,61}"
)
_GLOBS = ListOf(item=Text(word="a name or a pattern such as `r1*`", pattern=r"[^\s]+", numbers=True), single=True)

_KINDS = "`GB300:4`, `{GB300: 4}`, or `GB300` for one; of a list, the first that fits"
_ACCELERATORS = (
    Field(name="accelerators", doc=f"GPUs of each node: {_KINDS}.", shape=Accelerators(), value=True),
    Field(name="gpus", doc="Another name of `accelerators`.", shape=Accelerators(), value=True),
)
_OF_ALL = (
    Field(name="priority", doc="As `priority` of the task.", shape=Whole(low=-1000, high=1000), default=0),
    JOB_RECOVERY,
)
_ALTERNATIVES = ListOf(
    item=_built(*_ACCELERATORS, *map(of_all_alternatives, _OF_ALL), *RESOURCES_ELSEWHERE),
    word="a list of resources",
    filled=True,
)

RESOURCES = _built(
    *_ACCELERATORS,
    *_OF_ALL,
    Field(name="any_of", doc="Resources to choose from: the first that fits is taken.", shape=_ALTERNATIVES),
    Field(name="ordered", doc="Another name of `any_of`.", shape=_ALTERNATIVES),
    *RESOURCES_ELSEWHERE,
    word="a mapping such as `{accelerators: GB300:4}`",
)

TOPOLOGY = section(
    Field(name="slices", doc="How many slices the nodes come in.", shape=Whole(low=1)),
    Field(name="nodes_per_slice", doc="Nodes of each slice.", shape=Whole(low=1)),
    Field(name="gpus_per_slice", doc="GPUs of each slice, instead of `nodes_per_slice`.", shape=Whole(low=1)),
    Field(
        name="within",
        doc="The level that no slice may cross: `node`, `rack`, `any`, or a level of the inventory. Two levels, as in "
        "`[block, rack]`: the first is for all slices together.",
        shape=ListOf(item=_LEVEL, word="a level, or a list of two", single=True, filled=True),
        default="rack",
    ),
    Field(name="prefer", doc="The level at which slices should be near each other, if possible.", shape=_LEVEL),
    Field(
        name="balance",
        doc="The level whose places should have equally many nodes of the group, if possible, in as few as hold them.",
        shape=_LEVEL,
    ),
    Field(name="spread", doc="The level at which no two slices may share a place.", shape=_LEVEL),
    Field(name="spread_members", doc="The level at which no two nodes of a slice may share a place.", shape=_LEVEL),
    Field(name="exclusive", doc="The level at which no other run may share a place.", shape=_LEVEL),
    Field(
        name="near", doc="The group of which a slice must be in the same rack, or place at `within`.", shape=group_name
    ),
    Field(
        name="apart_from",
        doc="The group of which no slice may be in the same rack, or place at `spread`.",
        shape=group_name,
    ),
    Field(
        name="nodes_of",
        doc="The group on whose nodes this one sits, member by member, with what GPUs that one leaves free; all other "
        "words about places are then for that group.",
        shape=group_name,
    ),
    Field(name="spares", doc="Nodes kept free for each slice in its own domain.", shape=Whole(low=0), default=0),
    Field(
        name="spares_per_rack",
        doc="Nodes kept free once for all slices of a rack.",
        shape=Whole(low=0),
        default=0,
    ),
    Field(name="racks", doc="The only racks to use; patterns such as `r1*` are allowed.", shape=_GLOBS),
    Field(name="exclude_racks", doc="Racks not to use.", shape=_GLOBS),
    Field(name="nodes", doc="The only nodes to use; patterns and ranges such as `r07-n[01-16]` too.", shape=_GLOBS),
    Field(name="exclude_nodes", doc="Nodes not to use.", shape=_GLOBS),
)

RECOVERY = _built(
    Field(
        name="max_restarts",
        doc="Restarts of the gang for the program's own failures; node faults do not count.",
        shape=Whole(low=0),
        default=3,
    ),
    Field(
        name="node_attempts",
        doc="Starts again on the same node before it is failed.",
        shape=Whole(low=0),
        default=2,
    ),
    Field(
        name="restart_with",
        doc="Who starts again when a rank of the group fails.",
        shape=Choice(message=("run", "group", "member")),
        default="run",
    ),
    Field(
        name="on_no_spare",
        doc="What happens when a node must be replaced and its domain has none to spare.",
        shape=Choice(message=("wait", "relocate", "fail")),
        default="wait",
    ),
    Field(
        name="hang_after",
        doc="Seconds without a sign of life from a rank after which it hangs.",
        shape=Duration(above=True),
    ),
)

_ROLE = (
    Field(name="num_nodes", doc="Nodes in all.", shape=Whole(low=1, high=100_000), default=1, value=True),
    Field(name="resources", doc="What each node must have.", shape=RESOURCES),
    Field(name="topology", doc="How many slices of how many nodes, and where they may be.", shape=TOPOLOGY),
    Field(name="envs", doc="Variables of the commands; null for one that `--env` must give.", shape=variables),
    Field(name="setup", doc="Runs once on each node before `run`.", shape=Script()),
    Field(name="run", doc="The command that every rank runs.", shape=Script(), value=True),
    Field(name="recovery", doc="What is tried before a run is given up.", shape=RECOVERY),
    Field(name="driver", doc="A command that runs once, on the head, instead of `run`.", shape=Script()),
    Field(
        name="reserve",
        doc="Whether nodes are reserved for a `driver`.",
        shape=Truth(),
        default=False,
    ),
)

GROUP = _built(*_ROLE, word="a mapping with `run` and `topology`")

_MOUNTS = MapOf(item=MountSource(), keys=Text(word="a path on the nodes", pattern=r"[^\s].*"))
_SECRETS = MapOf(
    item=Variable(secret=True),
    keys=env_name,
    word="a mapping of names to null",
    hint="write `secrets: {NAME: null}`, and give it with `--secret NAME`",
)

_NAME = Field(name="name", doc="The name of the task and, without `--name`, of its run.", shape=task_name)
_OWN = (
    Field(name="workdir", doc="A local folder, copied to each node; `setup` and `run` start in it.", shape=Workdir()),
    Field(name="secrets", doc="Variables kept out of every log; null for one that `--secret` gives.", shape=_SECRETS),
    Field(
        name="file_mounts",
        doc="Local files and folders to copy, by where they go on the nodes; a relative path is in the workdir.",
        shape=_MOUNTS,
        default={},
    ),
)
_GROUPS = Field(
    name="groups",
    doc="Named roles, instead of one `run`; each takes what it does not say from the task.",
    shape=MapOf(item=GROUP, keys=group_name, word="a mapping of names to groups", filled=True),
)
_RUN = (
    Field(
        name="stop_signal",
        doc="The signal that ranks get before they are stopped.",
        shape=Choice(message=("TERM", "INT", "HUP", "QUIT", "USR1", "USR2"), prefix="SIG"),
        default="TERM",
    ),
    Field(name="stop_grace", doc="Seconds from that signal to the kill.", shape=Duration(), default=60),
    Field(name="time_limit", doc="How long the run may take.", shape=Duration(above=True)),
    Field(
        name="priority",
        doc="Which run goes first where not all fit.",
        shape=Whole(low=-1000, high=1000),
        default=0,
    ),
    Field(name="preemptible", doc="Whether others may take its nodes.", shape=Truth(), default=False),
    Field(name="on_event", doc="A command that gets each event as JSON.", shape=Script()),
)

TASK = _built(_NAME, *_ROLE, _GROUPS, *_OWN, *_RUN, *TASK_ELSEWHERE)

# SkyPilot's job groups: the first document, and each task after it (sky/utils/dag_utils.py, _load_job_group).
HEADER = _built(
    replace(_NAME, required=True),
    Field(name="execution", doc="How the tasks run.", shape=Choice(message=("serial", "parallel"))),
    Field(name="primary_tasks", doc="Tasks that the others end with.", shape=ListOf(item=task_name)),
    Field(name="termination_delay", doc="When the others end.", shape=Unread()),
    *_RUN,
    *JOB_GROUP_ELSEWHERE,
)
MEMBER = _built(replace(_NAME, required=True), *_ROLE, *_OWN, *map(of_the_run, _RUN), GROUPS_ELSEWHERE, *TASK_ELSEWHERE)
