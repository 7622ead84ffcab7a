"""SkyPilot's keys for clouds, which are ignored with a warning, or refused.

A key is refused if the task would not run the same without it. From sky/utils/schemas.py of SkyPilot 0.14.1. Each row
has the key, the reason, and what to use instead.
"""

from dataclasses import dataclass

from launcher.config.schema.fields import Field, Use, section
from launcher.config.schema.scalars import Integer
from launcher.config.schema.value_types import Schema, invalid
from launcher.config.yaml.diagnostics import KeyPath
from launcher.config.yaml.nodes import MappingNode, ScalarKind, ScalarNode, YamlNode
from launcher.config.yaml.values import Values


def _ignored(name: str, why: str, instead: str | None = None) -> Field:
    return Field(name=name, doc="A key of SkyPilot.", use=Use.IGNORED, why=why, instead=instead)


def _refused(name: str, why: str, instead: str) -> Field:
    return Field(name=name, doc="A key of SkyPilot.", use=Use.REFUSED, why=why, instead=instead)


@dataclass(frozen=True, slots=True)
class Unread:
    """A value that has no effect.

    With `why` there is a warning that gives this reason.
    """

    expected: str = "anything"
    why: str = ""
    hint: str | None = None

    def read(self, node: YamlNode, at: KeyPath) -> YamlNode:
        """Return the node itself."""
        if self.why:
            at.out.warn(node.mark, f"`{at.name}` has no effect: {self.why}", self.hint)
        return node

    def schema(self) -> Schema:
        """Return the schema of any value."""
        return {}


_WHERE = "the machines are those of the inventory"
_RACKS = "choose racks with `topology: {racks: [...]}`"
_WHOLE = "a task can use all CPUs, memory and disks of its nodes"
_MINE = "nodes are not rented"
SHARED = "put the data on a file system that the nodes share, and use its path"
INTERNAL = "it is internal to SkyPilot"
_RECOVERY = "set the number of restarts with `recovery: {max_restarts: N}`"
_FAULTS = "node faults are always recovered, in the same inventory"

RESTARTS = "max_restarts_on_errors"
MAX_RESTARTS = 1_000_000
_JOB_RECOVERY = section(
    _ignored("strategy", _FAULTS),
    Field(name=RESTARTS, doc="The same as `max_restarts` of `recovery`.", type=Integer(high=MAX_RESTARTS), default=0),
    _ignored("recover_on_exit_codes", "the program is restarted after any exit code but 0, up to `max_restarts` times"),
    rest=Unread(why="there are no plug-ins"),
)


@dataclass(frozen=True, slots=True)
class JobRecovery:
    """The name of a strategy, or a mapping.

    Only the number of restarts has an effect.
    """

    expected: str = "a mapping such as `{max_restarts_on_errors: 3}`"

    def read(self, node: YamlNode, at: KeyPath) -> Values:
        """Return the mapping; an empty one for the name of a strategy."""
        if isinstance(node, MappingNode):
            return _JOB_RECOVERY.read(node, at)
        if not isinstance(node, ScalarNode) or node.kind is not ScalarKind.TEXT:
            raise invalid(node, at, self.expected)
        at.out.warn(node.mark, f"`{at.name}: {node.text}` has no effect: {_FAULTS}", _RECOVERY)
        return Values(node.mark)

    def schema(self) -> Schema:
        """Return both spellings."""
        return {"anyOf": [{"type": "string"}, _JOB_RECOVERY.schema()]}


JOB_RECOVERY = Field(
    name="job_recovery",
    doc="A key of SkyPilot: `max_restarts_on_errors` is `max_restarts` of `recovery`.",
    type=JobRecovery(),
)

RESOURCES_ELSEWHERE = (
    _ignored("infra", _WHERE, _RACKS),
    _ignored("cloud", _WHERE, _RACKS),
    _ignored("region", _WHERE, _RACKS),
    _ignored("zone", _WHERE, _RACKS),
    _ignored("instance_type", _WHERE),
    _ignored("cpus", _WHOLE),
    _ignored("memory", _WHOLE),
    _ignored("disk_size", _WHOLE),
    _ignored("disk_tier", _WHOLE),
    _ignored("ephemeral_storage", _WHOLE),
    _ignored("local_disk", _WHOLE),
    _ignored("network_tier", "the fabric of the rack is always used"),
    _ignored("use_spot", _MINE),
    _ignored("max_hourly_cost", _MINE),
    _ignored(
        "autostop", "a run releases its nodes when its program ends", "end a run earlier with `nvlaunch down RUN`"
    ),
    _ignored("labels", "runs have names instead"),
    _ignored("priority_class", "there are no classes", "use `priority`"),
    _refused("spot_recovery", "SkyPilot has replaced it by `job_recovery`", _RECOVERY),
    _refused(
        "accelerator_args", "it is for TPUs, which no inventory has", "request the GPUs of your nodes, and remove it"
    ),
    _refused("volumes", "there are no cloud disks", SHARED),
    _refused("_docker_login_config", INTERNAL, "remove it"),
    _refused("_is_image_managed", INTERNAL, "remove it"),
    _refused("_requires_fuse", INTERNAL, "remove it"),
    _refused("_cluster_config_overrides", INTERNAL, "remove it"),
    _refused("_no_missing_accel_warnings", INTERNAL, "remove it"),
)

_ROLES = "to run several programs together, use `groups:` of one task"
_HEADER = "it belongs in the first document of a job group, before its tasks"
CLOUDS = "it configures clouds, Kubernetes and Slurm"
_HOOKS = "handle `stop_signal` in the program: it has `stop_grace` seconds to write a checkpoint"

CONFIG_ELSEWHERE = (_refused("hooks", "no command runs when ranks are stopped", _HOOKS),)

JOB_GROUP_ELSEWHERE = (_ignored("inter_connection", "nvlaunch does not configure the network between nodes"),)

TASK_ELSEWHERE = (
    _ignored("experimental", CLOUDS),
    _ignored("api_server_access", "there is no API server"),
    _ignored("event_callback", "SkyPilot's callbacks are not called", "use `on_event`, which gets each event as JSON"),
    _ignored("inputs", "sizes are not estimated"),
    _ignored("outputs", "sizes are not estimated"),
    _refused("managed_secrets", "there is no server for secrets", "use `secrets:` with `--secret NAME`"),
    _refused("execution", _HEADER, _ROLES),
    _refused("primary_tasks", _HEADER, _ROLES),
    _refused("termination_delay", _HEADER, _ROLES),
    _refused("inter_connection", _HEADER, _ROLES),
    _refused("file_mounts_mapping", INTERNAL, "remove it"),
    _refused("volume_mounts", INTERNAL, "remove it"),
    _refused("_metadata", INTERNAL, "remove it"),
    _refused("_user_specified_yaml", INTERNAL, "remove it"),
)


GROUPS_ELSEWHERE = _refused("groups", "each task of a job group is one group", "write one document per group")


def of_the_run(row: Field) -> Field:
    """Return a field that refuses a key which applies to the whole run."""
    return _refused(row.name, "it applies to the whole run", "move it to the first document, beside `execution`")


def of_all_alternatives(row: Field) -> Field:
    """Return a field that refuses a key which applies to all alternatives."""
    return _refused(row.name, "it applies to all alternatives", "move it out of the list, into `resources`")
