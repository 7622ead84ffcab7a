"""SkyPilot's keys that mean a cloud: accepted with a warning where the task runs the same, else refused with reason.

From sky/utils/schemas.py of SkyPilot 0.14.1.
"""

from launcher.spec.fields import Field, Use


def _ignored(name: str, why: str, instead: str | None = None) -> Field:
    return Field(name=name, doc="SkyPilot's.", use=Use.IGNORED, why=why, instead=instead)


def _refused(name: str, why: str, instead: str) -> Field:
    return Field(name=name, doc="SkyPilot's.", use=Use.REFUSED, why=why, instead=instead)


_WHERE = "the inventory says which machines there are"
_RACKS = "choose racks with `topology: {racks: [...]}`"
_WHOLE = "a task has the CPUs, the memory and the disks of its nodes"
_MINE = "the machines are yours: nothing is rented, and nothing stops by itself"
_SHARED = "put the data on a file system that the nodes share, and read it by its path"
_INTERNAL = "it is internal to SkyPilot"
_RECOVERY = "`recovery: {max_restarts: N}` says how often a failed program starts again"

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
    _ignored("autostop", _MINE, "`nvlaunch down RUN` ends a run"),
    _ignored("ports", "no firewall is changed: every port of a node is as open as your network makes it"),
    _ignored("labels", "runs are told apart by their names"),
    _ignored("priority_class", "there are no classes"),
    _ignored("job_recovery", "a node fault is always recovered from", _RECOVERY),
    _refused("spot_recovery", "SkyPilot calls it `job_recovery` now", _RECOVERY),
    _refused("image_id", "ranks run on the nodes themselves, not in containers", "install what is needed in `setup:`"),
    _refused("accelerator_args", "it is for TPUs", "remove it"),
    _refused("volumes", "there are no cloud disks", _SHARED),
    _refused("_docker_login_config", _INTERNAL, "remove it"),
    _refused("_is_image_managed", _INTERNAL, "remove it"),
    _refused("_requires_fuse", _INTERNAL, "remove it"),
    _refused("_cluster_config_overrides", _INTERNAL, "remove it"),
    _refused("_no_missing_accel_warnings", _INTERNAL, "remove it"),
)

_ROLES = "roles that run together are `groups:` of one task"

TASK_ELSEWHERE = (
    _ignored("config", "it configures clouds, Kubernetes and Slurm"),
    _ignored("experimental", "it configures clouds"),
    _ignored("api_server_access", "there is no API server"),
    _ignored("event_callback", "nothing is called", "`nvlaunch events RUN -o json` tells what happens"),
    _ignored("inputs", "sizes are not estimated"),
    _ignored("outputs", "sizes are not estimated"),
    _refused("managed_secrets", "there is no server that keeps secrets", "use `secrets:` with `--secret NAME`"),
    _refused("volumes", "there are no cloud disks", _SHARED),
    _refused("service", "nothing is served behind a load balancer", "start the server in `run:`"),
    _refused("pool", "runs take their nodes from the inventory", "remove it"),
    _refused("execution", "pipelines and job groups of SkyPilot are not read", _ROLES),
    _refused("primary_tasks", "pipelines and job groups of SkyPilot are not read", _ROLES),
    _refused("termination_delay", "pipelines and job groups of SkyPilot are not read", _ROLES),
    _refused("file_mounts_mapping", _INTERNAL, "remove it"),
    _refused("volume_mounts", _INTERNAL, "remove it"),
    _refused("_metadata", _INTERNAL, "remove it"),
    _refused("_user_specified_yaml", _INTERNAL, "remove it"),
)
