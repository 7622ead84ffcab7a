"""SkyPilot's keys that mean a cloud: accepted with a warning where the task runs the same, else refused with reason.

From sky/utils/schemas.py of SkyPilot 0.14.1.
"""

from dataclasses import dataclass

from launcher.config.schema.fields import Field, Use, section
from launcher.config.schema.shapes import Schema, Whole, wrong
from launcher.config.yaml.nodes import Kind, Node, Pairs, Scalar
from launcher.config.yaml.reading import Spot, Values


def _ignored(name: str, why: str, instead: str | None = None) -> Field:
    return Field(name=name, doc="SkyPilot's.", use=Use.IGNORED, why=why, instead=instead)


def _refused(name: str, why: str, instead: str) -> Field:
    return Field(name=name, doc="SkyPilot's.", use=Use.REFUSED, why=why, instead=instead)


@dataclass(frozen=True, slots=True)
class Unread:
    """A value that nothing here depends on; with `why`, that is told."""

    word: str = "anything"
    why: str = ""

    def read(self, node: Node, at: Spot) -> Node:
        """Return the value as it stands."""
        if self.why:
            at.out.warn(node.mark, f"`{at.name}` has no effect: {self.why}")
        return node

    def schema(self) -> Schema:
        """Return the schema of everything."""
        return {}


_WHERE = "the inventory says which machines there are"
_RACKS = "choose racks with `topology: {racks: [...]}`"
_WHOLE = "a task has the CPUs, the memory and the disks of its nodes"
_MINE = "the machines are yours, and nothing is rented"
SHARED = "put the data on a file system that the nodes share, and read it by its path"
INTERNAL = "it is internal to SkyPilot"
_RECOVERY = "`recovery: {max_restarts: N}` says how often a failed program starts again"
_FAULTS = "a node fault is always recovered from, and there is one place to run"
_CONTAINER = "install what is needed in `setup:`, or let `run:` start the container"

RESTARTS = "max_restarts_on_errors"
_JOB_RECOVERY = section(
    _ignored("strategy", _FAULTS),
    Field(name=RESTARTS, doc="As `max_restarts` of `recovery`.", shape=Whole(low=0), default=0),
    _ignored("recover_on_exit_codes", "every exit code but 0 starts the program again, up to `max_restarts` times"),
    rest=Unread(why="there are no plug-ins"),
)


@dataclass(frozen=True, slots=True)
class JobRecovery:
    """SkyPilot's two spellings: the name of a strategy, or a mapping. Of these, the number of restarts counts."""

    word: str = "a mapping such as `{max_restarts_on_errors: 3}`"

    def read(self, node: Node, at: Spot) -> Values:
        """Return the mapping; one without any key for a strategy alone."""
        if isinstance(node, Pairs):
            return _JOB_RECOVERY.read(node, at)
        if not isinstance(node, Scalar) or node.kind is not Kind.TEXT:
            raise wrong(node, at, self.word)
        at.out.warn(node.mark, f"`{at.name}: {node.text}` has no effect: {_FAULTS}", _RECOVERY)
        return Values(node.mark)

    def schema(self) -> Schema:
        """Return both spellings."""
        return {"anyOf": [{"type": "string"}, _JOB_RECOVERY.schema()]}


JOB_RECOVERY = Field(
    name="job_recovery", doc="SkyPilot's: `max_restarts_on_errors` is `recovery.max_restarts`.", shape=JobRecovery()
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
    _ignored("network_tier", "a rack's own fabric is always used"),
    _ignored("use_spot", _MINE),
    _ignored("max_hourly_cost", _MINE),
    _ignored("autostop", "a run gives its nodes back when its program ends", "`nvlaunch down RUN` ends it earlier"),
    _ignored("ports", "no firewall is changed: every port of a node is as open as your network makes it"),
    _ignored("labels", "runs are told apart by their names"),
    _ignored("priority_class", "there are no classes"),
    _refused("spot_recovery", "SkyPilot calls it `job_recovery` now", _RECOVERY),
    _refused("image_id", "ranks run on the nodes as they are, not in a container or an image", _CONTAINER),
    _refused("accelerator_args", "it is for TPUs", "remove it"),
    _refused("volumes", "there are no cloud disks", SHARED),
    _refused("_docker_login_config", INTERNAL, "remove it"),
    _refused("_is_image_managed", INTERNAL, "remove it"),
    _refused("_requires_fuse", INTERNAL, "remove it"),
    _refused("_cluster_config_overrides", INTERNAL, "remove it"),
    _refused("_no_missing_accel_warnings", INTERNAL, "remove it"),
)

_ROLES = "roles that run together are `groups:` of one task"
_HEADER = "it belongs in a document of its own, before the tasks of a job group"
_CLOUDS = "it configures clouds, Kubernetes and Slurm"
_HOOKS = (
    "each rank gets `stop_signal`, and `stop_grace` seconds to write a checkpoint: let the program handle the signal"
)

_CONFIG = section(
    _refused("hooks", "nothing runs beside the ranks when they stop", _HOOKS),
    rest=Unread(why=_CLOUDS),
)

JOB_GROUP_ELSEWHERE = (_ignored("inter_connection", "nodes reach each other as your network lets them"),)

TASK_ELSEWHERE = (
    Field(name="config", doc="SkyPilot's.", shape=_CONFIG),
    _ignored("experimental", _CLOUDS),
    _ignored("api_server_access", "there is no API server"),
    _ignored("event_callback", "nothing is called with its variables", "`on_event` is called with each event as JSON"),
    _ignored("inputs", "sizes are not estimated"),
    _ignored("outputs", "sizes are not estimated"),
    _refused("managed_secrets", "there is no server that keeps secrets", "use `secrets:` with `--secret NAME`"),
    _refused("volumes", "there are no cloud disks", SHARED),
    _refused("service", "nothing is served behind a load balancer", "remove it: `run` starts the server on each node"),
    _refused("pool", "runs take their nodes from the inventory", "remove it"),
    _refused("execution", _HEADER, _ROLES),
    _refused("primary_tasks", _HEADER, _ROLES),
    _refused("termination_delay", _HEADER, _ROLES),
    _refused("inter_connection", _HEADER, _ROLES),
    _refused("file_mounts_mapping", INTERNAL, "remove it"),
    _refused("volume_mounts", INTERNAL, "remove it"),
    _refused("_metadata", INTERNAL, "remove it"),
    _refused("_user_specified_yaml", INTERNAL, "remove it"),
)


GROUPS_ELSEWHERE = _refused("groups", "a task of a job group is one group", "give each group a document of its own")


def of_the_run(row: Field) -> Field:
    """Return the row of a key that a task of a job group may not have: it is said of all of them."""
    return _refused(row.name, "it is said of the whole run", "write it in the first document, beside `execution`")


def of_all_alternatives(row: Field) -> Field:
    """Return the row of a key that one of several alternatives may not have: it is said of whichever is taken."""
    return _refused(row.name, "it is said of all alternatives", "write it beside them, under `resources`")
